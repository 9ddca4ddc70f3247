"""Data sets that are made and changed: create, destroy, snapshot, clone, promote, rename, rollback, hold, properties."""

import tarnlib
from nbdlib import Client
from tarnlib import check, contains, eq
from writelib import create, reimport, verify


def names(t, *types):
    return t.zfs('list', '-H', '-r', '-o', 'name', '-t', ','.join(types) or 'all', 'tank').lines()


def value(t, prop, name):
    return t.zfs('get', '-Hp', '-o', 'value', prop, name).out.strip()


def source(t, prop, name):
    return t.zfs('get', '-Hp', '-o', 'source', prop, name).out.strip()


def end(t):
    t.zpool('export', 'tank')
    verify(t, theirs=False)


def test_create(t):
    create(t)
    t.zfs('create', '-o', 'compression=zstd', '-o', 'org.tarn:x=y', 'tank/a')
    eq(value(t, 'compression', 'tank/a'), 'zstd')
    eq(source(t, 'org.tarn:x', 'tank/a'), 'local')
    contains(t.zfs('create', 'tank/a', code=1).err, "cannot create 'tank/a': dataset already exists")
    contains(t.zfs('create', 'tank/x/y', code=1).err, 'parent does not exist')
    t.zfs('create', '-p', 'tank/x/y/z')
    t.zfs('create', '-p', 'tank/x/y/z')
    r = t.zfs('create', '-nvP', '-V', '1000000', '-b', '16K', 'tank/v')
    contains(r.out, 'create\ttank/v')
    contains(r.out, 'property\tvolsize\t1015808')
    for wrong in ('tank/', 'tank/a@', 'tank/a//b', 'tank/b c%', 'tank/' + 'n' * 300, 'none/a'):
        contains(t.zfs('create', wrong, code=None).err, 'cannot create', wrong)
    contains(t.zfs('create', '-o', 'compression=none-such', 'tank/b', code=1).err, 'compression')
    contains(t.zfs('create', '-o', 'volsize=1G', 'tank/b', code=1).err, 'volsize')
    t.zfs('create', '-o', 'casesensitivity=insensitive', '-o', 'normalization=formD', 'tank/case')
    eq(value(t, 'casesensitivity', 'tank/case'), 'insensitive')
    eq(value(t, 'utf8only', 'tank/case'), 'on')
    eq(names(t, 'filesystem'), ['tank', 'tank/a', 'tank/case', 'tank/x', 'tank/x/y', 'tank/x/y/z'])
    end(t)


def test_snapshots_and_destroy(t):
    create(t)
    t.zfs('create', '-p', 'tank/a/b')
    for s in 'abcde':
        t.zfs('snapshot', '-r', 'tank/a@' + s)
    contains(t.zfs('snapshot', 'tank/a@x', 'tank/a@e', code=1).err, 'exists')
    check('tank/a@x' not in names(t, 'snapshot'), 'all or none')
    contains(t.zfs('destroy', 'tank/a', code=1).err, "cannot destroy 'tank/a': filesystem has children\nuse '-r'")
    r = t.zfs('destroy', '-nvp', 'tank/a@b%d')
    eq(r.out.splitlines()[:3], ['destroy\ttank/a@b', 'destroy\ttank/a@c', 'destroy\ttank/a@d'])
    check(r.out.splitlines()[3].startswith('reclaim\t'), r)
    t.zfs('destroy', '-r', 'tank/a@b%d')
    eq(names(t, 'snapshot'), ['tank/a@a', 'tank/a@e', 'tank/a/b@a', 'tank/a/b@e'])
    t.zfs('destroy', 'tank/a@a,none')
    contains(t.zfs('destroy', 'tank/a@none', code=1).err, 'could not find any snapshots')
    t.zfs('destroy', 'tank/a@%')
    t.zfs('destroy', '-r', 'tank/a')
    eq(names(t), ['tank'])
    end(t)


def group(t):
    """The number of a transaction group of now."""
    t.zfs('create', 'tank/now')
    txg = int(value(t, 'createtxg', 'tank/now'))
    t.zfs('destroy', 'tank/now')
    return txg


