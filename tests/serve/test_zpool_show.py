"""zpool list, get, status, history and iostat: what they print of golden pools, against OpenZFS's own output."""

import os
import re

import tarnlib
from tarnlib import check, contains, eq, manifest

POOLS = ['ashift13', 'degraded-raidz', 'special', 'removed-device', 'replacing', 'v24-raidz-expanded', 'version28',
         'no-features', 'checkpoint', 'intent-log-device', 'v24-fast-dedup', 'copies']
MOMENTARY = {'free', 'allocated', 'capacity', 'fragmentation', 'size', 'load_guid', 'altroot', 'freeing', 'cachefile',
             'dedupratio', 'available', 'used', 'usable'}


def words(text):
    """Without the places where lines are folded."""
    return ' '.join(text.split())


def section(text, name):
    m = re.search(r'^ *%s: (.*?)(?=^ *[a-z]+:|\Z)' % name, text, re.M | re.S)
    return words(m.group(1)) if m else None


def test_against_openzfs(t):
    for pool in POOLS:
        m = manifest(pool)['pool']
        name = t.import_pool(pool)
        status = t.zpool('status', name).out
        want = '\n'.join(m['status']) + '\n'
        for part in ('pool', 'state', 'errors', 'expand', 'checkpoint'):
            eq(section(status, part), section(want, part), pool, part)
        if section(want, 'status') and pool != 'degraded-raidz':  # there the missing disk's name is another's
            eq(section(status, 'status'), section(want, 'status'), pool)
            eq(section(status, 'action'), section(want, 'action'), pool)
        got = {r[1]: [r[2], r[3]] for r in t.zpool('get', '-Hp', 'all', name).rows()}
        for prop, value in m['properties'].items():
            if prop not in MOMENTARY:
                eq(got.get(prop), value, pool, prop)
        history = [line for line in t.zpool('history', name).lines() if line]
        want = [line for line in m['history'] if line]
        eq(history, want[:len(history)], pool)  # some were imported for writing after the images were kept
        check(len(history) > 1, pool)
        t.zpool('export', name)


def test_order_of_properties(t):
    """zpool get all lists what OpenZFS lists in its order."""
    for pool in ('v24-every-feature', 'v24-special', 'single'):
        name = t.import_pool(pool)
        want = list(manifest(pool)['pool']['properties'])
        got = [r[1] for r in t.zpool('get', '-H', 'all', name).rows()]
        eq([p for p in got if p in want], want, pool)
        for what in 'size capacity free allocated available usable used expandsize fragmentation'.split():
            for group in 'normal special dedup log elog special_elog'.split():
                check('class_%s_%s' % (group, what) in got, group, what)
        t.zpool('export', name)


def test_list_json(t):
    """-v -j: the devices, in objects of their class."""
    t.import_pool('special')
    t.import_pool('intent-log-device')
    pools = t.zpool('list', '-v', '-j', '--json-int').json()['pools']
    one = list(pools['mixed']['vdevs'].values())[0]
    eq((one['vdev_type'], one['class'], one['state']), ('disk', 'normal', 'ONLINE'))
    eq(one['properties']['size']['value'], 64 << 20)
    eq(list(pools['mixed']['special'].values())[0]['class'], 'special')
    check([p for p in pools.values() if 'logs' in p], pools)
    check('vdevs' not in t.zpool('list', '-j').json()['pools']['mixed'])


def test_expandsize(t):
    """Devices that grew: whole metaslabs more, of the top-level and the pool."""
    folder = t.copy_pool('mirror')
    size = 0
    for image in os.listdir(folder):
        path = os.path.join(folder, image)
        size = os.path.getsize(path)
        os.truncate(path, size + (64 << 20))
    name = t.import_pool('mirror', folder=folder)
    eq(t.zpool('list', '-Hp', '-o', 'expandsize', name).out, '%d\n' % (64 << 20))
    rows = {r[1]: r for r in t.zpool('list', '-Hvp', name).rows() if r[0] == ''}
    eq(rows['mirror-0'][6], '%d' % (64 << 20))
    eq({r[6] for n, r in rows.items() if n != 'mirror-0'}, {'-'})


def test_device_properties(t):
    name = t.import_pool('mirror')
    rows = {r[1]: r[2:] for r in t.zpool('get', '-Hp', 'all', name, 'mirror-0').rows()}
    for prop, value in {'name': ['mirror-0', '-'], 'numchildren': ['2', '-'], 'parent': ['root', '-'],
                        'write_ops': ['0', '-'], 'trim_bytes': ['0', '-'], 'checksum_n': ['-', 'default'],
                        'allocating': ['on', 'default'], 'raidz_expanding': ['off', '-'],
                        'bootsize': ['-', '-']}.items():
        eq(rows[prop], value, prop)
    check(int(rows['read_ops'][0]) >= 0)
    j = t.zpool('get', '-j', 'name,trim_support', name, 'all-vdevs').json()['vdevs']
    eq(len(j), 4)
    eq(j['root']['properties']['name']['value'], 'root')
    eq([v['properties']['trim_support']['value'] for n, v in j.items() if n.endswith('.img')], ['on', 'on'])
    eq(t.zpool('get', '-Ho', 'value', 'numchildren', name, 'root').out, '1\n')


