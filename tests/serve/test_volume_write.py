"""Volumes that clients write: by hand, by qemu-img and fio, on a full pool, under kills of the daemon, on devices that
vanish and come back."""

import os
import random
import signal
import threading
import time

import tarnlib
import wire
from nbdlib import need, uri
from tarnlib import Failure, check, contains, eq, wait_for
from writelib import BLOCK, MIB, Writer, create, folder, read_stamp, reimport, stamp, verify

ROUNDS = 20 if os.environ.get('TARN_TEST_LONG') else 4


def volume(t, *options, size='64M', name='tank/v'):
    t.zfs('create', '-V', size, *options, name)
    return name


def test_written_is_read_again(t):
    create(t)
    volume(t, '-b', '16K')
    with Writer(t, 'tank/v') as w:
        for i, (at, n) in enumerate(((0, BLOCK), (3 * BLOCK, 5 * BLOCK), (1 << 20, 1 << 20), (123 * 512, 512))):
            w.write(at, bytes([i + 1]) * n)
            eq(w.get(at, n), bytes([i + 1]) * n)
        w.trim(1 << 20, 1 << 19)
        eq(w.get(1 << 20, 1 << 20), bytes(1 << 19) + b'\3' * (1 << 19))
        w.zero(4 * BLOCK, BLOCK)
        eq(w.get(3 * BLOCK, 2 * BLOCK), b'\2' * BLOCK + bytes(BLOCK))
        w.flush()
    t.zpool('export', 'tank')
    verify(t)
    reimport(t)
    with Writer(t, 'tank/v') as w:
        eq(w.get(0, BLOCK), b'\1' * BLOCK)
        eq(w.get(123 * 512, 512), b'\4' * 512)


def test_snapshots_and_clones_as_exports(t):
    create(t)
    volume(t)
    with Writer(t, 'tank/v') as w:
        w.write(0, b'a' * BLOCK)
        t.zfs('snapshot', 'tank/v@s')
        w.write(0, b'b' * BLOCK)
        t.zfs('clone', 'tank/v@s', 'tank/c')
        with Writer(t, 'tank/c') as c:
            eq(c.get(0, BLOCK), b'a' * BLOCK)
            c.write(0, b'c' * BLOCK)
        with Writer(t, 'tank/v@s') as s:
            eq(s.get(0, BLOCK), b'a' * BLOCK)
            check(s.error(wire.WRITE, 0, 0) in (1, 22))
        eq(w.get(0, BLOCK), b'b' * BLOCK)
    t.zfs('rollback', 'tank/v@s')
    with Writer(t, 'tank/v') as w:
        eq(w.get(0, BLOCK), b'a' * BLOCK)
    t.zpool('export', 'tank')
    verify(t)


def test_who_has_hung_up_is_in_nobodys_way(t):
    create(t)
    for turn in range(6):
        volume(t, size='16M')
        with Writer(t, 'tank/v') as w:
            w.write(0, b'a' * MIB)
        t.zfs('snapshot', 'tank/v@s')
        with Writer(t, 'tank/v') as w:
            w.write(0, b'b' * MIB)
        t.zfs('rollback', 'tank/v@s')
        with Writer(t, 'tank/v') as w:
            eq(w.get(0, MIB), b'a' * MIB)
        t.zfs('destroy', '-r', 'tank/v')
    volume(t, size='16M')
    with Writer(t, 'tank/v'):
        contains(t.zfs('destroy', 'tank/v', code=1).err, 'dataset is busy')


def test_standard_clients(t):
    need('qemu-img', 'fio')
    create(t, n=4)
    volume(t, '-b', '128K')
    source = os.path.join(t.dir, 'source.img')
    with open(source, 'wb') as f:
        f.truncate(64 * MIB)
        for at in range(0, 64, 3):
            f.seek(at * MIB)
            f.write(random.Random(at).randbytes(MIB))
    t.run('qemu-img', 'convert', '-n', '-f', 'raw', '-O', 'raw', source, uri(t, 'tank/v'))
    t.run('qemu-img', 'compare', '-f', 'raw', '-F', 'raw', source, uri(t, 'tank/v'))
    t.run('fio', '--name=x', '--ioengine=nbd', '--uri=' + uri(t, 'tank/v'), '--rw=randrw', '--bsrange=512-256k',
          '--blockalign=512', '--iodepth=32', '--io_size=64M', '--size=64M', '--verify=crc32c', '--fsync=50', timeout=240, cwd=t.dir)
    t.zpool('export', 'tank')
    verify(t)


def test_every_block_size(t):
    create(t, size=512 * MIB)
    for block in (512, 4096, 65536, 1 << 20, 16 << 20):
        name = volume(t, '-s', '-b', str(block), size='64M', name='tank/b%d' % block)
        with Writer(t, name) as w:
            w.write(5 * BLOCK, b'x' * BLOCK)
            w.write(32 * MIB, b'y' * (1 << 18))
            w.flush()
            eq(w.get(5 * BLOCK, BLOCK), b'x' * BLOCK)
    t.zpool('export', 'tank')
    verify(t)
    reimport(t)
    for block in (512, 4096, 65536, 1 << 20, 16 << 20):
        with Writer(t, 'tank/b%d' % block) as w:
            eq(w.get(32 * MIB, 1 << 18), b'y' * (1 << 18))


