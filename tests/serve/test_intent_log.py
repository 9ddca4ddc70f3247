"""Logs that a power cut left: claimed by the import, replayed when the volume is opened. OpenZFS's in ours, ours in both."""

import hashlib
import os
import random
import signal

import tarnlib
import wire
from nbdlib import Client, sha256_copied
from tarnlib import Skip, check, contains, eq, wait_for
from writelib import MIB, create, folder, verify, verify_folder

POOLS = {'intent-log': 'abrupt/vol', 'intent-log-device': 'slogged/vol'}


def import_copy(t, pool, code=0):
    """Imports a copy for writing; (its folder, the command's end)."""
    where = t.copy_pool(pool)
    return where, t.zpool('import', '-f', '-d', where, '-N', t.pool_name(pool), code=code)


def test_volumes_are_replayed(t):
    for pool, volume in POOLS.items():
        want = tarnlib.manifest(pool)['volumes'][volume]
        where, _ = import_copy(t, pool)
        for _ in range(2):  # the second time there is nothing to replay
            eq(sha256_copied(t, volume), want['sha256'], pool)
        name = t.pool_name(pool)
        t.zpool('export', name)
        verify_folder(t, where, name)
        t.zpool('import', '-d', where, '-N', name)
        eq(sha256_copied(t, volume), want['sha256'], pool)
        t.zpool('export', name)


def test_a_claimed_log_waits_for_its_volume(t):
    """Imported, exported and imported again without anybody opening the volume."""
    for pool, volume in POOLS.items():
        want = tarnlib.manifest(pool)['volumes'][volume]
        where, _ = import_copy(t, pool)
        name = t.pool_name(pool)
        for _ in range(2):
            t.zpool('export', name)
            verify_folder(t, where, name)
            t.zpool('import', '-d', where, '-N', name)
        eq(sha256_copied(t, volume), want['sha256'], pool)
        t.zpool('export', name)
        verify_folder(t, where, name)


def test_a_replayed_volume_is_written(t):
    for pool, volume in POOLS.items():
        where, _ = import_copy(t, pool)
        with Client(t) as c:
            size = c.go(volume)
            whole = c.read(0, size)[0]
            c.send(wire.request(wire.WRITE, 12345, 5000, flags=wire.FLAG_FUA) + b'w' * 5000)
            eq(c.simple()[0], 0)
        name = t.pool_name(pool)
        t.zpool('export', name)
        verify_folder(t, where, name)
        t.zpool('import', '-d', where, '-N', name)
        with Client(t) as c:
            c.go(volume)
            check(c.read(0, size)[0] == whole[:12345] + b'w' * 5000 + whole[17345:], pool)
        t.zpool('export', name)


def test_read_only_imports_leave_the_log_alone(t):
    pool = 'intent-log'
    where = t.copy_pool(pool)
    name = t.pool_name(pool)
    before = open(os.path.join(where, 'disk0.img'), 'rb').read()
    t.zpool('import', '-f', '-o', 'readonly=on', '-d', where, '-N', name)
    check(sha256_copied(t, POOLS[pool]) != tarnlib.manifest(pool)['volumes'][POOLS[pool]]['sha256'])
    t.zpool('export', name)
    check(before == open(os.path.join(where, 'disk0.img'), 'rb').read())


def test_unclean_pools_are_taken_over(t):
    where, _ = import_copy(t, 'unclean')
    t.zpool('export', 'cutoff')
    verify_folder(t, where, 'cutoff')


def test_block_clones_in_a_log_are_refused(t):
    where, r = import_copy(t, 'v24-intent-log', code=1)
    contains(r.err, 'clone')
    t.zpool('import', '-f', '-o', 'readonly=on', '-d', where, '-N', 'halt')


VOLUMES = {'tank/a': (8192, ()), 'tank/b': (131072, ()), 'tank/c': (16384, ('-o', 'logbias=throughput'))}


