"""The pieces of work: pools of every kind, and everything that can be done to a pool and its data sets. Each function gets
a Pool, makes it, leaves it exported, and remembers what its volumes hold."""

import random

import wire
from tarnlib import check, eq
from worklib import MIB, Writer, contents

KEPT = ('lz4', 'lzjb', 'zle', 'gzip', 'gzip-1', 'gzip-9', 'zstd', 'zstd-1', 'zstd-19', 'zstd-fast', 'zstd-fast-1000', 'on', 'off')
SUMS = ('on', 'off', 'fletcher2', 'fletcher4', 'sha256', 'sha512', 'skein', 'edonr')


def volumes_and_snapshots(p):
    """What the other pieces do to see their pool used: blocks of three sizes, rewritten, freed, snapshots between."""
    for block in ('4K', '16K', '128K'):
        p.volume('v' + block, '24M', block)
        p.write('v' + block, 0, 3 * MIB)
        p.scatter('v' + block, 60, 8 * MIB)
    p.zfs('snapshot', '-r', p.name + '@one')
    for block in ('4K', '16K', '128K'):
        p.scatter('v' + block, 60, 8 * MIB)
        p.punch('v' + block, 1 * MIB, 700 * 1024 + 512)
        p.punch('v' + block, 2 * MIB, MIB, trim=False)
    p.zfs('snapshot', '-r', p.name + '@two')
    p.scatter('v16K', 40, 8 * MIB, flags=wire.FLAG_FUA)


def close(p):
    p.remember()
    p.cycle()
    p.compare()
    p.export()


# ---- kinds of pools ----

def single(p):
    p.create(*p.disks())
    volumes_and_snapshots(p)
    close(p)


def every_feature(p):
    p.create(*p.disks(2))
    volumes_and_snapshots(p)
    close(p)


def no_features(p):
    p.create('-d', *p.disks(2))
    volumes_and_snapshots(p)
    p.zfs('destroy', '-r', p.name + '@one')
    close(p)


def stripe_with_log(p):
    p.create('-o', 'ashift=12', *p.disks(4), 'log', *p.disks(1, 128 * MIB, 'log'))
    volumes_and_snapshots(p)
    p.zfs('create', '-V', '16M', '-o', 'sync=always', '-o', 'logbias=throughput', p.ds('always'))
    p.scatter('always', 100, flags=wire.FLAG_FUA)
    close(p)


def ashift9(p):
    p.create('-o', 'ashift=9', *p.disks(2, 128 * MIB))
    p.volume('v512', '8M', '512')
    p.scatter('v512', 300, 4 * MIB, 512)
    p.zfs('snapshot', p.ds('v512@s'))
    p.scatter('v512', 300, 4 * MIB, 512)
    volumes_and_snapshots(p)
    close(p)


def ashift14(p):
    p.create('-o', 'ashift=14', *p.disks(1, 512 * MIB))
    volumes_and_snapshots(p)
    close(p)


# ---- blocks ----

def compressions_and_checksums(p):
    p.create(*p.disks(2))
    for i, kind in enumerate(KEPT):
        name = 'c-' + kind
        p.volume(name, '4M', '32K', '-s', '-o', 'compression=' + kind, '-o', 'checksum=' + SUMS[i % len(SUMS)])
        p.write(name, 0, MIB)
        p.scatter(name, 20, 4 * MIB)
    p.zfs('set', 'compression=off', 'checksum=sha512', p.ds('c-zstd'))
    p.scatter('c-zstd', 20, 4 * MIB)
    p.zfs('snapshot', '-r', p.name + '@s')
    close(p)


def several_copies(p):
    p.create(*p.disks(4, 128 * MIB))
    for copies in '23':
        p.volume('v' + copies, '12M', '8K', '-o', 'copies=' + copies)
        p.write('v' + copies, 0, 2 * MIB)
        p.scatter('v' + copies, 60, 8 * MIB)
    for word in ('most', 'some', 'none'):
        p.zfs('set', 'redundant_metadata=' + word, p.name, code=None)
        p.scatter('v2', 30, 8 * MIB)
    close(p)


def gangs(p):
    p.create(*p.disks(2))
    p.t.tarn('tunable', 'metaslab_force_ganging=8192')
    p.t.tarn('tunable', 'metaslab_force_ganging_pct=60')
    p.volume('v', '24M', '64K')
    p.write('v', 0, 4 * MIB, 'random')
    p.zfs('snapshot', p.ds('v@s'))
    p.scatter('v', 100, 8 * MIB, 65536)
    p.volume('c2', '12M', '128K', '-o', 'copies=2')
    p.write('c2', 0, 2 * MIB)
    p.zfs('destroy', p.ds('v@s'))
    p.punch('v', 0, MIB)
    close(p)
    p.t.tarn('tunable', 'metaslab_force_ganging=16777217')


