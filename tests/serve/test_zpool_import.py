"""zpool import and export: what is found, what comes up, what is refused."""

import os
import shutil
import signal
import time

import tarnlib
from tarnlib import check, contains, eq, golden, wait_for

LABEL = 256 << 10


def guid(t, pool):
    return str(tarnlib.manifest(pool)['pool']['guid'])


def test_import_and_export(t):
    name = t.import_pool('mirror')
    eq(t.zpool('list', '-H', '-o', 'name,health').out, name + '\tONLINE\n')
    eq(t.zpool('get', '-H', '-o', 'value', 'readonly', name).out, 'on\n')
    r = t.zpool('import', '-d', golden('mirror'), name, code=1)
    contains(r.err, 'already')
    t.zpool('export', name)
    r = t.zpool('list')
    eq((r.out, r.code), ('no pools available\n', 0))
    eq(t.zpool('export', name, code=1).err, "cannot export '%s': no such pool\n" % name)


def test_listing(t):
    name = t.pool_name('mirror')
    r = t.zpool('import', '-d', golden('mirror'))
    for part in ('   pool: %s\n' % name, '     id: %s\n' % guid(t, 'mirror'), '  state: ONLINE\n',
                 ' config:\n\n\t%s ' % name, '\t  mirror-0 ', os.path.join(golden('mirror'), 'disk1.img')):
        contains(r.out, part)
    contains(t.zpool('import', '-d', golden('special')).out, '\tspecial\n')
    contains(t.zpool('import', '-d', golden('intent-log-device')).out, '\tlogs\n')
    contains(t.zpool('import', '-d', golden('draid1')).out, 'AVAIL')
    check('indirect' not in t.zpool('import', '-d', golden('removed-device')).out)
    t.import_pool('mirror')
    eq(t.zpool('import', '-d', golden('mirror'), code=1).out, '', 'imported pools are not listed')


def test_where_to_look(t):
    name = t.pool_name('single')
    image = os.path.join(golden('single'), 'disk0.img')
    link, relative = os.path.join(t.dir, 'link'), os.path.join(t.dir, 'here')
    os.symlink(golden('single'), link)
    os.mkdir(relative)
    os.symlink(image, os.path.join(relative, 'a'))
    for where in (image, link, relative):
        t.zpool('import', '-N', '-d', where, name)
        t.zpool('export', name)
    t.zpool('import', '-N', '-d', 'here', name, cwd=t.dir)
    t.zpool('export', name)
    missing = os.path.join(t.dir, 'nowhere')
    r = t.zpool('import', '-d', missing, code=1)
    contains(r.err, missing)
    contains(r.err, 'No such file or directory')
    os.mkdir(missing)
    eq(t.zpool('import', '-d', missing, code=1).err, 'no pools available to import\n')
    r = t.zpool('import', '-d', missing, 'tank', code=1)
    eq(r.err, "cannot import 'tank': no such pool available\n")


def test_names(t):
    """By guid, under another name, two of one name."""
    both = os.path.join(t.dir, 'both')
    os.mkdir(both)
    for i, pool in enumerate(('mirror', 'single')):
        eq(t.pool_name(pool), 'tank')
        for image in os.listdir(golden(pool)):
            os.symlink(os.path.join(golden(pool), image), os.path.join(both, '%d%s' % (i, image)))
    r = t.zpool('import', '-d', both, 'tank', code=1)
    contains(r.err, 'more than one matching pool')
    contains(r.err, guid(t, 'mirror'))
    contains(r.err, guid(t, 'single'))
    t.zpool('import', '-N', '-d', both, guid(t, 'mirror'))
    r = t.zpool('import', '-N', '-d', both, guid(t, 'single'), code=1)
    contains(r.err, 'a pool with that name already exists')
    t.zpool('import', '-N', '-d', both, guid(t, 'single'), 'other')
    eq(t.zpool('list', '-H', '-o', 'name').out, 'other\ntank\n')
    eq(t.zpool('import', '-N', '-d', both, guid(t, 'single'), 'third', code=1).out, '')
    t.zpool('export', '-a')
    t.zpool('import', '-N', '-t', '-d', golden('single'), 'tank', 'temporary')
    contains(t.zpool('status').out, '  pool: temporary')


def test_options(t):
    name, where = t.pool_name('single'), golden('single')
    r = t.zpool('import', '-d', where, '-n', name, code=2)
    contains(r.err, 'usage')
    t.zpool('import', '-d', where, '-z', name, code=2)
    t.zpool('import', '-d', where, '-t', name, code=2)
    t.zpool('import', '-d', where, '-a', name, code=2)
    contains(t.zpool('import', '-d', where, '-o', 'readonly=off', name, code=1).err, 'does not write')
    r = t.zpool('import', '-d', where, '-o', 'bogus=1', name, code=1)
    contains(r.err, 'bogus')
    eq(t.zpool('list', '-H').out, '')
    t.zpool('import', '-N', '-d', where, '-R', t.altroot(), '-o', 'readonly=on', name)
    eq(t.zpool('get', '-H', '-o', 'value,source', 'altroot', name).out, t.altroot() + '\tlocal\n')
    t.zpool('export', '-f', name)
    r = t.zpool('import', '-N', '-d', where, '-F', '-n', name)
    eq(t.zpool('list', '-H').out, '', 'a dry run imports nothing')
    t.zpool('import', '-N', '-d', where, '-D', name, code=1)


