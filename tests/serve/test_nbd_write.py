"""Writing over NBD by hand: what is told, what is refused and how, and that no client is in another's way."""

import contextlib
import os
import struct
import time

import tarnlib
import wire
from nbdlib import Client, nbdsh, need, uri
from tarnlib import check, eq, wait_for
from writelib import MIB, Writer, create, verify

VOLUME = 'tank/v'
SIZE = 64 * MIB
BLOCK = 8192


def volume(t, *options):
    create(t)
    t.zfs('create', '-s', '-V', '64M', '-b', '8K', *options, VOLUME)


def test_information(t):
    volume(t)
    flags = 1 | 4 | 8 | 32 | 64 | 128 | 256 | 1024 | 2048
    with Client(t) as c:
        r = c.option(wire.OPT_INFO, wire.info(VOLUME, 0, 2, 3))
        eq(r, [(wire.REP_INFO, struct.pack('>HQH', 0, SIZE, flags)), (wire.REP_INFO, b'\0\2ZFS volume'),
               (wire.REP_INFO, struct.pack('>HIII', 3, 1, BLOCK, 32 << 20)), (wire.REP_ACK, b'')])
    t.zfs('set', 'readonly=on', VOLUME)
    with Client(t) as c:
        r = c.option(wire.OPT_INFO, wire.info(VOLUME, 0))
        eq(r[0][1], struct.pack('>HQH', 0, SIZE, 1 | 2 | 128 | 256 | 1024))


def test_requests_and_refusals(t):
    volume(t)
    for structured in (False, True):
        with Client(t) as c:
            c.go(VOLUME, structured=structured)

            def ask(command, at, n, flags=0, data=b''):
                c.send(wire.request(command, at, n, flags=flags) + data)
                if structured:
                    (kind, d), = c.chunks()
                    return struct.unpack('>I', d[:4])[0] if kind == wire.CHUNK_ERROR else 0
                return c.simple()[0]

            data = os.urandom(300000)
            for at, n, flags in ((0, 1, 0), (BLOCK - 1, 2, wire.FLAG_FUA), (12345, 300000, 0), (BLOCK, 4 * BLOCK, wire.FLAG_FUA),
                                 (SIZE - 5, 5, 0)):
                eq(ask(wire.WRITE, at, n, flags, data[:n]), 0, at, n)
                eq(c.read(at, n), (data[:n], []), at, n)
            for command, at, n, flags, want in (
                    (wire.WRITE, SIZE, 16, 0, wire.ENOSPC), (wire.WRITE, SIZE - 5, 6, 0, wire.ENOSPC),
                    (wire.WRITE, 1 << 63, 16, 0, wire.ENOSPC), (wire.WRITE, 0, 0, 0, wire.EINVAL),
                    (wire.WRITE, 0, 16, wire.FLAG_NO_HOLE, wire.EINVAL), (wire.WRITE, 0, (32 << 20) + 1, 0, wire.EINVAL),
                    (wire.TRIM, SIZE - 1, 2, 0, wire.EINVAL), (wire.WRITE_ZEROES, SIZE, 1, 0, wire.ENOSPC),
                    (wire.WRITE_ZEROES, 0, BLOCK, wire.FLAG_FAST_ZERO | wire.FLAG_NO_HOLE, wire.ENOTSUP),
                    (wire.FLUSH, 0, 1, 0, wire.EINVAL), (wire.FLUSH, 1, 0, 0, wire.EINVAL)):
                eq(ask(command, at, n, flags, bytes(n) if command == wire.WRITE else b''), want, command, at, n)
            for command, flags in ((wire.FLUSH, 0), (wire.TRIM, wire.FLAG_FUA), (wire.WRITE_ZEROES, wire.FLAG_FAST_ZERO),
                                   (wire.WRITE_ZEROES, wire.FLAG_NO_HOLE | wire.FLAG_FUA)):
                eq(ask(command, 0, 0 if command == wire.FLUSH else SIZE, flags), 0, command, flags)
            eq(c.read(0, 1 << 20)[0], bytes(1 << 20))


def extents(c, at, n):
    c.send(wire.request(wire.BLOCK_STATUS, at, n))
    (kind, d), = c.chunks()
    eq(kind, wire.CHUNK_STATUS)
    return [struct.unpack_from('>II', d, i) for i in range(4, len(d), 8)]


def test_block_status_knows_what_was_just_written(t):
    volume(t)
    with Client(t) as c:
        c.go(VOLUME, structured=True, context=True)

        def request(command, at, n, data=b'', flags=0):
            c.send(wire.request(command, at, n, flags=flags) + data)
            eq(c.chunks(), [(wire.CHUNK_NONE, b'')])

        eq(extents(c, 0, 1 << 20), [(1 << 20, 3)])
        request(wire.WRITE, 3 * BLOCK, 2 * BLOCK, b'x' * 2 * BLOCK)
        want = [(3 * BLOCK, 3), (2 * BLOCK, 0), ((1 << 20) - 5 * BLOCK, 3)]
        eq(extents(c, 0, 1 << 20), want)
        t.zpool('sync')
        eq(extents(c, 0, 1 << 20), want)
        request(wire.TRIM, 4 * BLOCK, BLOCK)
        eq(extents(c, 0, 5 * BLOCK), [(3 * BLOCK, 3), (BLOCK, 0), (BLOCK, 3)])
        t.zpool('sync')
        eq(extents(c, 0, 5 * BLOCK), [(3 * BLOCK, 3), (BLOCK, 0), (BLOCK, 3)])


