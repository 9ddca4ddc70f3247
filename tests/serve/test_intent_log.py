"""Logs that OpenZFS left when its power was cut: claimed by the import, replayed when the volume is opened."""

import os

import tarnlib
import wire
from nbdlib import Client, sha256_copied
from tarnlib import check, contains, eq
from writelib import verify_folder

POOLS = {'intent-log': 'abrupt/vol', 'intent-log-device': 'slogged/vol'}


def import_copy(t, pool, code=0):
    """Imports a copy for writing; (its folder, the command's end)."""
    folder = t.copy_pool(pool)
    return folder, t.zpool('import', '-f', '-d', folder, '-N', t.pool_name(pool), code=code)


def test_volumes_are_replayed(t):
    for pool, volume in POOLS.items():
        want = tarnlib.manifest(pool)['volumes'][volume]
        folder, _ = import_copy(t, pool)
        for _ in range(2):  # the second time there is nothing to replay
            eq(sha256_copied(t, volume), want['sha256'], pool)
        name = t.pool_name(pool)
        t.zpool('export', name)
        verify_folder(t, folder, name)
        t.zpool('import', '-d', folder, '-N', name)
        eq(sha256_copied(t, volume), want['sha256'], pool)
        t.zpool('export', name)


def test_a_claimed_log_waits_for_its_volume(t):
    """Imported, exported and imported again without anybody opening the volume."""
    for pool, volume in POOLS.items():
        want = tarnlib.manifest(pool)['volumes'][volume]
        folder, _ = import_copy(t, pool)
        name = t.pool_name(pool)
        for _ in range(2):
            t.zpool('export', name)
            verify_folder(t, folder, name)
            t.zpool('import', '-d', folder, '-N', name)
        eq(sha256_copied(t, volume), want['sha256'], pool)
        t.zpool('export', name)
        verify_folder(t, folder, name)


def test_a_replayed_volume_is_written(t):
    for pool, volume in POOLS.items():
        folder, _ = import_copy(t, pool)
        with Client(t) as c:
            size = c.go(volume)
            whole = c.read(0, size)[0]
            c.send(wire.request(wire.WRITE, 12345, 5000, flags=wire.FLAG_FUA) + b'w' * 5000)
            eq(c.simple()[0], 0)
        name = t.pool_name(pool)
        t.zpool('export', name)
        verify_folder(t, folder, name)
        t.zpool('import', '-d', folder, '-N', name)
        with Client(t) as c:
            c.go(volume)
            check(c.read(0, size)[0] == whole[:12345] + b'w' * 5000 + whole[17345:], pool)
        t.zpool('export', name)


def test_read_only_imports_leave_the_log_alone(t):
    pool = 'intent-log'
    folder = t.copy_pool(pool)
    name = t.pool_name(pool)
    before = open(os.path.join(folder, 'disk0.img'), 'rb').read()
    t.zpool('import', '-f', '-o', 'readonly=on', '-d', folder, '-N', name)
    check(sha256_copied(t, POOLS[pool]) != tarnlib.manifest(pool)['volumes'][POOLS[pool]]['sha256'])
    t.zpool('export', name)
    check(before == open(os.path.join(folder, 'disk0.img'), 'rb').read())


def test_unclean_pools_are_taken_over(t):
    folder, _ = import_copy(t, 'unclean')
    t.zpool('export', 'cutoff')
    verify_folder(t, folder, 'cutoff')


def test_block_clones_in_a_log_are_refused(t):
    folder, r = import_copy(t, 'v24-intent-log', code=1)
    contains(r.err, 'clone')
    t.zpool('import', '-f', '-o', 'readonly=on', '-d', folder, '-N', 'halt')


tarnlib.main(globals())