def test_mounts(t):
    if not os.path.exists('/dev/fuse'):
        raise tarnlib.Skip('there is no /dev/fuse')
    name = t.import_pool('single', mount=True)
    check(t.mounts())
    t.zpool('export', name)
    eq(t.mounts(), [])


def test_missing_side_of_a_mirror(t):
    folder = t.copy_pool('mirror')
    os.unlink(os.path.join(folder, 'disk1.img'))
    begin = time.monotonic()
    name = t.import_pool('mirror', folder=folder)
    check(time.monotonic() - begin < 10, 'not in bounded time')
    r = t.zpool('status', name)
    for part in (' state: DEGRADED', 'One or more devices could not be opened.', 'ZFS-8000-2Q', 'UNAVAIL', 'was /dev/'):
        contains(r.out, part)
    eq(t.zpool('status', '-x', name).out, r.out)
    j = t.zpool('status', '-j', name).json()['pools'][name]
    eq((j['state'], j['msgid']), ('DEGRADED', 'ZFS-8000-2Q'))


def test_missing_too_much(t):
    folder = t.copy_pool('raidz1')
    for image in ('disk0.img', 'disk1.img'):
        os.unlink(os.path.join(folder, image))
    name = t.pool_name('raidz1')
    r = t.zpool('import', '-d', folder)
    contains(r.out, '  state: UNAVAIL')
    contains(r.out, 'insufficient replicas')
    r = t.zpool('import', '-d', folder, name, code=1)
    check(r.err.startswith("cannot import '%s': " % name), r)
    check(r.err.count('cannot import') == 1, r)


def test_missing_log(t):
    folder = t.copy_pool('intent-log-device')
    os.unlink(os.path.join(folder, 'disk1.img'))
    name = t.pool_name('intent-log-device')
    r = t.zpool('import', '-d', folder, '-f', '-N', name, code=1)
    contains(r.err, '-m')
    t.zpool('import', '-d', folder, '-f', '-N', '-m', name)
    contains(t.zpool('status', name).out, 'logs')


def test_stale_labels(t):
    """A pool that was there before: its labels at the end of the device never win."""
    folder = t.copy_pool('single')
    image = os.path.join(folder, 'disk0.img')
    old = os.path.join(golden('ashift9'), 'disk0.img')
    with open(old, 'rb') as f:
        f.seek(-2 * LABEL, os.SEEK_END)
        labels = f.read()
    size = os.path.getsize(image)
    with open(image, 'r+b') as f:
        f.seek(size + (8 << 20) - 2 * LABEL)  # the device grew, and the old labels are at its end
        f.write(labels)
    r = t.zpool('import', '-d', folder)
    contains(r.out, '   pool: ' + t.pool_name('single'))
    contains(r.out, 'note: ')
    t.import_pool('single', folder=folder)


def test_front_zeroed(t):
    folder = t.copy_pool('single')
    with open(os.path.join(folder, 'disk0.img'), 'r+b') as f:
        f.write(bytes(2 * LABEL))
    name = t.import_pool('single', folder=folder)
    contains(t.zpool('status', name).out, 'ONLINE')


def test_rubbish(t):
    """Devices without a pool, with cut and overwritten ones."""
    folder = t.copy_pool('mirror')
    with open(os.path.join(folder, 'noise'), 'wb') as f:
        f.write(os.urandom(4 << 20))
    open(os.path.join(folder, 'empty'), 'wb').close()
    os.mkfifo(os.path.join(folder, 'pipe'))
    os.mkdir(os.path.join(folder, 'folder'))
    shutil.copy(os.path.join(golden('ashift9'), 'disk0.img'), os.path.join(folder, 'cut'))
    os.chmod(os.path.join(folder, 'cut'), 0o644)
    os.truncate(os.path.join(folder, 'cut'), 1 << 20)
    t.import_pool('mirror', folder=folder)
    t.zpool('import', '-d', folder, code=1)


def test_interrupt(t):
    """Ctrl-C ends a search and an import at once; the daemon goes on."""
    many = os.path.join(t.dir, 'many')
    os.mkdir(many)
    for i in range(3000):
        path = os.path.join(many, 'd%d' % i)
        with open(path, 'wb') as f:
            f.truncate(64 << 20)
    t.zpool('list')
    for argv in (['import', '-d', many], ['import', '-d', many, 'tank']):
        p = t.start(t.program('tarn'), 'zpool', *argv)
        time.sleep(0.15)
        begin = time.monotonic()
        p.send_signal(signal.SIGINT)
        p.wait(15)
        check(time.monotonic() - begin < 5, 'took %.1f s' % (time.monotonic() - begin))
        check(p.returncode != 0)
    wait_for(lambda: t.zpool('list').code == 0, 'the daemon')


tarnlib.main(globals())