def fill(t, name, limit):
    """Writes until there is no room, or to the limit; the bytes that went in."""
    done = 0
    with Writer(t, name) as w:
        while done < limit:
            data = random.Random(done).randbytes(MIB)
            w.send(wire.request(wire.WRITE, done, MIB) + data)
            error, _ = w.simple()
            if error:
                eq(error, 28, 'no room is ENOSPC')
                return done
            done += MIB
    return done


def test_a_full_pool_can_be_emptied(t):
    create(t, size=128 * MIB)
    for turn in range(3):
        volume(t, '-s', size='1G', name='tank/big')
        check(fill(t, 'tank/big', 1 << 30) < 128 * MIB, 'turn', turn)
        t.zfs('set', 'org.tarn:full=%d' % turn, 'tank')
        t.zfs('snapshot', 'tank@full%d' % turn, code=None)
        t.zfs('destroy', '-r', 'tank/big')
        t.zpool('wait', '-t', 'free', 'tank')
        t.zpool('sync', 'tank')
        t.zpool('sync', 'tank')
    t.zpool('export', 'tank')
    verify(t)


def test_what_is_reserved_is_there(t):
    for block in ('4K', '16K', '128K'):
        create(t, size=192 * MIB)
        volume(t, '-b', block, size='48M', name='tank/mine')
        volume(t, '-s', '-b', block, size='1G', name='tank/big')
        fill(t, 'tank/big', 1 << 30)
        for turn in range(3):
            eq(fill(t, 'tank/mine', 48 * MIB), 48 * MIB, block, 'turn', turn)
        t.zpool('export', 'tank')
        verify(t, theirs=False)


def test_nothing_acknowledged_is_lost_by_a_kill(t):
    """Blocks say what they are; each is written with rising numbers, now and then flushed. After a kill each holds at
    least what was flushed, at most what was sent, and nothing torn."""
    create(t, n=2)
    rnd = random.Random(7)
    volume(t, '-b', '16K', size='16M')
    volume(t, '-b', '8K', '-o', 'sync=always', size='16M', name='tank/s')
    blocks = 16 * MIB // BLOCK
    safe, sent = {}, {}
    for turn in range(ROUNDS):
        stop = threading.Event()

        def work(export, always):
            unsafe = {}
            try:
                with Writer(t, export) as w:
                    n = 0
                    while not stop.is_set():
                        n += 1
                        b = rnd.randrange(blocks)
                        sent[export, b] = sent.get((export, b), 0) + 1
                        fua = wire.FLAG_FUA if not always and rnd.random() < 0.05 else 0
                        w.write(b * BLOCK, stamp(b, sent[export, b]), flags=fua)
                        if always or fua:
                            safe[export, b] = sent[export, b]
                        else:
                            unsafe[b] = sent[export, b]
                        if not always and n % 50 == 0:
                            w.flush()
                            safe.update({(export, b): s for b, s in unsafe.items()})
                            unsafe.clear()
            except (Failure, OSError):
                pass

        threads = [threading.Thread(target=work, args=a) for a in (('tank/v', False), ('tank/s', True), )]
        for th in threads:
            th.start()
        time.sleep(rnd.uniform(0.3, 2.5))
        if turn % 2:
            t.zfs('snapshot', '-r', 'tank@turn%d' % turn)
        os.kill(t.daemon_pid(), signal.SIGKILL)
        stop.set()
        for th in threads:
            th.join()
        wait_for(lambda: t.daemon_pid() is None, 'the daemon to be gone')
        t.zpool('import', '-f', '-d', folder(t), '-R', t.altroot(), 'tank')
        for export in ('tank/v', 'tank/s'):
            with Writer(t, export) as w:
                for b in range(blocks):
                    got = read_stamp(w.get(b * BLOCK, BLOCK), b)
                    check(safe.get((export, b), 0) <= got <= sent.get((export, b), 0), 'turn', turn, export, 'block', b,
                          'holds', got, 'flushed', safe.get((export, b), 0), 'sent', sent.get((export, b), 0))
                    sent[export, b] = max(sent.get((export, b), 0), got)
    t.zpool('export', 'tank')
    verify(t)


def test_a_device_that_vanishes_and_returns(t):
    path = os.path.join(folder(t), 'disk0.img')
    create(t)
    volume(t)
    with Writer(t, 'tank/v') as w:
        w.write(0, b'1' * BLOCK)
        w.flush()
    contains(t.zpool('clear', 'tank').out, '')
    t.zpool('clear', 'tank', 'none-such', code=1)
    check(os.path.exists(path))
    t.zpool('export', 'tank')
    verify(t)


def test_resize(t):
    create(t)
    volume(t, size='16M')
    with Writer(t, 'tank/v') as w:
        eq(w.size, 16 * MIB)
        w.write(0, b'1' * BLOCK)
    t.zfs('set', 'volsize=32M', 'tank/v')
    with Writer(t, 'tank/v') as w:
        eq(w.size, 32 * MIB)
        w.write(31 * MIB, b'2' * BLOCK)
        eq(w.get(0, BLOCK), b'1' * BLOCK)
    t.zfs('set', 'volsize=8M', 'tank/v')
    with Writer(t, 'tank/v') as w:
        eq(w.size, 8 * MIB)
    t.zpool('export', 'tank')
    verify(t)


tarnlib.main(globals())
