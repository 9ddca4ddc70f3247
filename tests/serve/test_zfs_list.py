"""zfs list and zfs get: properties as OpenZFS shows them, choice of data sets, order, columns, JSON, errors."""

import json
import re

import tarnlib
from tarnlib import check, contains, eq, manifest

# What the release that described a pool calls otherwise than 2.4 does: (property, value, source) -> (value, source).
# A source of None matches any and stays.
TRANSLATION = [
    ('compression', 'off', 'default', 'on', 'default'),
    ('xattr', 'on', 'default', 'sa', 'default'),
    ('xattr', 'on', 'local', 'dir', 'local'),
    ('relatime', 'off', 'default', 'on', 'default'),
    ('volblocksize', '8192', 'default', '8192', '-'),
    ('volblocksize', '16384', '-', '16384', 'default'),
    ('filesystem_limit', '18446744073709551615', None, 'none', None),
    ('snapshot_limit', '18446744073709551615', None, 'none', None),
    ('filesystem_count', '18446744073709551615', None, 'none', None),
    ('snapshot_count', '18446744073709551615', None, 'none', None),
]


def expected(described_by, name, value, source):
    if described_by.startswith('2.1'):
        for prop, old, old_source, new, new_source in TRANSLATION:
            if name == prop and value == old and (old_source is None or source == old_source):
                return new, new_source or source
        if name == 'xattr' and value == 'on' and source.startswith('inherited'):
            return 'dir', source
    return value, source


def listed_order(names, createtxg):
    """Data sets in byte order, snapshots after their data set in the order of their making, then bookmarks."""
    def key(name):
        head, mark, _ = re.match(r'([^@#]*)([@#]?)(.*)', name, re.S).groups()
        return head.encode(), ['', '@', '#'].index(mark), createtxg[name], name
    return sorted(names, key=key)


def compare_with_manifest(t, folder):
    m = manifest(folder)
    pool = t.import_pool(folder)
    t.load_keys(folder)
    got = {}
    for name, prop, value, source in t.zfs('get', '-Hp', '-r', '-t', 'all', 'all', pool).rows():
        got.setdefault(name, {})[prop] = value, source
    eq(sorted(got), sorted(m['datasets']), folder)
    for name, props in m['datasets'].items():
        for prop, shown in props.items():
            want = expected(m['openzfs'], prop, shown[0], shown[1] if len(shown) > 1 else '-')
            eq(got[name].get(prop), want, folder, name, prop)
    order = [n for n, in t.zfs('list', '-H', '-o', 'name', '-t', 'all', '-r', pool).rows()]
    eq(order, listed_order(order, {n: int(got[n]['createtxg'][0]) for n in order}), folder)
    eq(sorted(order), sorted(m['datasets']), folder)
    t.zpool('export', pool)


def test_properties_like_openzfs(t):
    for folder in ('single', 'snapshots-and-clones', 'quotas', 'encryption', 'stripe4-zvols', 'v24-every-feature',
                   'version28', 'many-datasets', 'streams'):
        compare_with_manifest(t, folder)


def test_choice(t):
    t.import_pool('snapshots-and-clones')
    t.import_pool('stripe4-zvols')

    def names(*argv):
        return [n for n, in t.zfs('list', '-H', '-o', 'name', *argv).rows()]

    everything = names('-t', 'all')
    check(any('@' in n for n in everything) and any('#' in n for n in everything))
    eq(names(), [n for n in everything if not re.search('[@#]', n)])
    eq(names('-t', 'snap'), [n for n in everything if '@' in n])
    eq(names('-t', 'snapshot,bookmark'), [n for n in everything if re.search('[@#]', n)])
    eq(names('-t', 'bookmark', '-r', 'past'), ['past/work#mark10', 'past/work#mark12'])
    eq(names('-d', '0', 'past'), ['past'])
    eq(names('past'), ['past'])
    eq(names('-d', '1', 'past'), [n for n in everything if re.fullmatch('past(/[^/@#]*)?', n)])
    eq(names('-r', 'past'), [n for n in everything if re.fullmatch('past[^@#]*', n)])
    eq(names('-t', 'snapshot', 'past/work'), [n for n in everything if n.startswith('past/work@')])
    eq(names('-d', '1', '-t', 'all', 'past/work'), [n for n in everything if re.match('past/work([@#]|$)', n)])
    eq(names('past/work@s13'), ['past/work@s13'])
    eq(names('past/work#mark10', 'past/work@s13'), ['past/work@s13', 'past/work#mark10'])
    eq(names('past/work', 'past', 'past/work'), ['past', 'past/work'])
    volumes = names('-t', 'vol')
    check(volumes and not set(volumes) & set(names('-t', 'fs')))


