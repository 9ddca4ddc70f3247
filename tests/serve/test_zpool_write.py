"""Pools that are made and changed: create, destroy, add, remove, set, upgrade, checkpoint, trim, history."""

import os

import tarnlib
from tarnlib import check, contains, eq
from writelib import FEATURES, MIB, create, files, folder, reimport, verify


def test_create_and_look(t):
    create(t, n=4, newest=True)
    eq(t.zpool('list', '-H', '-o', 'name,health').out, 'tank\tONLINE\n')
    status = t.zpool('status', 'tank').out
    for i in range(4):
        contains(status, 'disk%d.img' % i)
    contains(status, 'No known data errors')
    eq(t.zfs('list', '-H', '-o', 'name').out, 'tank\n')
    features = dict(row[1:3] for row in t.zpool('get', '-H', 'all', 'tank').rows() if row[1].startswith('feature@'))
    eq(features['feature@spacemap_v2'], 'active')
    eq({v for v in features.values()} - {'enabled', 'active'}, set(), features)
    t.zpool('export', 'tank')
    verify(t, theirs=False)


def test_what_openzfs_of_old_can_open(t):
    """Without features Debian's zdb reads what was made."""
    create(t, '-d', n=2, newest=True)
    eq({row[2] for row in t.zpool('get', '-H', 'all', 'tank').rows() if row[1].startswith('feature@')}, {'disabled'})
    t.zpool('export', 'tank')
    verify(t)


def features(t, pool='tank'):
    """The features that are not disabled."""
    return {row[1][len('feature@'):] for row in t.zpool('get', '-H', 'all', pool).rows()
            if row[1].startswith('feature@') and row[2] != 'disabled'}


def test_compatibility_is_what_old_software_opens(t):
    create(t, '-o', 'compatibility=openzfs-2.1-linux', newest=True)
    eq(features(t), set(FEATURES) | {'multi_vdev_crash_dump', 'draid'})
    t.zfs('create', '-V', '32M', 'tank/v')
    eq(t.zpool('status', '-x').out, 'all pools are healthy\n')
    check('status:' not in t.zpool('status', 'tank').out)
    contains(t.zpool('upgrade', 'tank').out, 'already has all supported and requested')
    r = t.zpool('set', 'feature@block_cloning=enabled', 'tank', code=1)
    contains(r.err, "'compatibility'")
    t.zpool('export', 'tank')
    verify(t)
    reimport(t)
    eq(t.zpool('get', '-H', '-o', 'value,source', 'compatibility', 'tank').out, 'openzfs-2.1-linux\tlocal\n')
    t.zpool('set', 'compatibility=openzfs-2.2', 'tank')
    contains(t.zpool('status', 'tank').out, 'Some supported and requested features are not enabled')
    eq(t.zpool('upgrade', 'tank').out.count('  '), 5)
    check('block_cloning' in features(t) and 'fast_dedup' not in features(t))
    t.zpool('export', 'tank')


def test_compatibility_that_is_left_or_unknown_is_told(t):
    path, = files(t)
    r = t.zpool('create', '-m', 'none', '-o', 'compatibility=zol-0.6.1', '-o', 'feature@sha512=enabled', 'tank', path)
    contains(r.err, 'warning')
    contains(r.err, 'sha512')
    contains(t.zpool('status', 'tank').out, "despite not being")
    eq(t.zpool('status', '-x').out, 'all pools are healthy\n')
    for value in ('nonsense', 'off,zol-0.8', 'zol-0.8,nonsense', '../zol-0.8', '/etc/passwd', 'zol-0.8,'):
        r = t.zpool('set', 'compatibility=' + value, 'tank', code=1)
        contains(r.err, 'compatibility file')
    contains(t.zpool('set', 'compatibility=legacy', 'tank').err, 'lz4_compress')
    eq(t.zpool('set', 'compatibility=off', 'tank').err, '')
    eq(t.zpool('get', '-H', '-o', 'value,source', 'compatibility', 'tank').out, 'off\tdefault\n')
    t.zpool('destroy', 'tank')
    t.zpool('create', '-m', 'none', '-o', 'compatibility=legacy', 'tank', path)
    eq(features(t), set())
    t.zpool('destroy', 'tank')
    r = t.zpool('create', '-m', 'none', '-o', 'compatibility=nonsense', 'tank', path, code=1)
    contains(r.err, "'nonsense' does not exist")