def test_list(t):
    eq(t.zpool('list').out, 'no pools available\n')
    eq(t.zpool('list', '-H').out, '')
    t.import_pool('special')
    t.import_pool('dedup')
    lines = t.zpool('list', '-v').lines()
    eq(lines[0].split(), 'NAME SIZE ALLOC FREE CKPOINT EXPANDSZ FRAG CAP DEDUP HEALTH ALTROOT'.split())
    check(any(line.startswith('special ') for line in lines))
    eq([line for line in lines if line != line.rstrip()], [])
    eq(t.zpool('list', '-H', '-o', 'name,dedup').out, 'mixed\t1.47x\nonce\t3.67x\n')
    eq(t.zpool('list', '-Hp', '-o', 'size', 'once').out, '83886080\n')
    r = t.zpool('list', 'nix', 'once', code=1)
    contains(r.out, 'once')
    eq(r.err, "cannot open 'nix': no such pool\n")
    contains(t.zpool('list', '-o', 'nonsense', code=2).err, "invalid property 'nonsense'")
    j = t.zpool('list', '-j').json()
    eq(j['output_version'], {'command': 'zpool list', 'vers_major': 0, 'vers_minor': 1})
    eq(j['pools']['once']['properties']['size'], {'value': '80M', 'source': {'type': 'NONE', 'data': '-'}})
    eq(list(t.zpool('list', '-j', '--json-pool-key-guid', 'once').json()['pools']), ['1077834763537900382'])


def test_get(t):
    name = t.import_pool('single')
    eq(t.zpool('get', '-H', 'failmode,version', name).rows(), [[name, 'failmode', 'wait', 'default'],
                                                             [name, 'version', '-', 'default']])
    r = t.zpool('get', 'nonsense', name, code=2)
    eq((r.out, r.err), ('', "bad property list: invalid property 'nonsense'\n"))
    r = t.zpool('get', 'size', 'nix', code=1)
    eq((r.out, r.err), ('', "cannot open 'nix': no such pool\n"))
    eq(t.zpool('get', '-H', '-o', 'value', 'user:prop', name).out, '-\n')
    j = t.zpool('get', '-j', '--json-int', 'guid,size', name).json()
    check(isinstance(j['pools'][name]['properties']['size']['value'], int), j)
    t.zpool('get', code=2)


def test_status(t):
    eq(t.zpool('status').out, 'no pools available\n')
    eq(t.zpool('status', 'nix', code=1).err, "cannot open 'nix': no such pool\n")
    t.import_pool('dedup')
    eq(t.zpool('status', '-x').out, 'all pools are healthy\n')
    eq(t.zpool('status', '-x', 'once').out, "pool 'once' is healthy\n")
    out = t.zpool('status', '-D', 'once').out
    contains(out, ' dedup: DDT entries 42, size ')
    contains(out, '\n     2       20    490K    120K    120K       57   1.34M    325K    325K\n')
    contains(out, '\n Total       42   1.02M    240K    240K      182   4.91M    882K    882K\n')
    contains(t.zpool('status', '-sit').out, 'CKSUM  SLOW\n')
    contains(t.zpool('status', '-it').out, '  (uninitialized)  (untrimmed)\n')
    contains(t.zpool('status', '-g').out, '17564386737119231229')
    j = t.zpool('status', '-j').json()['pools']['once']
    eq(j['vdevs']['once']['state'], 'ONLINE')
    eq(j['error_count'], '0')
    t.zpool('status', '--json-int', code=2)
    t.zpool('status', '-Z', code=2)


def test_iostat(t):
    t.import_pool('special')
    lines = t.zpool('iostat').lines()
    eq(lines[0], '              capacity     operations     bandwidth ')
    eq(lines[1], 'pool        alloc   free   read  write   read  write')
    eq(lines[2], '----------  -----  -----  -----  -----  -----  -----')
    row = t.zpool('iostat', '-Hp', 'mixed').rows()
    eq((len(row), len(row[0]), row[0][0]), (1, 7, 'mixed'))
    check(any(line.startswith('special ') for line in t.zpool('iostat', '-v').lines()))
    eq(t.zpool('iostat', '-yH', 'mixed', '1', '1').rows()[0][3:], ['0', '0', '0', '0'])
    t.zpool('iostat', '-l', code=2)


def test_refused(t):
    name = t.import_pool('single')
    for words in (('destroy', name), ('set', 'comment=x', name), ('upgrade', name), ('checkpoint', name), ('trim', name)):
        r = t.zpool(*words, code=1)
        check(r.err.startswith('cannot ') and 'read-only' in r.err, r)
    check(t.zpool('scrub', name, code=1).err.startswith('cannot scrub'))
    t.zpool('nonsense', code=2)
    t.zpool(code=2)
    contains(t.zpool('-?').out, 'usage: zpool')


tarnlib.main(globals())