def test_columns(t):
    t.import_pool('snapshots-and-clones')
    r = t.zfs('list', '-o', 'name,used,avail,refer,origin', 'past', 'past/work')
    eq(r.out, 'NAME        USED  AVAIL  REFER  ORIGIN\n'
              'past       8.58M  31.4M    26K  -\n'
              'past/work   900K  31.4M  1.39M  past/to-promote@s9\n')
    eq(t.zfs('list', '-o', 'origin,name', 'past/work').out,
       'ORIGIN              NAME\npast/to-promote@s9  past/work\n')
    eq(t.zfs('list', '-Hp', '-o', 'name,used,ratio,quota,creation', 'past').out, 'past\t8992256\t1.01\t0\t1796033899\n')
    eq(t.zfs('list', '-H', '-o', 'name,used,ratio,quota,creation', 'past').out,
       'past\t8.58M\t1.01x\tnone\tMon Nov 30 10:18 2026\n')
    eq(t.zfs('list', '-o', 'space', 'past/work').out,
       'NAME       AVAIL  USED  USEDSNAP  USEDDS  USEDREFRESERV  USEDCHILD\n'
       'past/work  31.4M  900K      662K    238K             0B         0B\n')
    eq(t.zfs('list', '-H', '-o', 'name,test:colour,no:such', 'past/work', 'past').rows(),
       [['past', '-', '-'], ['past/work', 'blue', '-']])
    contains(t.zfs('list', '-o', 'test:colour', 'past').out, 'TEST:COLOUR')
    check(t.zfs('list', '-o', 'all', 'past').out.startswith('NAME  TYPE        CREATION'))
    eq(t.zfs('list', '-H', '-t', 'snapshot', 'past/work@s13').out, 'past/work@s13\t222K\t-\t1.38M\t-\n')
    eq(t.zfs('list', '-H', '-t', 'bookmark', '-r', 'past').rows()[0], ['past/work#mark10', '-', '-', '1.37M', '-'])


def test_order(t):
    t.import_pool('snapshots-and-clones')

    def names(*argv):
        return [n for n, in t.zfs('list', '-H', '-o', 'name', *argv).rows()]

    used = {n: int(u) for n, u in t.zfs('list', '-Hp', '-o', 'name,used', '-r', 'past').rows()}
    eq(names('-s', 'used', '-r', 'past'), sorted(used, key=lambda n: used[n]))
    eq(names('-S', 'used', '-r', 'past'), sorted(used, key=lambda n: -used[n]))
    snaps = names('-t', 'snapshot', 'past/work')
    eq(names('-s', 'name', '-t', 'snapshot', 'past/work'), sorted(snaps))
    eq(names('-S', 'name', '-t', 'snapshot', 'past/work'), sorted(snaps, reverse=True))
    eq(names('-s', 'creation', '-t', 'snapshot', 'past/work'), snaps)
    # what a key does not apply to comes last in both directions, in the order that is used without keys
    for option in ('-s', '-S'):
        eq(names(option, 'origin', '-r', 'past')[-3:], ['past', 'past/rolled', 'past/to-promote'])
    eq(names('-s', 'type', '-S', 'name', '-t', 'fs,snap', '-r', 'past/work'),
       ['past/work'] + sorted(snaps, reverse=True))


def test_get(t):
    t.import_pool('snapshots-and-clones')
    t.import_pool('many-datasets')
    eq(t.zfs('get', 'used,compression', 'past/work').out,
       'NAME       PROPERTY     VALUE  SOURCE\n'
       'past/work  used         900K   -\n'
       'past/work  compression  on     default\n')
    eq(t.zfs('get', '-Hpo', 'value,source', 'compression,used', 'past/work').out, 'on\tdefault\n922112\t-\n')
    eq(t.zfs('get', '-o', 'all', '-H', 'compression', 'past/work').out, 'past/work\tcompression\ton\t-\tdefault\n')
    eq(t.zfs('get', '-r', '-H', '-s', 'local', 'mountpoint,compression', 'forest').rows()[:2],
       [['forest', 'mountpoint', '/top', 'local'], ['forest', 'compression', 'lz4', 'local']])
    rows = t.zfs('get', '-r', '-H', '-s', 'inherited', 'compression', 'forest').rows()
    check(rows and all(r[2:] == ['lz4', 'inherited from forest'] for r in rows))
    eq(t.zfs('get', '-H', 'volsize,name', 'past').rows(), [['past', 'volsize', '-', '-'], ['past', 'name', 'past', '-']])
    eq([r[0] for r in t.zfs('get', '-H', '-t', 'snapshot', 'used', 'past/work').rows()],
       [n for n, in t.zfs('list', '-H', '-o', 'name', '-t', 'snapshot', 'past/work').rows()])
    eq(t.zfs('get', '-Hp', 'userused@0,userquota@0', 'past/work').rows()[0][0:2], ['past/work', 'userused@0'])
    eq(t.zfs('get', '-H', 'test:colour', 'past/work', 'past').rows(),
       [['past', 'test:colour', '-', '-'], ['past/work', 'test:colour', 'blue', 'local']])


