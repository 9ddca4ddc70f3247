"""zpool create and add as the command line has them: every layout that is written, and all that is refused. What runs in
a pool afterwards, refused in the same words."""

import os
import re

import tarnlib
from tarnlib import check, contains, eq
from writelib import BLOCK, MIB, Writer, create, files, folder, read_stamp, reimport, stamp, verify

OLD = ['-o', 'compatibility=openzfs-2.1-linux']  # what Debian's zdb opens


def refused(t, part, *words, code=1):
    """The command fails with these words, and leaves no pool."""
    r = t.zpool(*words, code=code)
    contains(r.err, part, words)
    eq(t.zpool('list', '-H', '-o', 'name').out, '', words)


def layout(t, *words, n=6, rows):
    """A pool of that layout takes a volume's writes, keeps them over an export, and is whole for both zdbs."""
    paths = files(t, n, 128 * MIB)
    words = [paths[int(w)] if w.isdigit() else w for w in words]
    t.zpool('create', '-m', 'none', *OLD, 'tank', *words)
    status = t.zpool('status', 'tank').out
    eq([line.split()[0] for line in status.splitlines() if line.startswith('\t') and not line.strip().startswith('/')],
       ['NAME', 'tank', *rows], status)
    t.zfs('create', '-V', '16M', '-o', 'volblocksize=16K', 'tank/v')
    w = Writer(t, 'tank/v')
    blocks = range(0, 16 * MIB // BLOCK, 7)
    for block in blocks:
        w.write(block * BLOCK, stamp(block, 1))
    w.flush()
    w.s.close()
    t.zpool('export', 'tank')
    verify(t)
    reimport(t)
    w = Writer(t, 'tank/v')
    for block in blocks:
        eq(read_stamp(w.get(block * BLOCK, BLOCK), block), 1)
    w.s.close()
    contains(t.zpool('status', 'tank').out, 'No known data errors')
    t.zpool('destroy', 'tank')
    for path in paths:  # zdb looks at all files of the folder
        os.unlink(path)


def test_mirrors(t):
    layout(t, 'mirror', '0', '1', 'mirror', '2', '3', rows=['mirror-0', 'mirror-1'])
    layout(t, 'mirror', '0', '1', '2', n=3, rows=['mirror-0'])


def test_raidz1(t):
    layout(t, 'raidz', '0', '1', '2', 'raidz1', '3', '4', rows=['raidz1-0', 'raidz1-1'])


def test_raidz2(t):
    layout(t, 'raidz2', '0', '1', '2', '3', '4', rows=['raidz2-0'])


def test_raidz3(t):
    layout(t, 'raidz3', '0', '1', '2', '3', '4', '5', rows=['raidz3-0'])


def test_classes(t):
    layout(t, 'mirror', '0', '1', 'special', 'mirror', '2', '3', 'log', '4', 'spare', '5',
           rows=['mirror-0', 'special', 'mirror-1', 'logs', 'spares'])
    layout(t, '0', 'dedup', '1', 'special', '2', 'special', '3', n=4, rows=['dedup', 'special'])


def test_raidz_and_mirror_of_one_redundancy(t):
    layout(t, 'mirror', '0', '1', 'raidz', '2', '3', '4', rows=['mirror-0', 'raidz1-1'])


def test_sector_shifts(t):
    for shift in range(9, 17):
        path, = files(t, 1, 256 * MIB)
        t.zpool('create', '-m', 'none', *OLD, '-o', 'ashift=%d' % shift, 'tank', path)
        t.zfs('create', '-V', '8M', 'tank/v')
        eq(t.zpool('get', '-H', '-o', 'value', 'ashift', 'tank', path).out, '%d\n' % shift)
        t.zpool('export', 'tank')
        if shift in (9, 13, 16):
            verify(t)
    for wrong in ('8', '17', 'abc', '-1', '', '12x', '18446744073709551628'):
        refused(t, 'ashift', 'create', '-f', '-o', 'ashift=' + wrong, 'tank', path)


def test_layouts_that_cannot_be(t):
    p = files(t, 5)
    small, = files(t, 1, 32 * MIB, name='small')
    large, = files(t, 1, 512 * MIB, name='large')
    link = os.path.join(folder(t), 'link')
    os.symlink(p[0], link)
    for part, *words in (
            ('mirror requires at least 2', 'mirror', p[0]), ('raidz2 requires at least 3', 'raidz2', p[0], p[1]),
            ('raidz requires at least 2', 'raidz', p[0]), ("'raidz4'", 'raidz4', *p), ("'raidz0'", 'raidz0', *p),
            ('given twice', p[0], p[0]), ('given twice', 'mirror', p[0], p[0]), ('given twice', p[0], 'log', link),
            ('too small', small), ('different sizes', 'mirror', p[0], large), ('cannot open', p[0] + 'x'),
            ('must be a block device', folder(t)), ('must be a block device', '/dev/null'),
            ('mismatched replication', p[0], 'mirror', p[1], p[2]),
            ('mismatched replication', 'mirror', p[0], p[1], 'mirror', p[2], p[3], p[4]),
            ('different redundancy', 'raidz', p[0], p[1], 'raidz2', p[2], p[3], p[4]),
            ('mismatched replication', 'mirror', p[0], p[1], 'special', p[2]),
            ('draid cannot be made yet', 'draid', *p), ('cache devices are not used', p[0], 'cache', p[1]),
            ('at least one device', 'log', p[0]), ('at least one device', 'spare', p[0]),
            ('at least one device', 'special', p[0]), ("'log' requires", p[0], 'log'), ("'spare' requires", p[0], 'spare'),
            ("'log' can be specified only once", p[0], 'log', p[1], 'log', p[2]),
            ("'spare' can be specified only once", p[0], 'spare', p[1], 'special', p[2], 'spare', p[3]),
            ("unsupported 'log' device", p[0], 'log', 'raidz', p[1], p[2]),
            ('spare devices stand alone', p[0], 'spare', 'mirror', p[1], p[2])):
        refused(t, part, 'create', 'tank', *words)
        refused(t, part, 'create', '-n', 'tank', *words)
    refused(t, 'given twice', 'create', '-f', 'tank', 'mirror', p[0], link)
    t.zpool('create', '-f', '-m', 'none', 'tank', 'mirror', p[0], large)
    t.zpool('destroy', 'tank')


def test_names_and_options_that_cannot_be(t):
    path, = files(t)
    for name in ('mirror', 'raidz2x', 'sparex', 'log', 'draid1', '9x', 'a/b', 'a@b', 'a%b', '', ' a', 'n' * 256):
        refused(t, 'cannot create', 'create', name, path)
        refused(t, 'cannot create', 'create', '-t', name, 'tank', path)
    for part, *words in (
            ('alternate root', '-R', 'relative'), ('alternate root', '-o', 'altroot=relative'),
            ('multiple times', '-R', '/x', '-o', 'altroot=/x'), ('mountpoint', '-m', 'relative'),
            ('mountpoint', '-O', 'mountpoint=x'), ('bootfs', '-o', 'bootfs=tank'), ('readonly', '-o', 'size=1'),
            ('import', '-o', 'readonly=on'), ('version 28', '-o', 'version=28'), ('invalid', '-o', 'version=29'),
            ('cachefile', '-o', 'cachefile=x'), ('printable', '-o', 'comment=a\nb'),
            ('enabled', '-o', 'feature@lz4_compress=on'), ('nonsense', '-O', 'nonsense=1'),
            ('compression', '-O', 'compression=nonsense')):
        refused(t, part, 'create', *words, 'tank', path)


def test_roots_and_temporary_names_stay_out_of_the_cache(t):
    path, = files(t)
    t.zpool('create', '-R', t.altroot(), '-m', 'none', 'tank', path)
    eq(t.zpool('get', '-H', '-o', 'value,source', 'altroot,cachefile', 'tank').rows(),
       [[t.altroot(), 'local'], ['none', 'local']])
    t.zpool('destroy', 'tank')
    t.zpool('create', '-t', 'other', '-m', 'none', 'tank', path)
    eq(t.zpool('get', '-H', '-o', 'value', 'cachefile', 'other').out, 'none\n')
    t.zpool('export', 'other')
    r = t.zpool('import', '-d', folder(t), '-R', 'relative', 'tank', code=2)
    contains(r.err, 'alternate root')
    t.zpool('import', '-d', folder(t), 'tank')
    eq(t.zpool('get', '-H', '-o', 'value', 'cachefile', 'tank').out, '-\n')


def test_features_that_are_not_wanted(t):
    path, = files(t)
    t.zpool('create', '-m', 'none', '-o', 'feature@lz4_compress=disabled', 'tank', path)
    eq(t.zpool('get', '-H', '-o', 'value', 'feature@lz4_compress', 'tank').out, 'disabled\n')
    t.zpool('destroy', 'tank')
    t.zpool('create', '-m', 'none', '-o', 'feature@extensible_dataset=disabled', 'tank', path)
    check(t.zpool('get', '-H', '-o', 'value', 'feature@extensible_dataset', 'tank').out != 'disabled\n')


def test_spares_are_not_taken_from_their_pool(t):
    p = files(t, 3)
    t.zpool('create', '-m', 'none', 'tank', p[0], 'spare', p[1])
    for words in (('create', 'other', p[1]), ('create', '-f', 'other', p[1]), ('create', '-f', 'other', p[2], 'log', p[1]),
                  ('create', '-f', 'other', p[2], 'spare', p[1]), ('add', '-f', 'tank', p[1])):
        contains(t.zpool(*words, code=1).err, "reserved as a hot spare for pool 'tank'", words)
    t.zpool('export', 'tank')
    reimport(t)
    contains(t.zpool('create', '-f', 'other', p[1], code=1).err, 'reserved as a hot spare')
    t.zpool('remove', 'tank', p[1])
    t.zpool('create', '-m', 'none', 'other', p[1])


def test_add_what_does_not_fit(t):
    create(t)
    p = files(t, 3, name='more')
    for part, *words in (('part of active pool', os.path.join(folder(t), 'disk0.img')), ('given twice', p[0], p[0]),
                         ('mismatched replication', 'mirror', p[0], p[1]), ('cannot open', p[0] + 'x'),
                         ('requires at least', 'raidz2', p[0], p[1])):
        contains(t.zpool('add', 'tank', *words, code=1).err, part, words)
        contains(t.zpool('add', '-n', 'tank', *words, code=1).err, part, words)
    contains(t.zpool('add', 'nopool', p[0], code=1).err, 'no such pool')
    t.zpool('add', '-n', '-f', 'tank', 'mirror', p[0], p[1])
    check('mirror' not in t.zpool('status', 'tank').out)
    t.zpool('add', '-f', 'tank', 'mirror', p[0], p[1])
    contains(t.zpool('status', 'tank').out, 'mirror')


def test_what_runs_is_steered_in_the_right_words(t):
    create(t)
    path = os.path.join(folder(t), 'disk0.img')
    for activity in ('initialize', 'trim'):
        for how in ('-c', '-s'):
            for devices in ((), (path,)):
                contains(t.zpool(activity, how, 'tank', *devices, code=1).err, 'there is no active ' + activity)
        contains(t.zpool(activity, '-cs', 'tank', code=2).err, 'cannot be combined')
        contains(t.zpool(activity, '-cw', 'tank', code=2).err, '-w cannot be used')
        contains(t.zpool(activity, 'tank', 'nothing', code=1).err, 'no such device')
        contains(t.zpool(activity, 'nopool', code=1).err, 'no such pool')
        t.zpool(activity, '-w', 'tank', path, path)
    status = t.zpool('status', '-t', 'tank').out
    check(re.search(r'100% trimmed, completed at \w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\)', status), status)
    eq(t.zpool('wait', '-t', 'scrub,initialize', 'tank', '1').out, '   SCRUB  INITIALIZE\n       0           0\n')
    eq(t.zpool('wait', '-H', '-t', 'scrub,initialize', 'tank', '1').out, '\t0\t0\n')
    history = t.zpool('history', '-i', 'tank').out
    eq(history.count('initialize vdev=%s activated' % path), 1, history)
    contains(t.zpool('checkpoint', '-w', 'tank', code=2).err, '--wait')
    t.zpool('checkpoint', '-d', 'tank', code=1)


def test_history_and_events_of_nothing(t):
    create(t)
    r = t.zpool('history', 'nopool', code=1)
    eq(r.out, '')
    contains(r.err, 'no such pool')
    for words in (('-c', 'tank'), ('-cf',), ('-cv',), ('a', 'b')):
        t.zpool('events', *words, code=2)
    check(len(t.zpool('events', '-H').lines()) > 0)
    t.zpool('events', '-c')
    eq(t.zpool('events', '-H').out, '')


def test_settings_that_cannot_be(t):
    create(t)
    before = t.zpool('get', '-Hp', '-o', 'property,value', 'all', 'tank').rows()
    for wrong in ('ashift=8', 'ashift=abc', 'autoexpand=maybe', 'autoexpand=', 'autoreplace=1', 'autotrim=yes',
                  'bootfs=nonsense', 'bootfs=tank/none', 'cachefile=x', 'cachefile=/no/such/dir/file',
                  'comment=' + 'x' * 33, 'delegation=2', 'failmode=never', 'listsnapshots=x', 'multihost=x', 'readonly=on',
                  'altroot=/x', 'version=28', 'version=5001', 'version=x', 'size=1', 'nonsense=1', 'USER:x=1',
                  'feature@lz4_compress=disabled', 'feature@lz4_compress=on', 'feature@x=enabled', 'feature@=enabled',
                  'guid=1', 'name=x', 'dedup_table_quota=1x', 'dedup_table_quota=-1', 'unsupported@x=1',
                  'class_normal_size=1'):
        contains(t.zpool('set', wrong, 'tank', code=1).err, "cannot set property for 'tank'", wrong)
    for words in ((), ('tank',), ('comment=x',), ('nonsense', 'tank'), ('=x', 'tank'), ('-x', 'comment=x', 'tank')):
        t.zpool('set', *words, code=2)
    t.zpool('set', 'comment=x', 'nopool', code=1)
    changing = ('allocated', 'free', 'freeing', 'capacity', 'fragmentation', 'available', 'used', 'usable')
    same = [[row for row in rows if not row[0].endswith(changing)]
            for rows in (before, t.zpool('get', '-Hp', '-o', 'property,value', 'all', 'tank').rows())]
    eq(same[1], same[0])


tarnlib.main(globals())
