"""Who may read what: modes and ACLs as Linux enforces them, mount options, daemons of ordinary users."""

import os
import shutil
import stat

import fuselib
import tarnlib
from tarnlib import Skip, check, eq


def mount(t, pool, fs, *options):
    fuselib.need_fuse()
    name = t.import_pool(pool)
    top = os.path.join(t.dir, 'fs')
    os.mkdir(top)
    os.chmod(t.dir, 0o755)
    t.tarn('mount', *options, fs or name, top)
    return top


def as_user(t, uid, gid, *argv, **kw):
    return t.run('setpriv', '--reuid=%d' % uid, '--regid=%d' % gid, '--clear-groups', *argv, **kw)


def reads(t, uid, gid, path):
    return as_user(t, uid, gid, 'cat', path, code=None).code == 0


def test_posix_acls(t):
    top = mount(t, 'xattr-and-acl', 'marks/on-auto')
    path = os.path.join(top, 'acl/default/inherits')  # 0660, user 1001 rwx and group 50 r-- below the mask rw-
    eq([reads(t, uid, gid, path) for uid, gid in ((0, 0), (1001, 1001), (1003, 50), (1003, 1003))],
       [True, True, True, False])
    sub = os.path.join(top, 'acl/default/sub')  # 0770, user 1001 rwx
    eq([as_user(t, uid, uid, 'ls', sub, code=None).code == 0 for uid in (1001, 1003)], [True, False])


def test_modes(t):
    top = mount(t, 'single', None)
    checked = 0
    for d, _, files in os.walk(top):
        for name in files:
            path = os.path.join(d, name)
            st = os.lstat(path)
            if stat.S_ISREG(st.st_mode) and st.st_size < 1 << 20 and checked < 20:
                for uid, gid in ((65534, 65534), (1001, 50)):
                    bit = 0o400 if uid == st.st_uid else 0o040 if gid == st.st_gid else 0o004
                    eq(reads(t, uid, gid, path), bool(st.st_mode & bit), path, st, uid, gid)
                checked += 1
    check(checked > 10)


def options(top):
    with open('/proc/self/mountinfo') as f:
        return [line.split()[5].split(',') for line in f if line.split()[4] == top][0]


def test_devices_and_mount_options(t):
    top = mount(t, 'single', None)
    eq(sorted(options(top)), ['relatime', 'ro'])
    eq(t.run('cat', os.path.join(top, 'char-null')).out, '')
    t.zfs('unmount', top)
    t.tarn('mount', '-o', 'nosuid,nodev,noexec', 'tank', top)
    eq(sorted(options(top)), ['nodev', 'noexec', 'nosuid', 'relatime', 'ro'])
    eq(t.run('cat', os.path.join(top, 'char-null'), code=1).out, '')
    eq(t.zfs('get', '-Ho', 'value,source', 'setuid', 'tank').out, 'off\ttemporary\n')
    t.zfs('unmount', top)
    eq(t.zfs('get', '-Ho', 'value,source', 'setuid', 'tank').out, 'on\tdefault\n')


def test_read_write_is_refused(t):
    fuselib.need_fuse()
    t.import_pool('single')
    r = t.tarn('mount', '-o', 'rw', 'tank', t.altroot(), code=1)
    check('read-only' in r.err, r)
    eq(t.mounts(), [])


def test_daemon_of_an_ordinary_user(t):
    """Mounts through fusermount3, for that user alone."""
    fuselib.need_fuse()
    helper = shutil.which('fusermount3')
    if not helper or not os.stat(helper).st_mode & stat.S_ISUID:
        raise Skip('fusermount3 is not installed set-uid')
    if os.stat('/dev/fuse').st_mode & 0o006 != 0o006:
        raise Skip('/dev/fuse is not for everybody here')
    os.chmod(t.dir, 0o755)
    os.chmod(t.rundir, 0o755)
    folder = t.copy_pool('single')
    top = os.path.join(t.dir, 'mnt')
    t.env['TARN_RUNDIR'] = os.path.join(t.rundir, 'theirs')
    t.env['TARN_STATEDIR'] = os.path.join(t.rundir, 'theirs')
    for path in (top, t.env['TARN_RUNDIR']):
        os.mkdir(path)
        os.chown(path, 65534, 65534)
    tarn = t.program('tarn')
    try:
        as_user(t, 65534, 65534, tarn, 'zpool', 'import', '-N', '-f', '-o', 'readonly=on', '-d', folder, 'tank')
        as_user(t, 65534, 65534, tarn, 'mount', 'tank', top)
        eq(as_user(t, 65534, 65534, 'sh', '-c', 'cat %s/text.txt | wc -c' % top).out, '147003\n')
        eq(t.run('cat', os.path.join(top, 'text.txt'), code=1).out, '')
        check({'nosuid', 'nodev'} <= set(options(top)))
        as_user(t, 65534, 65534, tarn, 'zfs', 'unmount', top)
        eq(t.mounts(), [])
    finally:
        as_user(t, 65534, 65534, tarn, 'stop', '-f', code=None)


tarnlib.main(globals())
