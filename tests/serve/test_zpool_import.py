"""zpool import and export: what is found, what comes up, what is refused."""

import hashlib
import os
import re
import shutil
import signal
import struct
import time

import tarnlib
from tarnlib import check, contains, eq, golden, manifest, wait_for

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
        t.zpool('import', '-o', 'readonly=on', '-N', '-d', where, name)
        t.zpool('export', name)
    t.zpool('import', '-o', 'readonly=on', '-N', '-d', 'here', name, cwd=t.dir)
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
    t.zpool('import', '-o', 'readonly=on', '-N', '-d', both, guid(t, 'mirror'))
    r = t.zpool('import', '-o', 'readonly=on', '-N', '-d', both, guid(t, 'single'), code=1)
    contains(r.err, 'a pool with that name already exists')
    t.zpool('import', '-o', 'readonly=on', '-N', '-d', both, guid(t, 'single'), 'other')
    eq(t.zpool('list', '-H', '-o', 'name').out, 'other\ntank\n')
    eq(t.zpool('import', '-o', 'readonly=on', '-N', '-d', both, guid(t, 'single'), 'third', code=1).out, '')
    t.zpool('export', '-a')
    t.zpool('import', '-o', 'readonly=on', '-N', '-t', '-d', golden('single'), 'tank', 'temporary')
    contains(t.zpool('status').out, '  pool: temporary')


def test_options(t):
    name, where = t.pool_name('single'), golden('single')
    r = t.zpool('import', '-d', where, '-n', name, code=2)
    contains(r.err, 'usage')
    t.zpool('import', '-d', where, '-z', name, code=2)
    t.zpool('import', '-d', where, '-t', name, code=2)
    t.zpool('import', '-d', where, '-a', name, code=2)
    r = t.zpool('import', '-d', where, '-o', 'bogus=1', name, code=1)
    contains(r.err, 'bogus')
    eq(t.zpool('list', '-H').out, '')
    t.zpool('import', '-o', 'readonly=on', '-N', '-d', where, '-R', t.altroot(), '-o', 'readonly=on', name)
    eq(t.zpool('get', '-H', '-o', 'value,source', 'altroot', name).out, t.altroot() + '\tlocal\n')
    t.zpool('export', '-f', name)
    r = t.zpool('import', '-o', 'readonly=on', '-N', '-d', where, '-F', '-n', name)
    eq(t.zpool('list', '-H').out, '', 'a dry run imports nothing')
    t.zpool('import', '-o', 'readonly=on', '-N', '-d', where, '-D', name, code=1)


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
    r = t.zpool('import', '-o', 'readonly=on', '-d', folder, '-f', '-N', name, code=1)
    contains(r.err, '-m')
    t.zpool('import', '-o', 'readonly=on', '-d', folder, '-f', '-N', '-m', name)
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


def many_devices(t, n=3000):
    folder = os.path.join(t.dir, 'many')
    os.mkdir(folder)
    for i in range(n):
        with open(os.path.join(folder, 'd%d' % i), 'wb') as f:
            f.truncate(64 << 20)
    return folder


def test_interrupt(t):
    """Ctrl-C ends a search and an import at once; the daemon goes on."""
    many = many_devices(t)
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


def label_set(image, name, value):
    """Writes a number of the top of all four labels of an image, with the checksums that go with it (01-pool.md 2.3)."""
    pair = struct.pack('>I', len(name)) + name.encode().ljust((len(name) + 3) & ~3, b'\0') + struct.pack('>II', 8, 1)
    size = os.path.getsize(image) & ~(LABEL - 1)
    with open(image, 'r+b') as f:
        for label in (0, LABEL, size - 2 * LABEL, size - LABEL):
            offset = label + (16 << 10)
            f.seek(offset)
            block = bytearray(f.read(112 << 10))
            at = block.index(pair) + len(pair)
            block[at:at + 8] = struct.pack('>Q', value)
            block[-32:] = struct.pack('<4Q', offset, 0, 0, 0)
            block[-32:] = struct.pack('<4Q', *struct.unpack('>4Q', hashlib.sha256(block).digest()))
            f.seek(offset)
            f.write(block)


def test_destroyed(t):
    """A destroyed pool shows with -D only, and comes back with -D."""
    folder, name = t.copy_pool('mirror'), t.pool_name('mirror')
    for image in os.listdir(folder):
        label_set(os.path.join(folder, image), 'state', 2)
    eq(t.zpool('import', '-d', folder, code=1).err, 'no pools available to import\n')
    contains(t.zpool('import', '-d', folder, name, code=1).err, 'no such pool available')
    out = t.zpool('import', '-D', '-d', folder).out
    for part in ('   pool: %s\n' % name, '  state: ONLINE (DESTROYED)\n', "'-Df'"):
        contains(out, part)
    check('note:' not in out, 'the labels are sound', out)
    t.zpool('import', '-o', 'readonly=on', '-N', '-D', '-f', '-d', folder, name)
    eq(t.zpool('list', '-H', '-o', 'name,health').out, name + '\tONLINE\n')
    t.zpool('export', name)
    t.zpool('import', '-o', 'readonly=on', '-N', '-D', '-a', '-d', folder)
    eq(t.zpool('list', '-H', '-o', 'name').out, name + '\n')
    t.zpool('export', name)
    t.zpool('import', '-D', '-d', golden('mirror'), code=1)  # -D leaves out what is not destroyed