def test_readonly_is_followed(t):
    volume(t)
    with Writer(t, VOLUME) as w:
        w.write(0, b'a' * 4096)
        t.zfs('set', 'readonly=on', VOLUME)
        w.send(wire.request(wire.WRITE, 0, 4096) + b'b' * 4096)
        eq(w.simple()[0], wire.EPERM)
        w.flush()
        t.zfs('set', 'readonly=off', VOLUME)
        w.write(4096, b'c' * 4096)
        eq(w.get(0, 8192), b'a' * 4096 + b'c' * 4096)


def test_volmode_and_snapdev(t):
    volume(t)
    t.zfs('snapshot', VOLUME + '@s')

    def listed():
        with Client(t) as c:
            return [d[4:].decode() for k, d in c.option(wire.OPT_LIST) if k == wire.REP_SERVER]

    eq(listed(), [VOLUME])
    with Client(t) as c:
        c.go(VOLUME + '@s')
    t.zfs('set', 'snapdev=visible', VOLUME)
    eq(listed(), [VOLUME, VOLUME + '@s'])
    t.zfs('set', 'volmode=none', VOLUME)
    eq(listed(), [])
    with Client(t) as c:
        eq([k for k, _ in c.replies(wire.go(VOLUME), wire.OPT_GO)], [wire.REP_ERR_POLICY])


def test_a_half_sent_write_harms_nobody(t):
    """Clients that stop in the middle of their payload: their bytes are not written, others go on, the pool can go."""
    volume(t)
    stopped = []
    for i in range(60):
        c = Client(t)
        c.go(VOLUME)
        c.send(wire.request(wire.WRITE, 0, 32 << 20) + b'?' * (100 if i else 3 << 20))
        stopped.append(c)
    with Writer(t, VOLUME) as w:
        eq(w.get(0, 1 << 20), bytes(1 << 20))
        for c in stopped[:30]:
            c.s.close()
        w.write(1 << 20, b'y' * (1 << 20))
        w.flush()
        eq(w.get(0, 1 << 20), bytes(1 << 20))
    t.zpool('export', '-f', 'tank')
    verify(t)
    for c in stopped[30:]:
        check(c.ended())


def test_memory_for_writes_goes_round(t):
    """Clients that send nearly all of a large write, and stop, together more than the server takes in."""
    volume(t)
    stopped = []
    for _ in range(10):
        c = Client(t)
        c.go(VOLUME)
        c.s.setblocking(False)
        stopped.append([c, wire.request(wire.WRITE, 0, 32 << 20) + b'?' * (31 << 20)])
    end = time.monotonic() + 60
    while any(left for _, left in stopped) and time.monotonic() < end:
        moved = 0
        for one in stopped:
            with contextlib.suppress(BlockingIOError):
                n = one[0].s.send(one[1][:1 << 20]) if one[1] else 0
                one[1] = one[1][n:]
                moved += n
        if not moved:
            time.sleep(0.01)
            if time.monotonic() > end - 57:
                break
    with Writer(t, VOLUME) as w:
        for i in range(5):
            w.write(i << 20, b'y' * (1 << 20))
        w.flush()
        eq(w.get(0, 5 << 20), b'y' * (5 << 20))
    for c, _ in stopped:
        c.s.close()


def test_many_connections_write_one_volume(t):
    """A flush on one covers what was acknowledged on the others: the daemon is killed right after it."""
    volume(t)
    clients = [Writer(t, VOLUME) for _ in range(100)]
    for round_ in range(3):
        for i, c in enumerate(clients):
            c.send(wire.request(wire.WRITE, i * 65536, 65536) + bytes([round_ * 7 + i]) * 65536)
        for c in clients:
            c.end('write')
    clients[50].flush()
    pid = t.daemon_pid()
    os.kill(pid, 9)
    wait_for(lambda: t.daemon_pid() != pid, 'the end of the daemon')
    for c in clients:
        c.s.close()
    t.zpool('import', '-f', '-d', os.path.join(t.dir, 'files'), '-R', t.altroot(), 'tank')
    with Writer(t, VOLUME) as w:
        for i in range(100):
            eq(w.get(i * 65536, 65536), bytes([14 + i]) * 65536, i)


def test_libnbd_writes(t):
    need('nbdsh')
    volume(t, '-o', 'compression=lz4')
    nbdsh(t, '''
        import random
        h.add_meta_context("base:allocation")
        h.connect_uri("%s")
        assert h.can_flush() and h.can_fua() and h.can_trim() and h.can_zero() and h.can_fast_zero() and h.can_multi_conn()
        r = random.Random(5)
        model = bytearray(4 << 20)
        for i in range(300):
            at, n = r.randrange(len(model) - 200000), r.randrange(1, 200000)
            kind = r.randrange(4)
            if kind < 2:
                data = r.randbytes(n)
                h.pwrite(data, at, nbd.CMD_FLAG_FUA if kind else 0)
                model[at:at + n] = data
            elif kind == 2:
                h.zero(n, at, nbd.CMD_FLAG_NO_HOLE if i & 1 else nbd.CMD_FLAG_FAST_ZERO)
                model[at:at + n] = bytes(n)
            else:
                h.trim(n, at)
                first, last = -(-at // 8192) * 8192, (at + n) // 8192 * 8192
                if last > first:
                    model[first:last] = bytes(last - first)
            if i %% 60 == 0:
                assert h.pread(len(model), 0) == model, i
        h.flush()
        assert h.pread(len(model), 0) == model
        h.shutdown()
        ''' % uri(t, VOLUME))
    t.zpool('export', 'tank')
    verify(t)


tarnlib.main(globals())
