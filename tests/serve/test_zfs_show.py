"""zfs userspace and its kin, holds, diff, allow, upgrade."""

import json
import os
import re

import tarnlib
from tarnlib import check, contains, eq, manifest

FIELDS = 'type,name,used,quota,objused,objquota'


def test_space_like_openzfs(t):
    for folder in ('quotas', 'snapshots-and-clones', 'special', 'single'):
        t.import_pool(folder)
        seen = 0
        for name, fs in manifest(folder)['filesystems'].items():
            for command in ('userspace', 'groupspace', 'projectspace'):
                if command not in fs:
                    continue
                numeric = [] if command == 'projectspace' else ['-n']
                eq(t.zfs(command, '-Hp', *numeric, '-o', FIELDS, name).rows(), fs[command], name, command)
                seen += 1
        check(seen, folder)


def test_space_forms(t):
    t.import_pool('quotas')
    eq(t.zfs('userspace', '-n', 'ration/q').out,
       'TYPE        NAME         USED  QUOTA  OBJUSED  OBJQUOTA\n'
       'POSIX User  0           2.20M   none       19      none\n'
       'POSIX User  1001         259K    10M        2       500\n'
       'POSIX User  1002         259K     5M        2      none\n'
       'POSIX User  3000000000   259K   none        2      none\n')
    eq(t.zfs('userspace', '-n', '-o', 'used,name', 'ration/q').lines()[:2], [' USED  NAME', '2.20M  0'])
    names = ['0', '1001', '1002', '3000000000']
    eq(t.zfs('userspace', '-Hn', '-S', 'name', '-o', 'name', 'ration/q').lines(), names[::-1])
    eq(t.zfs('userspace', '-Hn', '-s', 'used', '-o', 'name', 'ration/q').lines(), names[1:] + names[:1])
    eq(t.zfs('userspace', '-Hn', '-S', 'quota', '-o', 'name', 'ration/q').lines(), ['1001', '1002', '0', '3000000000'])
    # what has a name comes first
    eq(t.zfs('userspace', '-H', '-o', 'name', 'ration/q').lines()[-1:], ['3000000000'])
    eq(t.zfs('userspace', '-Hn', '-t', 'posixgroup', 'ration/q').out, t.zfs('groupspace', '-Hn', 'ration/q').out)
    contains(t.zfs('projectspace', 'ration/q').out, 'TYPE     NAME   USED  QUOTA  OBJUSED  OBJQUOTA\nProject  0 ')
    eq(t.zfs('userspace', '-H', '-t', 'smbuser', 'ration/q').out, '')
    eq(t.zfs('groupspace', '-Hnp', '-o', 'name,objquota', 'ration/q').rows(),
       [['0', '0'], ['50', '0'], ['51', '77'], ['54', '0']])
    eq(t.zfs('projectspace', '-Hp', '-o', 'name,quota,objquota', 'ration/q').rows(),
       [['0', '0', '0'], ['100', '10485760', '0'], ['200', '0', '50']])
    for argv in ([], ['-q', 'ration/q'], ['-o', 'bogus', 'ration/q'], ['-s', 'bogus', 'ration/q'],
                 ['-t', 'bogus', 'ration/q'], ['ration', 'ration/q']):
        t.zfs('userspace', *argv, code=2)
    contains(t.zfs('userspace', 'ration/nothere', code=1).err, 'dataset does not exist')


def test_holds(t):
    t.import_pool('snapshots-and-clones')
    want = [h[:2] for h in manifest('snapshots-and-clones')['holds']]
    everything = []
    for snap, in t.zfs('list', '-H', '-o', 'name', '-t', 'snapshot').rows():
        everything += [r[:2] for r in t.zfs('holds', '-H', snap).rows()]
    eq(sorted(everything), sorted(want))
    eq(t.zfs('holds', 'past/work@s13').out,
       'NAME           TAG   TIMESTAMP\n'
       'past/work@s13  also  Mon Nov 30 10:19 2026\n'
       'past/work@s13  keep  Mon Nov 30 10:19 2026\n')
    check(re.fullmatch(r'(past/work@s13\t(also|keep)\t\d+\n){2}', t.zfs('holds', '-Hp', 'past/work@s13').out))
    eq(t.zfs('holds', '-H', 'past/clone-a@everything').out, '')
    r = t.zfs('holds', '-H', 'past/work@nothere', code=1)
    contains(r.err, "'past/work@nothere'")
    contains(r.err, 'dataset does not exist')
    contains(t.zfs('holds', 'past/work', code=1).err, 'not a snapshot')
    t.zfs('holds', code=2)


