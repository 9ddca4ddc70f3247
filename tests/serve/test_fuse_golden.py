"""Mounted golden pools show programs what OpenZFS showed: every file system and every snapshot below .zfs."""

import os

import fuselib
import tarnlib
from tarnlib import check, eq


def compare(t, pool):
    fuselib.need_fuse()
    manifest = tarnlib.manifest(pool)
    name = t.import_pool(pool)
    t.load_keys(pool)
    done = set()
    differences = []
    for fs in sorted(n for n in manifest['filesystems'] if '@' not in n):
        top = os.path.join(t.dir, 'fs%d' % len(done))
        os.mkdir(top)
        t.tarn('mount', fs, top)
        differences += fuselib.Comparison(top, manifest['filesystems'][fs]['files']).run()
        done.add(fs)
        snaps = sorted(n for n in manifest['filesystems'] if n.startswith(fs + '@'))
        below = os.path.join(top, '.zfs', 'snapshot')
        listed = sorted(n for n in manifest['datasets'] if n.startswith(fs + '@'))
        eq(sorted(os.listdir(below)), [s.split('@')[1] for s in listed], fs)
        for snap in snaps:
            where = os.path.join(below, snap.split('@')[1])
            differences += fuselib.Comparison(where, manifest['filesystems'][snap]['files'], snapshot=True).run()
            done.add(snap)
        t.zfs('unmount', top)
        os.rmdir(top)
    check(not differences, '%d differences:\n%s' % (len(differences), '\n'.join(differences[:40])))
    eq(done, set(manifest['filesystems']))
    t.zpool('export', name)


def test_single(t):
    compare(t, 'single')


def test_names(t):
    compare(t, 'names')


def test_case_and_normalization(t):
    compare(t, 'case-and-normalization')


def test_large_dnodes(t):
    compare(t, 'large-dnodes')


def test_big_directory(t):
    compare(t, 'big-directory')


def test_longname(t):
    compare(t, 'v24-longname')


def test_no_features(t):
    compare(t, 'no-features')


def test_encryption(t):
    compare(t, 'encryption')


def test_snapshots_and_clones(t):
    compare(t, 'snapshots-and-clones')


def test_ashift13(t):
    compare(t, 'ashift13')


def test_xattr_and_acl(t):
    compare(t, 'xattr-and-acl')


tarnlib.main(globals())