def full(p):
    p.create(*p.disks(1, 128 * MIB))
    p.volume('kept', '8M', '8K')
    p.volume('big', '512M', '16K', '-s')
    rnd = random.Random(3)
    with Writer(p.t, p.ds('big')) as w:
        for at in range(0, 512 * MIB, MIB):
            w.send(wire.request(wire.WRITE, at, MIB) + contents(rnd, MIB, 'random'))
            error, _ = w.simple()
            if error:
                eq(error, 28)
                break
        else:
            check(False, 'the pool is never full')
    p.write('kept', 0, 8 * MIB, 'random')
    p.zfs('set', 'org.tarn:full=yes', p.name)
    close(p)


# ---- data sets ----

def clones(p):
    p.create(*p.disks(2))
    p.volume('v', '16M', '8K')
    p.write('v')
    p.zfs('snapshot', p.ds('v@a'))
    p.scatter('v')
    p.zfs('snapshot', p.ds('v@b'))
    p.scatter('v')
    p.zfs('clone', p.ds('v@a'), p.ds('ca'))
    p.zfs('clone', '-o', 'compression=off', p.ds('v@b'), p.ds('cb'))
    p.scatter('ca')
    p.scatter('cb')
    p.zfs('snapshot', p.ds('cb@x'))
    p.zfs('clone', p.ds('cb@x'), p.ds('cc'))
    p.scatter('cc')
    p.zfs('promote', p.ds('cb'))
    p.zfs('promote', p.ds('cc'))
    p.scatter('v')
    p.zfs('rename', p.ds('v'), p.ds('renamed'))
    p.zfs('create', p.ds('dir'))
    p.zfs('rename', p.ds('cb'), p.ds('dir/cb'))
    p.zfs('clone', p.ds('cc@x'), p.ds('gone'))
    p.scatter('gone')
    p.zfs('destroy', p.ds('gone'))
    p.zfs('snapshot', p.ds('ca@later'))
    p.scatter('ca')
    p.zfs('rollback', p.ds('ca@later'))
    p.scatter('ca', 20)
    close(p)


def destroyed(p):
    """Snapshots destroyed at all places of a chain, a data set with all of its own, and a big one in the background."""
    p.create(*p.disks(2))
    p.volume('v', '16M', '8K')
    for i in range(8):
        p.scatter('v', 60)
        p.zfs('snapshot', p.ds('v@%d' % i))
    p.zfs('destroy', p.ds('v@3'))
    p.zfs('destroy', p.ds('v@0,5'))
    p.zfs('destroy', p.ds('v@6%7'))
    p.zfs('hold', 'tag', p.ds('v@4'))
    p.zfs('destroy', '-d', p.ds('v@4'))
    p.volume('big', '64M', '4K', '-s')
    p.write('big', 0, 16 * MIB, 'random')
    p.zfs('create', p.ds('tree'))
    p.volume('tree/w', '8M', '8K')
    p.write('tree/w', 0, 2 * MIB)
    p.zfs('snapshot', '-r', p.ds('tree@s'))
    p.zfs('destroy', '-r', p.ds('tree'))
    p.zfs('destroy', p.ds('big'))
    close(p)


