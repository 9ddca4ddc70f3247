"""Every volume of the golden pools, and every snapshot of one, read through NBD as OpenZFS says it is."""

import glob
import hashlib
import json
import os

import tarnlib
from nbdlib import Client, load_key, need, sha256_copied
from tarnlib import check, eq


def pools_with_volumes():
    found = []
    for path in sorted(glob.glob(os.path.join(tarnlib.pools_folder(), '*', 'manifest.json'))):
        with open(path, encoding='utf-8') as f:
            if json.load(f).get('volumes'):
                found.append(os.path.basename(os.path.dirname(path)))
    return found


def whole(t, export, v):
    eq(sha256_copied(t, export), v['sha256'], export)
    eq(sha256_copied(t, export, '--no-extents', '--connections=1', '--request-size=8192'), v['sha256'], export)


def unreplayed(t, volume):
    """The manifest tells the state after replay; a pool that is only read shows the last committed one."""
    eq(sha256_copied(t, volume), sha256_copied(t, volume, '--no-extents'), volume)


def probes(t, export, v):
    for structured in (False, True):
        with Client(t) as c:
            eq(c.go(export, structured=structured), v['volsize'])
            for p in v['probes']:
                data, errors = c.read(p['offset'], p['length'])
                eq((hashlib.sha256(data).hexdigest(), errors), (p['sha256'], []), export, p)


def snapshots(t, m, volume):
    for name, d in m['datasets'].items():
        if name.startswith(volume + '@'):
            size = int(d['volsize'][0])
            with Client(t) as c:
                eq(c.go(name, structured=True), size)
            check(size > 1 << 40 or sha256_copied(t, name) == sha256_copied(t, name, '--no-extents'), name)


def read_pool(t, pool):
    m = tarnlib.manifest(pool)
    name = t.import_pool(pool)
    for volume, v in m['volumes'].items():
        load_key(t, m, volume)
        if m.get('intent_log_records'):
            unreplayed(t, volume)
            continue
        if 'sha256' in v:
            whole(t, volume, v)
        probes(t, volume, v)
        snapshots(t, m, volume)
    t.zpool('export', name)


def test_golden_pools(t):
    need('nbdcopy')
    pools = pools_with_volumes()
    check(pools, 'no golden pool has volumes')
    for pool in pools:
        read_pool(t, pool)


tarnlib.main(globals())
