"""File systems below others in a pool that is open for writing: their mount points are made inside the file system above."""

import os

import fuselib
import tarnlib
from tarnlib import check, contains, eq
from writelib import create, folder, reimport, verify


def start(t, *options):
    fuselib.need_fuse()
    create(t, *options, mount=True)
    return t.altroot()


def places(t, top, *names):
    return {name: os.path.join(top, name) for name in names}


def test_children(t):
    top = start(t)
    eq(fuselib.mounted(t), places(t, top, 'tank'))
    here = os.path.join(top, 'tank')
    eq(os.listdir(here), [])
    check(not os.path.exists(here + '/a'))  # the kernel may remember that
    before = os.stat(here)
    t.zfs('create', 'tank/a')
    eq(fuselib.mounted(t), places(t, top, 'tank', 'tank/a'))
    eq(os.listdir(here), ['a'])
    after = os.stat(here)
    eq((after.st_nlink, after.st_size), (before.st_nlink + 1, before.st_size + 1))
    check(after.st_mtime_ns > before.st_mtime_ns, (before, after))
    t.zfs('create', '-p', 'tank/a/b/c')
    t.zfs('create', 'tank/' + 'x' * 80)
    everything = places(t, top, 'tank', 'tank/a', 'tank/a/b', 'tank/a/b/c', 'tank/' + 'x' * 80)
    eq(fuselib.mounted(t), everything)
    eq(sorted(os.listdir(here)), ['a', 'x' * 80])
    t.zpool('export', 'tank')
    eq(fuselib.mounted(t), {})
    reimport(t)
    eq(fuselib.mounted(t), everything)
    t.zfs('unmount', 'tank/a')
    eq(fuselib.mounted(t), places(t, top, 'tank', 'tank/' + 'x' * 80))
    eq(os.listdir(here + '/a'), [])  # what was made for it
    st = os.stat(here + '/a')
    eq((st.st_mode & 0o7777, st.st_uid, st.st_gid), (0o755, os.geteuid(), os.getegid()))
    t.zfs('mount', '-a')
    eq(fuselib.mounted(t), everything)
    t.zpool('export', 'tank')
    verify(t)


def test_mountpoint_property(t):
    """A mount point some directories deep, on another's mount."""
    top = start(t)
    t.zfs('create', '-o', 'mountpoint=/tank/deep/er/place', 'tank/a')
    eq(fuselib.mounted(t), {'tank': top + '/tank', 'tank/a': top + '/tank/deep/er/place'})
    t.zfs('create', '-o', 'casesensitivity=insensitive', 'tank/ci')
    t.zfs('create', 'tank/ci/Sub')
    t.zfs('create', '-o', 'mountpoint=/tank/ci/SUB2', 'tank/other')
    eq(sorted(os.listdir(top + '/tank/ci')), ['SUB2', 'Sub'])
    t.zpool('export', 'tank')
    verify(t)


def test_read_only(t):
    """Where nothing may be written no directory is made."""
    top = start(t)
    t.zfs('create', '-o', 'readonly=on', 'tank/ro')
    r = t.zfs('create', 'tank/ro/below', code=None)
    contains(r.err, 'read-only')
    eq(fuselib.mounted(t), places(t, top, 'tank', 'tank/ro'))
    t.zfs('set', 'readonly=off', 'tank/ro')
    t.zfs('mount', '-a')
    eq(fuselib.mounted(t), places(t, top, 'tank', 'tank/ro', 'tank/ro/below'))
    t.zpool('export', 'tank')
    t.zpool('import', '-o', 'readonly=on', '-d', folder(t), '-R', top, 'tank')
    eq(fuselib.mounted(t), places(t, top, 'tank', 'tank/ro', 'tank/ro/below'))
    t.zpool('export', 'tank')
    verify(t)


tarnlib.main(globals())
