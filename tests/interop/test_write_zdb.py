"""Pools that Tarn makes, and pools of OpenZFS that it works on, are whole for OpenZFS's zdb: every checksum, every block
counted once, every object readable. zdb of 2.1 is Debian's; $TARN_ZTOOLS names a program that runs that of 2.4."""

import concurrent.futures
import os

import worklib  # first: it finds the modules of tests/serve
import works
import tarnlib
import writelib
from tarnlib import Failure, Skip, check, eq

LONG = bool(os.environ.get('TARN_TEST_LONG'))
# Pools of OpenZFS that can be imported for writing, of every kind of device and most kinds of contents.
OF_OPENZFS = ['checkpoint', 'draid1', 'gang', 'large-dnodes', 'mirror', 'no-features', 'quotas', 'raidz1', 'removed-device',
              'snapshots-and-clones', 'special', 'stripe4-zvols', 'unclean', 'version28', 'volumes-more']
MORE_OF_OPENZFS = ['ashift13', 'ashift9', 'compression', 'copies', 'draid2', 'embedded', 'full-and-fragmented', 'raidz3',
                   'raidz-stripe', 'recordsize', 'single', 'version-early', 'xattr-and-acl', 'streams', 'names',
                   'many-datasets', 'encryption', 'case-and-normalization', 'big-directory']


def verify_all(pools):
    """zdb of 2.1 sleeps for seconds at each end, whatever it is asked: all of them at once."""
    with concurrent.futures.ThreadPoolExecutor(6) as runners:
        running = [(p, runners.submit(p.verify)) for p in pools]
    bad = [(p.name, r.exception()) for p, r in running if r.exception()]
    for name, e in bad:
        print('%s: %s' % (name, e))
    check(not bad, 'not whole:', ' '.join(name for name, _ in bad))


def do_all(t, names, work):
    """work(t, name) -> the pool, left exported, or None."""
    pools, failed = [], []
    for name in names:
        try:
            pools += [work(t, name)]
        except Failure as e:
            print('%s: %s' % (name, e))
            failed.append(name)
            for pool in t.zpool('list', '-H', '-o', 'name').lines():
                t.zpool('export', '-f', pool, code=None)
    verify_all([p for p in pools if p])
    check(not failed, 'failed:', ' '.join(failed))


def made(t, name):
    p = worklib.Pool(t, name, works.is_old(name))
    works.WORKS[name](p)
    return p


def worked_on(t, name):
    try:
        p = worklib.Pool(t, t.pool_name(name))
    except Skip:
        return None
    p.folder = t.copy_pool(name)
    p.reimport('-f', '-N')
    works.used_on(p)
    p.export()
    return p


def test_pools_that_were_made(t):
    if not writelib.openzfs_zdb() and not worklib.ZTOOLS:
        raise Skip('there is no zdb of OpenZFS')
    do_all(t, works.WORKS if LONG else works.QUICK, made)


def test_pools_of_openzfs_that_were_worked_on(t):
    if not os.path.isdir(tarnlib.POOLS):
        raise Skip('there are no golden pools')
    do_all(t, OF_OPENZFS + (MORE_OF_OPENZFS if LONG else []), worked_on)


def log_records(t, p):
    """Of each data set with a log: its records, as our zdb prints them."""
    found, name = {}, None
    for line in t.tarn('zdb', '-e', '-p', p.folder, '-ivv', p.name).lines():
        if line.startswith('Dataset '):
            name = line.split()[1]
        elif line.startswith('\t\tTX_') and ' len ' in line:
            found.setdefault(name, []).append(line.strip())
    return found


def logs_stay(t, case):
    """Logs of volumes are replayed to what OpenZFS made of them; those of file systems stay, claimed and whole, whatever
    is done to the pool meanwhile. Clones and what was rolled back have none."""
    try:
        p = worklib.Pool(t, t.pool_name(case))
    except Skip:
        return None
    p.folder = t.copy_pool(case, case + '-log')
    before = log_records(t, p)
    p.reimport('-f', '-N')
    p.zfs('snapshot', '-r', p.name + '@tarn')
    p.zfs('clone', p.ds('vol@tarn'), p.ds('clone'))
    p.zfs('clone', '-u', p.ds('fs@tarn'), p.ds('filesystem-clone'))
    for volume, about in tarnlib.manifest(case)['volumes'].items():
        if '@' not in volume:
            eq(p.sum(volume[len(p.name) + 1:]), about['sha256'], volume, 'after our replay')
    p.zfs('rollback', p.ds('thr@tarn'))
    p.export()
    p.reimport('-N')
    p.zfs('destroy', '-r', p.ds('always'))
    p.export()
    after = log_records(t, p)
    gone = {p.ds(name) for name in ('vol', 'thr', 'always')}
    eq({k for k in after if '@' not in k}, set(before) - gone, case, 'data sets with logs')
    for name in set(before) - gone:
        eq(after[name], before[name], case, 'the log of', name)
    return p


def test_logs_that_wait_for_openzfs(t):
    do_all(t, ['intent-log', 'intent-log-device'], logs_stay)


if __name__ == '__main__':
    tarnlib.main(globals())