def test_many_in_few_groups(t):
    """What is done to a tree does not wait for a group per data set."""
    create(t)
    for i in range(40):
        t.zfs('create', '-p', '-o', 'compression=gzip', 'tank/t/%d' % i)
    t.zfs('create', '-s', '-V', '16M', 'tank/t/v')
    few = 25
    for words in (('snapshot', '-r', 'tank/t@a'), ('snapshot', '-r', 'tank/t@b'), ('hold', '-r', 'keep', 'tank/t@b'),
                  ('release', '-r', 'keep', 'tank/t@b'), ('rename', '-r', 'tank/t@b', '@c'),
                  ('inherit', '-r', 'compression', 'tank/t'), ('inherit', '-r', 'atime', 'tank/t'),
                  ('destroy', '-r', 'tank/t@c'), ('destroy', '-r', 'tank/t')):
        before = group(t)
        t.zfs(*words)
        check(group(t) - before < few, words)
    eq(names(t), ['tank'])
    end(t)


def test_destroy_of_a_tree_is_refused_whole(t):
    """What is held or in use anywhere is told before anything goes; then all of it goes in the order that was told."""
    create(t)
    for i in range(5):
        t.zfs('create', '-p', 'tank/t/%d/below' % i)
    t.zfs('create', '-s', '-V', '16M', 'tank/t/v')
    t.zfs('snapshot', '-r', 'tank/t@s')
    t.zfs('clone', 'tank/t/3@s', 'tank/t/1/clone')
    before = names(t)
    t.zfs('hold', 'keep', 'tank/t/4/below@s')
    for words in (('-r', 'tank/t'), ('-r', 'tank/t/4@s'), ('tank/t/4/below@s',)):
        contains(t.zfs('destroy', *words, code=1).err, "tank/t/4/below@s: it's being held: keep", words)
        eq(names(t), before)
    t.zfs('release', 'keep', 'tank/t/4/below@s')
    with Client(t) as c:
        c.go('tank/t/v')
        contains(t.zfs('destroy', '-r', 'tank/t', code=1).err, "cannot destroy 'tank/t': tank/t/v: dataset is busy")
        eq(names(t), before)
    told = t.zfs('destroy', '-rnvp', 'tank/t').lines()
    eq(names(t), before)
    eq(sorted(told), sorted('destroy\t' + n for n in before[1:]))
    for first, then in (('tank/t/1/clone', 'tank/t/3@s'), ('tank/t/4/below', 'tank/t/4'), ('tank/t/4@s', 'tank/t/4')):
        check(told.index('destroy\t' + first) < told.index('destroy\t' + then), first, told)
    eq(told[-1], 'destroy\ttank/t')
    eq([line.replace('will destroy ', 'destroy\t') for line in t.zfs('destroy', '-rv', 'tank/t').lines()], told)
    eq(names(t), ['tank'])
    end(t)


def test_clones(t):
    create(t)
    t.zfs('create', '-V', '16M', 'tank/v')
    t.zfs('snapshot', 'tank/v@s')
    t.zfs('clone', '-o', 'org.tarn:c=1', 'tank/v@s', 'tank/c')
    eq(value(t, 'origin', 'tank/c'), 'tank/v@s')
    r = t.zfs('destroy', 'tank/v@s', code=1)
    contains(r.err, 'dependent clones')
    contains(r.err, 'tank/c')
    t.zfs('destroy', '-d', 'tank/v@s')
    eq(value(t, 'defer_destroy', 'tank/v@s'), 'on')
    t.zfs('promote', 'tank/c')
    eq(value(t, 'origin', 'tank/v'), 'tank/c@s')
    t.zfs('promote', 'tank/c', code=1)
    t.zfs('destroy', 'tank/v')
    end(t)


def test_rename(t):
    create(t)
    t.zfs('create', '-p', 'tank/a/b/c')
    t.zfs('snapshot', '-r', 'tank/a@one')
    t.zfs('rename', 'tank/a/b', 'tank/d')
    t.zfs('rename', '-r', 'tank/a@one', '@two')
    t.zfs('rename', '-p', 'tank/d', 'tank/new/place/d')
    contains(t.zfs('rename', 'tank/new', 'tank/new/place/x', code=1).err, 'cannot rename')
    contains(t.zfs('rename', 'tank/a', 'tank/new', code=1).err, 'exists')
    eq(names(t), ['tank', 'tank/a', 'tank/a@two', 'tank/new', 'tank/new/place', 'tank/new/place/d', 'tank/new/place/d@one',
                  'tank/new/place/d/c', 'tank/new/place/d/c@one'])
    t.zpool('export', 'tank')
    reimport(t)
    eq(len(names(t)), 9)
    end(t)


def test_holds_name_themselves(t):
    create(t)
    t.zfs('snapshot', 'tank@s')
    t.zfs('hold', 'keep', 'tank@s')
    contains(t.zfs('hold', 'keep', 'tank@s', code=1).err, 'tag')
    r = t.zfs('destroy', 'tank@s', code=1)
    contains(r.err, 'keep')
    t.zfs('destroy', '-d', 'tank@s')
    contains(t.zfs('release', 'other', 'tank@s', code=1).err, 'tag')
    t.zfs('release', 'keep', 'tank@s')
    eq(names(t), ['tank'])
    end(t)