def test_compatibility_file_that_went_away(t):
    """The pool goes on, and says so."""
    mine = os.path.join(t.dir, 'data', 'compatibility.d')
    os.makedirs(mine)
    t.env['TARN_DATADIR'] = os.path.dirname(mine)
    for name, text in (('mine', '# comment\nasync_destroy, lz4_compress\textensible_dataset # more\nfrom_the_future\n'),
                       ('cut', 'async_destroy'), ('empty', '')):
        with open(os.path.join(mine, name), 'w') as f:
            f.write(text)
    create(t, '-o', 'compatibility=mine', newest=True)
    eq(features(t), {'async_destroy', 'lz4_compress', 'extensible_dataset'})
    for name in ('cut', 'empty'):
        contains(t.zpool('set', 'compatibility=' + name, 'tank', code=1).err, 'cannot be used')
    os.unlink(os.path.join(mine, 'mine'))
    contains(t.zpool('status', 'tank').out, 'could not be')
    contains(t.zpool('upgrade', 'tank', code=1).err, "'mine' does not exist")
    t.zpool('export', 'tank')
    reimport(t)
    t.zpool('set', 'compatibility=', 'tank')
    t.zpool('export', 'tank')
    verify(t)


def test_properties(t):
    create(t, '-o', 'comment=a pool', '-o', 'ashift=12', '-o', 'failmode=continue', '-o', 'feature@lz4_compress=enabled', '-d',
           '-O', 'compression=lz4', '-O', 'org.tarn:who=me', newest=True)
    got = {row[1]: row[2:] for row in t.zpool('get', '-H', 'comment,ashift,failmode,feature@lz4_compress', 'tank').rows()}
    eq(got['comment'], ['a pool', 'local'])
    eq(got['ashift'], ['12', 'local'])
    eq(got['failmode'], ['continue', 'local'])
    check(got['feature@lz4_compress'][0] in ('enabled', 'active'), got)
    eq(t.zfs('get', '-H', '-o', 'value', 'compression,org.tarn:who,mountpoint', 'tank').out, 'lz4\nme\nnone\n')
    t.zpool('set', 'comment=another', 'tank')
    t.zpool('set', 'autotrim=on', 'tank')
    t.zpool('export', 'tank')
    reimport(t)
    eq(t.zpool('get', '-H', '-o', 'value', 'comment,autotrim', 'tank').out, 'another\non\n')
    for wrong in ('failmode=never', 'comment=' + 'x' * 40, 'size=1', 'nonsense=1', 'ashift=99'):
        r = t.zpool('set', wrong, 'tank', code=1)
        contains(r.err, "cannot set property for 'tank'")
    t.zpool('export', 'tank')
    verify(t)


def test_dry_run_makes_nothing(t):
    paths = files(t, 2)
    r = t.zpool('create', '-n', 'tank', 'mirror', *paths)
    contains(r.out, "would create 'tank' with the following layout:")
    contains(r.out, 'mirror')
    t.zpool('list', '-H', 'tank', code=1)
    with open(paths[0], 'rb') as f:
        eq(f.read(), bytes(256 * MIB))


def test_wrong_words_are_told(t):
    path, = files(t)
    for words, part in ((('create', 'tank'), 'missing vdev specification'), (('create',), 'missing pool name'),
                        (('create', 'tank', 'mirror', path), 'requires at least 2 devices'),
                        (('create', 'tank', 'file-without-slash'), 'cannot open'),
                        (('create', 'tank', path, path), 'given twice'),
                        (('create', 'mirror', path), 'reserved'), (('create', '9tank', path), 'invalid pool name'),
                        (('create', '-o', 'nonsense=1', 'tank', path), 'nonsense'),
                        (('create', '-O', 'volsize=1G', 'tank', path), 'volsize'),
                        (('create', '-o', 'feature@none=enabled', 'tank', path), 'none')):
        r = t.zpool(*words, code=None)
        check(r.code in (1, 2), r)
        contains(r.err, part, words)
    eq(t.zpool('list', '-H').out, '')


def test_devices_in_use_are_refused(t):
    create(t)
    path = os.path.join(folder(t), 'disk0.img')
    r = t.zpool('create', 'other', path, code=1)
    contains(r.err, 'tank')
    t.zpool('create', '-f', 'other', path, code=1)
    t.zpool('export', 'tank')
    r = t.zpool('create', 'other', path, code=1)
    contains(r.err, 'exported pool')
    t.zpool('create', '-f', 'other', '-R', t.altroot(), path, code=None)
    t.zpool('create', '-f', '-R', t.altroot(), 'other', path, code=None)
    eq(t.zpool('list', '-H', '-o', 'name').out, 'other\n')


def test_destroyed_pools_come_back(t):
    create(t)
    t.zfs('create', 'tank/a')
    t.zpool('destroy', 'tank')
    t.zpool('import', '-d', folder(t), 'tank', code=1)
    contains(t.zpool('import', '-D', '-d', folder(t)).out, '(DESTROYED)')
    t.zpool('import', '-D', '-d', folder(t), '-R', t.altroot(), 'tank')
    eq(t.zfs('list', '-H', '-o', 'name').out, 'tank\ntank/a\n')
    t.zpool('export', 'tank')
    verify(t)


def test_add_and_remove(t):
    create(t)
    more = files(t, 2, name='more')
    t.zpool('add', 'tank', more[0])
    t.zpool('add', 'tank', 'log', more[1])
    contains(t.zpool('status', 'tank').out, 'logs')
    t.zfs('create', '-V', '32M', '-o', 'sync=always', 'tank/v')
    t.zpool('export', 'tank')
    reimport(t)
    t.zpool('remove', 'tank', more[1])
    check('logs' not in t.zpool('status', 'tank').out)
    t.zpool('export', 'tank')
    verify(t)
    os.unlink(more[1])
    reimport(t)