def test_txg(t):
    """-T opens the state of that txg."""
    image = os.path.join(golden('single'), 'disk0.img')
    txgs = sorted({int(n) for n in re.findall(r'^\ttxg = (\d+)$', t.tarn('zdb', '-lu', image).out, re.M)})
    newest, older = txgs[-1], txgs[-2]
    for txg in (older, newest):
        name = t.import_pool('single', '-T', txg)
        eq(t.zpool('status', '-j', '--json-int').json()['pools'][name]['txg'], txg)
        t.zpool('export', name)
    t.import_pool('single', '-T', newest + 1000)  # the newest state that is not past it
    eq(t.zpool('status', '-j', '--json-int').json()['pools'][name]['txg'], newest)
    t.zpool('export', name)
    t.import_pool('single', '-T', 1, code=1)
    eq(t.zpool('list', '-H').out, '')
    t.zpool('import', '-T', 'x', '-d', golden('single'), name, code=2)


def test_keys(t):
    """-l loads keys before anything is mounted, from the terminal or from a pipe."""
    pool, key = 'encrypted-pool', manifest('encrypted-pool')['keys']['safe']['value']
    name, where = t.pool_name(pool), golden(pool)
    argv = ['zpool', 'import', '-f', '-N', '-l', '-o', 'readonly=on', '-d', where, name]
    kept = '/tmp/keys/safe'  # the keylocation that the pool has
    if os.path.exists(kept):
        raise tarnlib.Skip(kept + ' is there')
    status = ['get', '-Ho', 'value', 'keystatus', name]
    r = t.tarn(*argv, code=1)
    contains(r.err, 'safe')
    eq(t.zfs(*status).out, 'unavailable\n', 'imported, without its key')
    t.zpool('export', name)
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    try:
        shutil.copy(t.key_file(pool, 'safe'), kept)
        t.tarn(*argv)
    finally:
        os.unlink(kept)
    eq(t.zfs(*status).out, 'available\n')
    t.zpool('export', name)


def test_keys_asked_for(t):
    """-l asks on the terminal, once for each root whose key is not in a file, and reads a pipe."""
    pool, root = 'encryption', 'secret/parent'
    name, key = t.pool_name(pool), manifest(pool)['keys'][root]['value']
    argv = ['zpool', 'import', '-f', '-N', '-l', '-o', 'readonly=on', '-d', golden(pool), name]
    code, shown = t.on_terminal(*argv, answers=['wrong one', key])
    eq(code, 1, 'the files with the other keys are not there')
    contains(shown, "Enter passphrase for '%s': " % root)
    contains(shown, 'ncorrect key')
    check(key not in shown, 'the terminal showed the passphrase')
    eq(t.zfs('get', '-Ho', 'value', 'keystatus', root).out, 'available\n')
    t.zpool('export', name)
    t.tarn(*argv, input=key + '\n', code=1)
    eq(t.zfs('get', '-Ho', 'value', 'keystatus', root).out, 'available\n')


def test_progress_on_a_terminal(t):
    """What is being done shows on the terminal and is wiped away; elsewhere it is not shown at all."""
    folder = many_devices(t, 300)
    for image in os.listdir(golden('mirror')):
        os.symlink(os.path.join(golden('mirror'), image), os.path.join(folder, image))
    t.zpool('list')
    code, shown = t.on_terminal('zpool', 'import', '-d', folder)
    eq(code, 0, shown)
    contains(shown, '\r\x1b[Kreading ')
    left = re.sub(r'[^\n]*\r\x1b\[K', '', shown.replace('\r\n', '\n'))
    eq(left, t.zpool('import', '-d', folder).out)
    eq(t.zpool('import', '-d', folder).err, '')


def test_interrupt_on_a_terminal(t):
    """Ctrl-C as it is typed: a long listing ends at once, and its line is wiped away."""
    folder = many_devices(t)
    t.zpool('list')
    pid = t.daemon_pid()
    begin = time.monotonic()
    code, shown = t.on_terminal('zpool', 'import', '-d', folder, interrupt_at='reading ')
    check(code != 0, shown[-500:])
    check(time.monotonic() - begin < 5, 'took %.1f s' % (time.monotonic() - begin))
    left = re.sub(r'[^\n]*\r\x1b\[K', '', shown.replace('\r\n', '\n'))
    check('reading' not in left, left)
    eq(t.daemon_pid(), pid)
    eq(t.zpool('list', '-H').out, '')


tarnlib.main(globals())
