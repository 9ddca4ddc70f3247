"""zfs mount and unmount: what is mounted where and in which order, options, keys, what is refused and why."""

import os
import subprocess
import sys

import fuselib
import tarnlib
from tarnlib import check, contains, eq, manifest
from writelib import create

POOL = 'many-datasets'


def start(t, *pools):
    fuselib.need_fuse()
    for pool in pools:
        t.import_pool(pool, '-R', t.altroot())
    return t.altroot()


def mounted(t):
    return fuselib.mounted(t)


def test_all(t):
    top = start(t, POOL, 'snapshots-and-clones', 'stripe4-zvols')
    eq(t.zfs('mount').out, '')
    t.zfs('mount', '-a')
    want = {}
    for name, kind, can, where, key in t.zfs('list', '-H', '-t', 'fs', '-o',
                                             'name,type,canmount,mountpoint,keystatus').rows():
        if can == 'on' and where.startswith('/') and key != 'unavailable':
            want[name] = where
    eq(mounted(t), want)
    check(len(want) > 20 and all(where.startswith(top + '/') for where in want.values()))
    shown = dict(t.zfs('get', '-Hr', '-t', 'fs', '-o', 'name,value', 'mounted').rows())
    eq({name for name, value in shown.items() if value == 'yes'}, set(want))
    doc = t.zfs('mount', '-j').json()
    eq(doc['output_version']['command'], 'zfs mount')
    eq(doc['datasets'], {n: {'filesystem': n, 'mountpoint': w} for n, w in want.items()})
    t.zfs('mount', '-a')  # what is mounted stays so, without words
    eq(mounted(t), want)
    t.zfs('unmount', '-a')
    eq(mounted(t), {})
    eq(t.mounts(), [])


def test_list_format(t):
    top = start(t, 'snapshots-and-clones')
    t.zfs('mount', 'past')
    eq(t.zfs('mount').out, '%-30s  %s/past\n' % ('past', top))


def test_one_by_one(t):
    top = start(t, POOL, 'snapshots-and-clones', 'stripe4-zvols')
    t.zfs('mount', 'past')
    eq(mounted(t), {'past': top + '/past'})
    contains(t.zfs('mount', 'past', code=1).err, 'already mounted')
    t.zfs('unmount', 'past')
    contains(t.zfs('unmount', 'past', code=1).err, 'not currently mounted')
    reasons = {}
    for name, can, where in t.zfs('list', '-H', '-t', 'fs', '-o', 'name,canmount,mountpoint').rows():
        reasons.setdefault('off' if can == 'off' else where if where in ('legacy', 'none') else can, name)
    check({'off', 'legacy', 'none', 'noauto', 'on'} <= set(reasons), reasons)
    contains(t.zfs('mount', reasons['off'], code=1).err, 'canmount')
    contains(t.zfs('mount', reasons['legacy'], code=1).err, 'legacy')
    contains(t.zfs('mount', reasons['none'], code=1).err, 'no mountpoint')
    t.zfs('mount', reasons['noauto'])
    check(reasons['noauto'] in mounted(t))
    contains(t.zfs('mount', 'past/work@s13', code=1).err, 'snapshot')
    volume = t.zfs('list', '-H', '-t', 'vol', '-o', 'name').lines()[0]
    contains(t.zfs('mount', volume, code=1).err, 'volume')
    for name in ('nopool', 'past/nothere', 'past@nothere'):
        contains(t.zfs('mount', name, code=1).err, 'dataset does not exist')
        contains(t.zfs('unmount', name, code=1).err, 'dataset does not exist')
    for argv in (['mount', '-q'], ['mount', 'past', 'past/work'], ['mount', '-a', 'past'], ['unmount'],
                 ['unmount', '-q'], ['unmount', '-a', 'past'], ['umount', 'past', 'past/work']):
        t.zfs(*argv, code=2)


def test_tree(t):
    top = start(t, 'snapshots-and-clones')
    t.zfs('mount', '-R', 'past')
    tree = mounted(t)
    check(len(tree) > 5)
    # by directory, and with a slash or a way that is not straight
    t.zfs('unmount', top + '/past/work')
    t.zfs('mount', 'past/work')
    t.zfs('umount', top + '/past/clone-a/../work/')
    eq(set(tree) - set(mounted(t)), {'past/work'})
    contains(t.zfs('unmount', top, code=1).err, 'not currently mounted')
    # what is mounted in it goes first
    t.zfs('unmount', 'past')
    eq(mounted(t), {})
    # what was mounted before the file system above it is hidden by that, and stays
    t.zfs('mount', 'past/work')
    t.zfs('mount', 'past')
    t.zfs('unmount', 'past')
    eq(mounted(t), {'past/work': top + '/past/work'})
    check(os.listdir(top + '/past/work'))


def test_paths_as_names(t):
    top = start(t, 'snapshots-and-clones')
    t.zfs('mount', '-a')
    where = top + '/past/work'
    inner = [os.path.join(where, n) for n in os.listdir(where)][0]
    for path in (where, where + '/', inner, where + '/../work'):
        eq(t.zfs('list', '-H', '-o', 'name', path).out, 'past/work\n')
        eq(t.zfs('get', '-H', 'mounted', path).out, 'past/work\tmounted\tyes\t-\n')
    eq(t.zfs('list', '-H', '-o', 'name', './work', cwd=top + '/past').out, 'past/work\n')
    check(t.zfs('list', '-H', '-o', 'name', '-d', '1', top + '/past').lines()[:2] == ['past', 'past/clone-a'])
    contains(t.zfs('list', '/proc', code=1).err, "cannot open '/proc'")
    eq(t.zfs('userspace', '-Hn', where).out, t.zfs('userspace', '-Hn', 'past/work').out)
    contains(t.zfs('diff', 'past/work@s13').out, '\t%s/text.txt\n' % where)


