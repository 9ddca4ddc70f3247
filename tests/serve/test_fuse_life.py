"""How mounts begin and end: by commands, by mount(8) and umount(8), with files still open, with the daemon."""

import errno
import os

import fuselib
import tarnlib
from tarnlib import check, contains, eq, wait_for


def mount(t, pool='single'):
    fuselib.need_fuse()
    name = t.import_pool(pool)
    top = os.path.join(t.dir, 'fs')
    os.mkdir(top)
    t.tarn('mount', name, top)
    return top


def test_unmounted_from_outside(t):
    top = mount(t)
    eq(fuselib.mounted(t), {'tank': top})
    t.run('umount', top)
    wait_for(lambda: fuselib.mounted(t) == {}, 'the daemon to notice')
    eq(t.zfs('get', '-Ho', 'value', 'mounted', 'tank').out, 'no\n')
    t.zpool('export', 'tank')


def test_busy_file_systems(t):
    top = mount(t)
    fd = os.open(os.path.join(top, 'text.txt'), os.O_RDONLY)
    contains(t.zfs('unmount', top, code=1).err, 'busy')
    contains(t.zpool('export', 'tank', code=1).err, 'busy')
    eq(len(os.pread(fd, 100, 0)), 100)
    t.zfs('unmount', '-f', top)
    eq(fuselib.mounted(t), {})
    try:
        os.pread(fd, 1 << 20, 0)
        os.stat('/proc/self/fd/%d' % fd)
    except OSError as e:
        check(e.errno in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO), e)
    os.close(fd)
    t.zpool('export', 'tank')


def test_daemon_stops_with_open_files(t):
    top = mount(t)
    fd = os.open(os.path.join(top, 'text.txt'), os.O_RDONLY)
    walk = os.open(os.path.join(top, 'dir-a'), os.O_RDONLY | os.O_DIRECTORY)
    fuselib.getdents(walk, 100)
    pid = t.daemon_pid()
    t.tarn('stop', '-f')
    wait_for(lambda: not os.path.exists('/proc/%d' % pid), 'the daemon to end')
    eq(t.mounts(), [])
    os.close(fd)
    os.close(walk)


def test_two_mounts_of_one_file_system(t):
    top = mount(t)
    other = os.path.join(t.dir, 'other')
    os.mkdir(other)
    t.tarn('mount', 'tank', other)
    for d in (top, other):
        eq(os.stat(os.path.join(d, 'text.txt')).st_size, 147003)
    t.zfs('unmount', top)
    eq(os.stat(os.path.join(other, 'text.txt')).st_size, 147003)
    t.zfs('unmount', other)
    t.zpool('export', 'tank')


def test_snapshot_on_its_own(t):
    top = mount(t)
    other = os.path.join(t.dir, 'other')
    os.mkdir(other)
    t.tarn('mount', 'tank@one', other)
    eq(sorted(os.listdir(other)), sorted(os.listdir(os.path.join(top, '.zfs/snapshot/one'))))
    check(not os.path.exists(os.path.join(other, '.zfs')))


def test_mount_helper(t):
    """As mount(8) calls it: names first, options behind."""
    fuselib.need_fuse()
    t.import_pool('single')
    helper = os.path.join(t.dir, 'mount.tarn')
    os.symlink(t.program('tarn'), helper)
    top = t.altroot()
    t.run(helper, 'tank', top, '-v', '-n', '-o', 'ro,noatime,nosuid')
    eq(fuselib.mounted(t), {'tank': top})
    t.zfs('unmount', top)


def test_mount_and_umount_commands(t):
    """mount -t tarn with the helper where mount(8) looks, in a mount namespace of its own; the daemon lives there."""
    fuselib.need_fuse()
    folder = tarnlib.golden('single')
    top = t.altroot()
    script = '''
        set -e
        mount -t tmpfs none /usr/sbin
        ln -s "$TARN" /usr/sbin/mount.tarn
        "$TARN" zpool import -N -f -o readonly=on -d "$FOLDER" tank 2>/dev/null
        mount -t tarn -o ro,noexec tank "$TOP"
        cat "$TOP/text.txt" | wc -c
        umount "$TOP"
        mount -t tarn tank@one "$TOP"
        ls "$TOP" | wc -l
        umount "$TOP"
        "$TARN" stop -f >/dev/null
    '''
    t.env.update(TARN=t.program('tarn'), FOLDER=folder, TOP=top)
    eq(t.run('unshare', '-m', 'sh', '-c', script).lines(), ['147003', '33'])


tarnlib.main(globals())