def names_and_marks(p):
    """Holds, bookmarks, user properties, delegation, file systems of all creation properties."""
    p.create(*p.disks())
    p.zfs('create', '-p', p.ds('a/b/c'))
    p.zfs('create', '-o', 'casesensitivity=mixed', '-o', 'normalization=formC', p.ds('mixed'))
    p.zfs('create', '-o', 'utf8only=on', '-o', 'recordsize=1M', '-o', 'xattr=sa', '-o', 'dnodesize=auto', p.ds('utf8'))
    p.volume('a/v', '8M', '16K')
    p.write('a/v', 0, MIB)
    p.zfs('snapshot', '-r', '-o', 'org.tarn:made=now', p.ds('a@one'))
    p.zfs('hold', '-r', 'keep', p.ds('a@one'))
    p.zfs('hold', 'too', p.ds('a/v@one'))
    p.zfs('bookmark', p.ds('a/v@one'), p.ds('a/v#one'))
    p.scatter('a/v', 40, 8 * MIB)
    p.zfs('snapshot', p.ds('a/v@two'))
    p.zfs('bookmark', p.ds('a/v@two'), p.ds('a/v#two'))
    p.zfs('bookmark', p.ds('a/v#one'), p.ds('a/v#copy'))
    p.scatter('a/v', 40, 8 * MIB)
    p.zfs('destroy', p.ds('a/v@two'))
    p.zfs('destroy', p.ds('a/v#copy'))
    p.zfs('set', 'org.tarn:note=' + 'n' * 500, 'compression=gzip-2', 'atime=off', 'exec=off', p.ds('a'))
    p.zfs('set', 'compression=zle', p.ds('a/b'))
    p.zfs('inherit', 'compression', p.ds('a/b'))
    p.zfs('set', 'org.tarn:snap=1', p.ds('a/v@one'))
    p.zfs('allow', '-u', 'nobody', 'snapshot,mount', p.ds('a'))
    p.zfs('allow', '-g', 'nogroup', 'send', p.ds('a'))
    p.zfs('allow', '-s', '@set', 'create,destroy', p.name)
    p.zfs('allow', '-e', '@set', p.name)
    p.zfs('allow', '-c', 'rename', p.name)
    p.zfs('unallow', '-g', 'nogroup', 'send', p.ds('a'))
    p.zfs('rename', p.ds('a/b'), p.ds('moved'))
    p.zfs('rename', '-r', p.ds('a@one'), '@eins')
    close(p)


def limits(p):
    """Quotas, reservations, limits of counts, volumes that reserve their size."""
    p.create(*p.disks(2))
    p.zfs('create', '-o', 'quota=60M', '-o', 'reservation=20M', p.ds('q'))
    p.zfs('create', '-o', 'refquota=10M', '-o', 'refreservation=5M', p.ds('q/rq'))
    p.volume('q/v', '12M', '8K')
    p.write('q/v', 0, 6 * MIB, 'random')
    p.zfs('snapshot', p.ds('q/v@s'))
    p.scatter('q/v', 100, 12 * MIB)
    p.volume('q/sparse', '64M', '16K', '-s')
    p.write('q/sparse', 40 * MIB, 2 * MIB)
    p.zfs('set', 'refreservation=auto', p.ds('q/v'))
    p.zfs('set', 'volsize=20M', p.ds('q/v'))
    p.zfs('create', '-o', 'filesystem_limit=4', '-o', 'snapshot_limit=5', p.ds('counted'))
    for i in range(3):
        p.zfs('create', p.ds('counted/%d' % i))
        p.zfs('snapshot', p.ds('counted/%d@s' % i))
    p.zfs('create', p.ds('counted/3'))
    r = p.zfs('create', p.ds('counted/4'), code=None)
    check(r.code, 'file systems are limited')
    p.zfs('destroy', '-r', p.ds('counted/0'))
    p.zfs('rename', p.ds('counted/1'), p.ds('q/1'))
    close(p)


# ---- the pool itself ----

def checkpoint_kept(p):
    p.create(*p.disks(2))
    volumes_and_snapshots(p)
    p.zpool('checkpoint', p.name)
    p.zfs('destroy', '-r', p.name + '@one')
    p.write('v16K', 0, 4 * MIB)
    close(p)


def checkpoint_rewound(p):
    p.create(*p.disks(2))
    volumes_and_snapshots(p)
    p.remember()
    p.zpool('checkpoint', p.name)
    p.write('v16K', 0, 4 * MIB)
    p.zfs('destroy', '-r', p.name + '@one')
    p.export()
    p.reimport('--rewind-to-checkpoint')
    p.compare()
    p.scatter('v16K', 40)
    p.zpool('checkpoint', p.name)
    p.write('v4K', 0, 4 * MIB)
    p.zpool('checkpoint', '-d', '-w', p.name)
    close(p)


def changed(p):
    """add, set, upgrade, reguid, trim, initialize, remove a log."""
    p.create('-d', *p.disks())
    p.volume('v', '24M', '16K')
    p.write('v')
    p.zpool('add', p.name, *p.disks(1, 256 * MIB, 'added'))
    p.scatter('v')
    log, = p.disks(1, 128 * MIB, 'log')
    p.zpool('add', p.name, 'log', log)
    p.scatter('v', 100, flags=wire.FLAG_FUA)
    for value in ('comment=a comment', 'autotrim=on', 'failmode=continue', 'listsnapshots=on', 'autoexpand=on'):
        p.zpool('set', value, p.name)
    p.cycle()
    for feature in UPGRADE:
        p.zpool('set', 'feature@%s=enabled' % feature, p.name)
        p.scatter('v', 10)
    p.zfs('snapshot', p.ds('v@s'))
    p.zpool('reguid', p.name)
    p.zpool('initialize', '-w', p.name)
    p.zpool('trim', '-w', p.name)
    p.scatter('v', 100)
    p.zpool('remove', p.name, log)
    p.scatter('v', 100, flags=wire.FLAG_FUA)
    close(p)