def test_checkpoint(t):
    create(t)
    t.zfs('create', 'tank/before')
    t.zpool('checkpoint', 'tank')
    t.zpool('checkpoint', 'tank', code=1)
    t.zfs('create', 'tank/after')
    t.zfs('destroy', 'tank/before')
    t.zpool('export', 'tank')
    verify(t)
    reimport(t, 'tank', '--rewind-to-checkpoint')
    eq(t.zfs('list', '-H', '-o', 'name').out, 'tank\ntank/before\n')
    t.zpool('checkpoint', 'tank')
    t.zpool('checkpoint', '-d', '-w', 'tank')
    eq(t.zpool('get', '-H', '-o', 'value', 'checkpoint', 'tank').out, '-\n')
    t.zpool('export', 'tank')
    verify(t)


def test_upgrade_and_reguid(t):
    create(t, '-d', newest=True)
    contains(t.zpool('upgrade').out, 'tank')
    contains(t.zpool('upgrade', '-v').out, 'async_destroy')
    contains(t.zpool('upgrade', 'tank').out, 'Enabled the following features')
    contains(t.zpool('upgrade', 'tank').out, 'already has all supported')
    guid = t.zpool('get', '-H', '-o', 'value', 'guid', 'tank').out
    t.zpool('reguid', 'tank')
    check(t.zpool('get', '-H', '-o', 'value', 'guid', 'tank').out != guid)
    t.zpool('export', 'tank')
    verify(t, theirs=False)
    reimport(t)


def test_trim_initialize_and_wait(t):
    create(t)
    for command in ('initialize', 'trim'):
        t.zpool(command, '-w', 'tank')
        contains(t.zpool('status', '-i' if command == 'initialize' else '-t', 'tank').out,
                 '100% initialized' if command == 'initialize' else '100% trimmed')
    t.zpool('wait', 'tank')
    t.zpool('wait', '-t', 'scrub,trim', 'tank')
    t.zpool('wait', '-t', 'nonsense', 'tank', code=2)
    t.zpool('sync')
    t.zpool('sync', 'tank')
    t.zpool('export', 'tank')
    verify(t)


def test_history_and_events(t):
    create(t)
    t.zfs('create', 'tank/a')
    t.zfs('snapshot', 'tank/a@s')
    t.zfs('snapshot', 'tank/a@s', code=1)
    t.zpool('export', 'tank')
    reimport(t)
    history = t.zpool('history', 'tank').out
    for part in ('zpool create', 'zfs create tank/a', 'zfs snapshot tank/a@s', 'zpool import'):
        eq(history.count(part), 1, part, history)
    internal = t.zpool('history', '-il', 'tank').out
    check('unrecognized' not in internal, internal)
    check(any('[txg:' in line and '] snapshot tank/a@s (' in line and line.endswith(']') and ' [on ' in line
              for line in internal.splitlines()), internal)
    contains(t.zpool('history', '-l', 'tank').out, '[user ')
    contains(t.zpool('events').out, 'pool_import')
    contains(t.zpool('events', '-v').out, 'pool')
    contains(t.zpool('events', '-c').out, 'cleared')


def test_labelclear(t):
    create(t)
    path = os.path.join(folder(t), 'disk0.img')
    r = t.zpool('labelclear', path, code=1)
    contains(r.err, 'tank')
    t.zpool('export', 'tank')
    t.zpool('labelclear', path, code=1)
    t.zpool('labelclear', '-f', path)
    t.zpool('import', '-d', folder(t), code=1)


def test_tunables(t):
    create(t)
    eq(t.tarn('tunable', '-H', 'zfs_txg_timeout').rows()[0][:2], ['zfs_txg_timeout', '5'])
    t.tarn('tunable', 'zfs_txg_timeout=2')
    eq(t.tarn('tunable', '-H', 'txg_timeout').rows()[0][1], '2')
    contains(t.tarn('tunable', 'zfs_txg_timeout=0', code=1).err, 'from 1 to')
    contains(t.tarn('tunable', 'nonsense=0', code=1).err, 'nonsense')
    check(len(t.tarn('tunable', '-v').lines()) > 20)


def test_online_with_more_room(t):
    create(t)
    path = os.path.join(folder(t), 'disk0.img')
    before = int(t.zpool('get', '-Hp', '-o', 'value', 'size', 'tank').out)
    with open(path, 'r+b') as f:
        f.truncate(1024 * MIB)
    t.zpool('online', '-e', 'tank', path)
    check(int(t.zpool('get', '-Hp', '-o', 'value', 'size', 'tank').out) > 3 * before)
    t.zpool('export', 'tank')
    verify(t)
    reimport(t)


tarnlib.main(globals())