def test_diff_like_openzfs(t):
    """Lines that OpenZFS printed of a pool that is kept in the tree."""
    folder = os.path.join(tarnlib.TOP, 'tests', 'interop', 'differences')
    with open(os.path.join(folder, 'manifest.json'), encoding='utf-8') as f:
        m = json.load(f)
    t.run('zstd', '-dq', '--sparse', os.path.join(folder, 'disk0.img.zst'), '-o', os.path.join(t.dir, 'disk0.img'))
    name = m['pool']['name']
    t.zpool('import', '-f', '-o', 'readonly=on', '-N', '-d', t.dir, name)
    for d in m['diffs']:
        options = '-FH' if d.get('no_times') else '-FHt'
        got = t.zfs('diff', options, d['from'], *([d['to']] if d.get('to') else [])).lines()
        # there it was mounted; what is not mounted is shown from its own root
        eq(got, [re.sub(r'\t/dp/(fs|ld|cl)/', '\t/', line) for line in d['lines']], d['from'], d.get('to'))


def test_diff_forms(t):
    t.import_pool('snapshots-and-clones')
    full = t.zfs('diff', 'past/work@s13', 'past/work@everything').out
    eq(t.zfs('diff', 'past/work@s13', '@everything').out, full)
    eq(t.zfs('diff', 'past/work@s13').out, full)
    eq(t.zfs('diff', 'past/work@s13', 'past/work').out, full)
    for argv in (['past/work'], ['past/work@nothere'], ['past/work@s13', 'past/nothere'], ['nopool@a'],
                 ['past/work@everything', 'past/work@s13'], ['past/work@s13', 'past/rolled@base']):
        r = t.zfs('diff', *argv, code=1)
        eq(r.out, '', argv)
        contains(r.err, argv[0])
    for argv in ([], ['-q', 'past/work@s13'], ['a@a', 'b', 'c']):
        t.zfs('diff', *argv, code=2)


def test_allow(t):
    t.import_pool('many-datasets')
    out = t.zfs('allow', 'forest/w1').out
    sections = re.findall(r'^---- Permissions on (\S+) -+$', out, re.M)
    eq(sections, ['forest/w1', 'forest'])
    check(all(len(line) == 70 for line in out.splitlines() if line.startswith('----')), out)
    for part in ('\n\tuser ', ' create,mount,snapshot\n', '\n\tgroup staff send\n', 'Permission sets:\n\t@ops destroy,hold\n',
                 'Local+Descendent permissions:\n'):
        contains(out, part)
    contains(t.zfs('allow', 'forest/w2').out, 'Create time permissions:\n\tclone\n')
    contains(t.zfs('allow', 'nopool', code=1).err, 'dataset does not exist')
    t.zfs('allow', code=2)


def test_upgrade(t):
    t.import_pool('version28')
    t.import_pool('version-early')
    r = t.zfs('upgrade')
    old = {n: v for n, v in t.zfs('get', '-Hpr', '-t', 'fs', '-o', 'name,value', 'version').rows() if v != '5'}
    check(old)
    for name, version in old.items():
        check(re.search(r'^ ?%s +%s$' % (version, re.escape(name)), r.out, re.M), name, r.out)
    versions = t.zfs('upgrade', '-v').out
    for n in range(1, 6):
        check(re.search(r'^ %d   \S' % n, versions, re.M), versions)


def test_writing_is_refused(t):
    t.import_pool('snapshots-and-clones')
    for argv in (['create', 'past/new'], ['destroy', 'past/work'], ['snapshot', 'past/work@new'], ['set', 'a:b=c', 'past'],
                 ['rollback', 'past/work@s16'], ['hold', 'a', 'past/work@s16']):
        r = t.zfs(*argv, code=1)
        eq(r.out, '')
        contains(r.err, 'read-only')
    for words in ('zfs send past@x', 'zfs program past script', 'zfs project past', 'zfs wait past', 'zpool reopen past'):
        program, *argv = words.split()
        r = getattr(t, program)(*argv, code=1)
        eq(r.out, '')
        check(re.match(r"cannot %s 'past(@x)?': not in this version" % argv[0], r.err), r.err)


tarnlib.main(globals())