UPGRADE = '''async_destroy empty_bpobj lz4_compress spacemap_histogram enabled_txg hole_birth extensible_dataset
embedded_data bookmarks filesystem_limits large_blocks userobj_accounting project_quota spacemap_v2 log_spacemap
bookmark_v2 bookmark_written zpool_checkpoint livelist'''.split()


def upgraded(p):
    """From no feature to all at once, with data sets made before and after."""
    p.create('-d', *p.disks(2))
    volumes_and_snapshots(p)
    p.zpool('upgrade', p.name)
    p.zfs('create', p.ds('new'))
    p.volume('late', '16M', '64K')
    p.write('late')
    p.zfs('clone', p.ds('v16K@one'), p.ds('c'))
    p.scatter('c')
    p.zfs('bookmark', p.ds('v16K@one'), p.ds('v16K#one'))
    close(p)


OF_OLD = [single, no_features, stripe_with_log, ashift9, ashift14, compressions_and_checksums, several_copies, gangs, full,
          clones, destroyed, names_and_marks, limits, checkpoint_kept, checkpoint_rewound, changed]
OF_TODAY = [every_feature, upgraded]
WORKS = {f.__name__.replace('_', '-'): f for f in OF_OLD + OF_TODAY}


# Those of some seconds, each with something that no other has.
QUICK = ['single', 'no-features', 'stripe-with-log', 'compressions-and-checksums', 'several-copies', 'gangs', 'clones',
         'destroyed', 'names-and-marks', 'limits', 'checkpoint-kept', 'changed', 'upgraded']


def is_old(name):
    """OpenZFS 2.1 can open what the piece leaves."""
    return WORKS[name] in OF_OLD



# ---- pools that OpenZFS made ----

def datasets(p, kind):
    return p.zfs('list', '-Hr', '-o', 'name', '-t', kind, p.name).lines()


def used_on(p):
    """A pool that is imported already, made by whom it may: everything there is gets a snapshot, volumes are written, the
    oldest snapshots that can go go, data sets of our own come, and some of them go. Their names begin with `tarn`, as no
    other piece's do."""
    # OpenZFS lets its administrator pass limits; here they hold for everybody.
    for line in p.zfs('get', '-Hpr', '-s', 'local', '-o', 'name', 'snapshot_limit', p.name).lines():
        p.zfs('set', 'snapshot_limit=none', line)
    p.zfs('snapshot', '-r', p.name + '@tarn')
    open_volumes = [v for v in datasets(p, 'volume') if p.zfs('get', '-H', '-o', 'value', 'keystatus', v).out.strip() in ('-', 'available')]
    for v in open_volumes:
        name = v[len(p.name) + 1:]
        size = int(p.zfs('get', '-Hp', '-o', 'value', 'volsize', v).out)
        block = int(p.zfs('get', '-Hp', '-o', 'value', 'volblocksize', v).out)
        p.scatter(name, 20, min(size, 4 * MIB) // 4096 * 4096)
        p.punch(name, 0, min(block, size))
        p.zfs('clone', v + '@tarn', p.ds('tarn-clone-' + name.replace('/', '-')))
    p.zfs('create', '-u', '-o', 'compression=gzip', '-o', 'org.tarn:was=here', p.ds('tarn'))
    p.zfs('create', '-u', p.ds('tarn/below'))
    p.zfs('create', '-s', '-V', '16M', '-b', '8K', p.ds('tarn/volume'))
    p.scatter('tarn/volume', 40, 2 * MIB)
    p.zfs('snapshot', '-r', p.ds('tarn@a'))
    p.scatter('tarn/volume', 40, 2 * MIB)
    p.zfs('clone', p.ds('tarn/volume@a'), p.ds('tarn/copy'))
    p.scatter('tarn/copy', 20, 2 * MIB)
    p.zfs('promote', p.ds('tarn/copy'))
    p.zfs('rename', p.ds('tarn/below'), p.ds('tarn-moved'))
    for snapshot in datasets(p, 'snapshot')[:6]:
        p.zfs('destroy', snapshot, code=None)
    p.export()
    p.reimport('-N')
    for v in open_volumes[:2]:
        p.scatter(v[len(p.name) + 1:], 20, MIB)
    p.zfs('destroy', '-r', p.ds('tarn-moved'))
    p.zfs('set', 'org.tarn:was=gone', p.ds('tarn'))