def test_rollback_names_what_is_newer(t):
    create(t)
    t.zfs('create', 'tank/a')
    t.zfs('snapshot', 'tank/a@one')
    t.zfs('set', 'org.tarn:x=1', 'tank/a')
    t.zfs('snapshot', 'tank/a@two')
    t.zfs('bookmark', 'tank/a@two', '#mark')
    r = t.zfs('rollback', 'tank/a@one', code=1)
    contains(r.err, "use '-r'")
    contains(r.err, 'tank/a@two')
    contains(r.err, 'tank/a#mark')
    t.zfs('rollback', '-r', 'tank/a@one')
    eq(names(t), ['tank', 'tank/a', 'tank/a@one'])
    end(t)


def test_properties(t):
    create(t)
    t.zfs('create', '-p', 'tank/a/b')
    t.zfs('set', 'compression=gzip-3', 'atime=off', 'tank/a')
    eq((value(t, 'compression', 'tank/a/b'), source(t, 'compression', 'tank/a/b')), ('gzip-3', 'inherited from tank/a'))
    t.zfs('inherit', 'compression', 'tank/a')
    eq(source(t, 'compression', 'tank/a/b'), 'default')
    t.zfs('set', 'org.tarn:note=' + 'n' * 1000, 'tank/a')
    eq(value(t, 'org.tarn:note', 'tank/a/b'), 'n' * 1000)
    for wrong, part in (('compression=no', 'compression'), ('used=1', 'read'), ('nonsense=1', 'nonsense'),
                        ('recordsize=3000', 'recordsize'), ('quota=-1', 'numeric'), ('casesensitivity=mixed', 'casesensitivity'),
                        ('mountpoint=relative', 'mountpoint'), ('volsize=1M', 'volsize'), ('copies=4', 'copies')):
        contains(t.zfs('set', wrong, 'tank/a', code=None).err, part, wrong)
    contains(t.zfs('inherit', 'quota', 'tank/a', code=None).err, 'quota')
    t.zpool('export', 'tank')
    reimport(t)
    eq(source(t, 'atime', 'tank/a'), 'local')
    end(t)


def test_space_that_is_set_apart(t):
    create(t)
    t.zfs('create', '-o', 'quota=20M', '-o', 'reservation=10M', 'tank/a')
    eq(value(t, 'quota', 'tank/a'), str(20 << 20))
    check(int(value(t, 'available', 'tank/a')) <= 20 << 20)
    check(int(value(t, 'used', 'tank')) >= 10 << 20)
    contains(t.zfs('set', 'reservation=100G', 'tank/a', code=1).err, 'greater than available space')
    contains(t.zfs('set', 'reservation=30M', 'tank/a', code=1).err, 'cannot set property')
    t.zfs('create', '-V', '50M', 'tank/v')
    check(int(value(t, 'refreservation', 'tank/v')) >= 50 << 20)
    contains(t.zfs('create', '-V', '100G', 'tank/w', code=1).err, 'out of space')
    t.zfs('create', '-s', '-V', '7E', '-b', '128K', 'tank/huge')
    t.zfs('set', 'volsize=60M', 'tank/v')
    eq(value(t, 'volsize', 'tank/v'), str(60 << 20))
    t.zfs('set', 'filesystem_limit=1', 'tank')
    contains(t.zfs('create', 'tank/b', code=1).err, 'limit')
    end(t)


def test_delegation_and_upgrade(t):
    create(t)
    t.zfs('allow', '-u', 'nobody', 'snapshot,mount', 'tank')
    t.zfs('allow', '-s', '@set', 'create,destroy', 'tank')
    t.zfs('allow', '-e', '@set', 'tank')
    shown = t.zfs('allow', 'tank').out
    for part in ('user nobody mount,snapshot', '@set create,destroy', 'everyone @set'):
        contains(shown, part)
    t.zfs('unallow', '-u', 'nobody', 'mount', 'tank')
    contains(t.zfs('allow', 'tank').out, 'user nobody snapshot')
    t.zfs('unallow', '-e', 'tank')
    check('everyone' not in t.zfs('allow', 'tank').out)
    t.zfs('create', '-o', 'version=4', 'tank/old')
    contains(t.zfs('upgrade').out, 'tank/old')
    t.zfs('upgrade', 'tank/old')
    eq(value(t, 'version', 'tank/old'), '5')
    end(t)


tarnlib.main(globals())