def test_received(t):
    """Properties that came with a stream: the column, and the source."""
    t.import_pool('streams')
    for name, prop, value, received, source in t.zfs('get', '-Hp', '-r', '-o', 'all', 'all', 'sender').rows():
        if source == 'received':
            eq(received, value, name, prop)


def test_json(t):
    t.import_pool('snapshots-and-clones')
    r = t.zfs('list', '-j', 'past', 'past/work@s13')
    eq(r.out.count('\n'), 1)
    check(': ' not in r.out and ', ' not in r.out)
    want = {'output_version': {'command': 'zfs list', 'vers_major': 0, 'vers_minor': 1}}
    doc = r.json()
    eq(doc['output_version'], want['output_version'])
    eq(list(doc['datasets']), ['past', 'past/work@s13'])
    snap = doc['datasets']['past/work@s13']
    eq({k: v for k, v in snap.items() if k != 'properties'},
       {'name': 'past/work@s13', 'type': 'SNAPSHOT', 'pool': 'past', 'createtxg': '25', 'dataset': 'past/work',
        'snapshot_name': 's13'})
    eq(snap['properties']['used'], {'value': '222K', 'source': {'type': 'NONE', 'data': '-'}})
    eq(doc['datasets']['past']['properties']['mountpoint']['source'], {'type': 'DEFAULT', 'data': '-'})
    exact = t.zfs('list', '-j', '--json-int', '-o', 'name,used,guid', 'past/work@s13').json()['datasets']
    eq(exact['past/work@s13']['createtxg'], 25)
    eq(exact['past/work@s13']['properties']['used']['value'], 226816)
    eq(exact['past/work@s13']['properties']['guid']['value'], 15191407138605345866)
    got = t.zfs('get', '-j', '-o', 'all', 'compression', 'past/clone-b').json()['datasets']['past/clone-b']
    eq(got['properties']['compression'],
       {'value': 'gzip', 'source': {'type': 'LOCAL', 'data': '-'}, 'received': '-'})
    marks = t.zfs('get', '-j', '-r', '-t', 'bookmark', 'all', 'past').json()['datasets']
    eq({k: v['type'] for k, v in marks.items()}, {'past/work#mark10': 'BOOKMARK', 'past/work#mark12': 'BOOKMARK'})


def test_errors(t):
    t.import_pool('snapshots-and-clones')
    for name in ('nopool', 'past/nothere', 'past@nothere', 'past/work#nothere', 'nopool@a'):
        for command in (('list',), ('get', 'used')):
            r = t.zfs(*command, name, code=1)
            eq((r.out, r.err), ('', "cannot open '%s': dataset does not exist\n" % name))
    r = t.zfs('list', '-H', '-o', 'name', 'past/nothere', 'past', code=1)
    eq(r.out, 'past\n')
    contains(r.err, 'past/nothere')
    for bad in ('past//work', 'past/', 'past@a@b', 'past/work@', '/nothere'):
        contains(t.zfs('list', bad, code=1).err, "cannot open '%s'" % bad)
    for argv in (['list', '-o', 'bogus'], ['list', '-s', 'bogus'], ['list', '-t', 'bogus'], ['list', '-d', 'x'],
                 ['list', '-d', '-1'], ['list', '-q'], ['list', '--json-int'], ['list', '-j', '-H'], ['get'],
                 ['get', 'bogus'], ['get', '-o', 'bogus', 'used'], ['get', '-s', 'bogus', 'used'],
                 ['get', '-t', 'bogus', 'used'], ['get', '--json-int', 'used'], ['get', 'used,all'], ['bogus'], []):
        r = t.zfs(*argv, code=2)
        eq(r.out, '')
        check(r.err, argv)
    for argv in (['vol', 'past'], ['fs', 'past/work@s13']):
        contains(t.zfs('list', '-t', *argv, code=1).err, 'not applicable')
    eq(t.zfs('list', '-r', '-t', 'vol', 'past').err, 'no datasets available\n')
    eq(t.zfs('list', '-H', '-r', '-t', 'vol', 'past').err, '')
    eq(t.zfs('get', '-s', 'received', 'all', 'past').out, '')


def test_help_and_version(t):
    for argv in (['-?'], ['--help'], ['-h'], ['help'], ['list', '-?'], ['get', '--help']):
        r = t.zfs(*argv)
        contains(r.out, 'usage: zfs')
        eq(r.err, '')
    contains(t.zfs('get', '--help').out, 'man tarn-zfs')
    for word in ('version', '-V', '--version'):
        check(re.fullmatch(r'zfs-\S+\nzfs-kmod-\S+\n', t.zfs(word).out))
    doc = json.loads(t.zfs('version', '-j').out)
    eq(sorted(doc['zfs_version']), ['kernel', 'userland'])


tarnlib.main(globals())
