"""Pools that Tarn makes, and pools of OpenZFS that it works on, are whole for OpenZFS's zdb: every checksum, every block
counted once, every object readable. zdb of 2.1 is Debian's; $TARN_ZTOOLS names a program that runs that of 2.4."""

import concurrent.futures
import os

import worklib  # first: it finds the modules of tests/serve
import works
import tarnlib
import writelib
from tarnlib import Failure, Skip, check

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


if __name__ == '__main__':
    tarnlib.main(globals())