def test_busy(t):
    top = start(t, 'snapshots-and-clones')
    t.zfs('mount', 'past/work')
    where = top + '/past/work'
    with subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], cwd=where, stdin=subprocess.PIPE) as p:
        for argv in (['unmount', 'past/work'], ['unmount', where], ['unmount', '-a']):
            contains(t.zfs(*argv, code=1).err, 'busy')
        check('past/work' in mounted(t))
        t.zfs('unmount', '-f', 'past/work')
        eq(mounted(t), {})
        p.stdin.close()


def test_destroy_of_a_tree_that_is_mounted(t):
    """What cannot go leaves all mounted as it was; what goes is unmounted first."""
    fuselib.need_fuse()
    top = t.altroot()
    create(t, mount=True)
    t.zfs('create', '-p', 'tank/a/b')
    t.zfs('create', 'tank/a/c')
    t.zfs('snapshot', '-r', 'tank/a@s')
    before = mounted(t)
    check({'tank', 'tank/a', 'tank/a/b', 'tank/a/c'} <= set(before), before)
    t.zfs('hold', 'keep', 'tank/a/c@s')
    contains(t.zfs('destroy', '-r', 'tank/a', code=1).err, 'tank/a/c@s')
    eq(mounted(t), before)
    t.zfs('release', 'keep', 'tank/a/c@s')
    with subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], cwd=top + '/tank/a/b',
                          stdin=subprocess.PIPE) as p:
        contains(t.zfs('destroy', '-r', 'tank/a', code=1).err, 'busy')
        eq(mounted(t), before)
        t.zfs('destroy', '-rf', 'tank/a')
        p.stdin.close()
    eq(set(before) - set(mounted(t)), {'tank/a', 'tank/a/b', 'tank/a/c'})
    t.zpool('export', 'tank')


def test_overlay(t):
    top = start(t, 'snapshots-and-clones')
    os.makedirs(top + '/past/work')
    with open(top + '/past/work/here', 'w') as f:
        f.write('before')
    t.zfs('mount', 'past/work')  # overlay=on is the default
    check('here' not in os.listdir(top + '/past/work'))
    t.zfs('unmount', 'past/work')
    eq(os.listdir(top + '/past/work'), ['here'])
    t.zfs('mount', '-O', 'past/work')
    check('here' not in os.listdir(top + '/past/work'))


def test_options(t):
    start(t, 'snapshots-and-clones')
    t.zfs('mount', '-o', 'noatime,noexec,nosuid', 'past/work')
    eq({p: (v, s) for p, v, s in t.zfs('get', '-H', '-o', 'property,value,source', 'atime,exec,setuid,devices',
                                       'past/work').rows()},
       {'atime': ('off', 'temporary'), 'exec': ('off', 'temporary'), 'setuid': ('off', 'temporary'),
        'devices': ('on', 'default')})
    where = mounted(t)['past/work']
    with open('/proc/self/mounts') as f:
        options = [line.split()[3].split(',') for line in f if line.split()[1] == where][0]
    check({'ro', 'noexec', 'nosuid'} <= set(options), options)
    t.zfs('unmount', 'past/work')
    eq(t.zfs('get', '-H', '-o', 'value,source', 'atime', 'past/work').out, 'on\tdefault\n')
    contains(t.zfs('mount', '-o', 'nonsense', 'past/work', code=1).err, 'nonsense')
    contains(t.zfs('mount', '-o', 'rw', 'past/work', code=1).err, 'read-only')
    eq(mounted(t), {})


def test_keys(t):
    start(t, 'encryption')
    root, child = 'secret/parent', 'secret/parent/joined'
    key = manifest('encryption')['keys'][root]['value'] + '\n'
    contains(t.zfs('mount', child, code=1).err, 'key not loaded')
    t.zfs('mount', '-a')
    check(child not in mounted(t) and 'secret/plain' in mounted(t))
    t.zfs('unmount', '-a')
    contains(t.zfs('mount', '-l', child, input='not the right one\n', code=1).err, 'ncorrect key')
    t.zfs('mount', '-l', child, input=key)  # the key is its root's
    check(child in mounted(t) and root not in mounted(t))
    contains(t.zfs('unload-key', root, code=1).err, 'busy')
    t.zfs('unmount', child)
    t.zfs('mount', root)
    t.zfs('mount', child)
    t.zfs('unmount', '-u', root)
    eq([n for n in mounted(t) if n.startswith(root)], [])
    eq(t.zfs('get', '-Ho', 'value', 'keystatus', root).out, 'unavailable\n')
    contains(t.zfs('unmount', '-u', root, code=1).err, 'not currently mounted')


def test_legacy_and_snapshots(t):
    """tarn mount, which is what mount -t tarn and fstab lines end in."""
    start(t, POOL, 'snapshots-and-clones')
    legacy = [n for n, w in t.zfs('list', '-H', '-t', 'fs', '-o', 'name,mountpoint').rows() if w == 'legacy'][0]
    for name in (legacy, 'past/work@s13'):
        where = os.path.join(t.dir, 'there')
        os.makedirs(where, exist_ok=True)
        t.tarn('mount', name, where)
        check(os.path.ismount(where))
        eq(mounted(t)[name], where)
        t.zfs('unmount', where)
        check(not os.path.ismount(where))
    contains(t.tarn('mount', 'past/nothere', where, code=1).err, 'dataset does not exist')


tarnlib.main(globals())