def write_at_random(t, name, block, seed):
    """150 changes and a flush; what the volume holds then."""
    r = random.Random(seed)
    model = bytearray(8 * MIB)
    with Client(t) as c:
        c.go(name)
        for _ in range(150):
            at, n = r.randrange(len(model) - 300000), r.choice((1, 511, 4096, 5000, 8192, 65536, 131072, 250000))
            if r.random() < .3:
                at = at // block * block
            kind = r.randrange(6)
            if kind < 4:
                data = r.randbytes(n)
                c.send(wire.request(wire.WRITE, at, n, flags=r.randrange(2)) + data)
                model[at:at + n] = data
            elif kind == 4:
                c.send(wire.request(wire.WRITE_ZEROES, at, n, flags=r.choice((0, wire.FLAG_NO_HOLE, 3))))
                model[at:at + n] = bytes(n)
            else:
                c.send(wire.request(wire.TRIM, at, n))
                first, last = -(-at // block) * block, (at + n) // block * block
                if last > first:
                    model[first:last] = bytes(last - first)
            eq(c.simple()[0], 0)
        c.send(wire.request(wire.FLUSH))
        eq(c.simple()[0], 0)
    return hashlib.sha256(model).hexdigest()


def kill_daemon(t):
    pid = t.daemon_pid()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: t.daemon_pid() != pid, 'the end of the daemon')


def left_by_a_kill(t):
    """A pool whose daemon was killed after flushes; volume -> sum of what was flushed."""
    create(t)
    for name, (block, options) in VOLUMES.items():
        t.zfs('create', '-s', '-V', '8M', '-b', str(block), *options, name)
    t.zpool('sync')
    t.tarn('tunable', 'zfs_txg_timeout=3600')  # what was flushed is in the log alone
    sums = {name: write_at_random(t, name, block, i) for i, (name, (block, _)) in enumerate(VOLUMES.items())}
    kill_daemon(t)
    return sums


def test_our_own_log_is_replayed(t):
    sums = left_by_a_kill(t)
    t.zpool('import', '-f', '-d', folder(t), '-N', 'tank')
    for name, want in sums.items():
        eq(sha256_copied(t, name), want, name)
    t.zpool('export', 'tank')
    verify(t)


def test_snapshots_have_what_the_log_holds(t):
    """Taken before anybody opened the volume, and read before, as are their clones; also by the name of the pool's top."""
    sums = left_by_a_kill(t)
    t.zpool('import', '-f', '-d', folder(t), '-N', 'tank')
    t.zfs('snapshot', 'tank/a@s')
    t.zfs('snapshot', '-r', 'tank@all')
    for name, want in sums.items():
        eq(sha256_copied(t, name + '@all'), want, name)
        t.zfs('clone', name + '@all', name + '-clone')
        eq(sha256_copied(t, name + '-clone'), want, name)
        eq(sha256_copied(t, name), want, name)
    eq(sha256_copied(t, 'tank/a@s'), sums['tank/a'])
    t.zpool('export', 'tank')
    verify(t)


def test_snapshots_have_what_openzfs_logged(t):
    for pool, volume in POOLS.items():
        where, _ = import_copy(t, pool)
        name = t.pool_name(pool)
        t.zfs('snapshot', '-r', name + '@all')
        eq(sha256_copied(t, volume + '@all'), tarnlib.manifest(pool)['volumes'][volume]['sha256'], pool)
        t.zpool('export', name)
        verify_folder(t, where, name)


def test_openzfs_replays_our_log(t):
    oracle = os.environ.get('TARN_ORACLE')
    if not oracle:
        raise Skip('TARN_ORACLE names no machine with OpenZFS')
    sums = left_by_a_kill(t)
    r = t.run(oracle, 'run', '--share', folder(t), '--', 'zpool import -f -d /share tank && sleep 1 && zvm-links && '
              'sha256sum /dev/zvol/tank/* && zpool scrub -w tank && zpool status tank', timeout=600)
    for name, want in sums.items():
        contains(r.out, '%s  /dev/zvol/%s' % (want, name))
    contains(r.out, 'with 0 errors')
    contains(r.out, 'No known data errors')


tarnlib.main(globals())
