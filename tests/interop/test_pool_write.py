#!/usr/bin/env python3
"""Pools that this software makes and writes are whole for OpenZFS's zdb: every block's checksum, and no leak.

    test_pool_write.py POOLSH made                pools made on the spot, by the scenarios below
    test_pool_write.py POOLSH golden POOL         a pool of $TARN_POOLS, imported for writing and worked on

Exit 77 with a word why where zdb or the pool cannot be had.
"""
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SIZE = 128 << 20
# What Debian's zdb (2.1) does not know and what is active as soon as it is enabled.
OLD = ['-o=feature@head_errlog=disabled', '-o=feature@vdev_zaps_v2=disabled']
FILL = ['volume=v:67108864:8192', 'write=v:0:20000000:1']
SCENARIOS = {
    'plain': (1, ['create']),
    'stripe': (3, ['create', 'fs=a', 'fs=a/b'] + FILL + [
        'sync', 'check=v:0:20000000:1', 'snapshot=v@s', 'write=v:1000000:3000000:2', 'clone=v@s:c',
        'write=c:0:5000000:3', 'snapshot=a@x', 'export', 'import', 'check=v:1000000:3000000:2', 'check=c:0:5000000:3',
        'check=v:0:1000000:1']),
    'destroy': (2, ['create'] + FILL + [
        'sync', 'snapshot=v@s', 'write=v:1000000:3000000:2', 'clone=v@s:c', 'write=c:0:5000000:3', 'destroy-fs=c',
        'destroy-snapshot=v@s', 'sync', 'zero=v:0:10000000', 'export', 'import', 'check=v:12000000:3000000:1',
        'destroy-fs=v']),
    'properties': (1, ['create', 'fs=a', 'fs=a/b'] + FILL + [
        'prop=a:compression=zstd-3', 'prop=a:my:prop=value', 'prop=a/b:quota=10M', 'prop=a:reservation=5M', 'prop=:atime=off',
        'prop=a/b:refreservation=1M', 'prop=a:userquota@0=100M', 'prop=a:snapshot_limit=9', 'prop=v:refreservation=5M',
        'prop=:redundant_metadata=none', 'snapshot=a/b@s', 'prop=a/b@s:x:y=z', 'inherit=:atime', 'allow=a:1000:snapshot',
        'hold=a/b@s:tag', 'snapshot=v@s1', 'bookmark=v@s1:v#m1', 'write=v:0:3000000:2', 'snapshot=v@s2', 'bookmark=v@s2:v#m2',
        'bookmark=v#m1:v#copy', 'write=v:1000000:3000000:3', 'destroy-snapshot=v@s1', 'clone=v@s2:c', 'write=c:0:900000:4',
        'promote=c', 'destroy-bookmark=c#copy', 'write=v:0:5000000:5', 'export', 'import', 'release=a/b@s:tag',
        'rename=a/b:moved', 'check=v:0:5000000:5', 'check=c:0:900000:4']),
    'many': (1, ['create', 'fs=a', 'many=a:200', 'fs=a/a-name-of-more-than-fifty-bytes-makes-the-map-of-children-fat', 'snapshot=a/5@s', 'prop=a:compression=gzip', 'export', 'import',
                 'rename=a/7:a/seven', 'fs=a/7']),
    'slog': (3, ['slog', 'create'] + FILL + ['export', 'import', 'check=v:0:20000000:1']),
    'mirror': (3, ['kind=mirror', 'create'] + FILL + ['export', 'import', 'check=v:0:20000000:1']),
    'raidz2': (5, ['kind=raidz2', 'create'] + FILL + ['export', 'import', 'check=v:0:20000000:1']),
    'ashift12': (2, ['-o=ashift=12', 'create'] + FILL + ['export', 'import', 'check=v:0:20000000:1']),
    'no-log-spacemap': (1, ['-o=feature@log_spacemap=disabled', 'create'] + FILL + [
        'write=v:0:20000000:2', 'sync', 'write=v:0:20000000:3', 'export', 'import', 'check=v:0:20000000:3']),
    'few-features': (1, [f'-o=feature@{f}=disabled' for f in (
        'lz4_compress', 'spacemap_v2', 'log_spacemap', 'hole_birth', 'embedded_data', 'spacemap_histogram',
        'empty_bpobj', 'extensible_dataset', 'enabled_txg', 'async_destroy')] + ['create'] + FILL + [
            'export', 'import', 'check=v:0:20000000:1']),
    'checkpoint': (1, ['create'] + FILL + ['export', 'import', 'checkpoint', 'write=v:0:1000000:2']),
    'checkpoint-rewind': (1, ['create'] + FILL + [
        'checkpoint', 'write=v:0:1000000:2', 'export', 'import-checkpoint', 'check=v:0:20000000:1',
        'write=v:0:1000000:3']),
    'checkpoint-discard': (1, ['create'] + FILL + [
        'checkpoint', 'write=v:0:1000000:2', 'discard', 'sync', 'sync']),
    'crash': (1, ['create'] + FILL + ['sync', 'write=v:0:3000000:2', 'crash'], [
        'import', 'check=v:3000000:17000000:1', 'write=v:0:100000:7']),
    'destroyed': (2, ['create'] + FILL + ['destroy', 'import-destroyed', 'check=v:0:20000000:1']),
    'reguid': (2, ['create'] + FILL + ['reguid', 'export', 'import', 'check=v:0:20000000:1']),
    'add': (2, ['create'] + FILL, 'new', [
        'import', 'add=new', 'write=v:0:40000000:2', 'export', 'import', 'check=v:0:40000000:2']),
    'gang': (2, ['tunable=metaslab_force_ganging:4096', 'tunable=metaslab_force_ganging_pct:40', 'create',
        'volume=v:67108864:131072', 'write=v:0:20000000:1', 'snapshot=v@a', 'write=v:1000000:9000000:2', 'export', 'import',
        'check=v:1000000:9000000:2', 'scatter=v:20000000:131072:100:4', 'destroy-snapshot=v@a',
        'punch=v:20000000:131072:393216']),
    'gang-raidz': (4, ['tunable=metaslab_force_ganging:4096', 'tunable=metaslab_force_ganging_pct:40', 'kind=raidz1',
        'create', 'volume=v:67108864:131072', 'write=v:0:9000000:1', 'export', 'import', 'check=v:0:9000000:1',
        'punch=v:9000000:131072:393216']),
    # To the last block that may be had, emptied, filled again with other sizes.
    'full': (1, ['create', 'volume=v:200000000:8192', 'fill=v:200000000:1', 'fill=v:200000000:2', 'zero=v:0:200000000',
        'fill=v:200000000:3', 'destroy-fs=v', 'volume=w:200000000:131072', 'fill=w:200000000:4', 'export', 'import',
        'punch=w:200000000:131072:262144', 'fill=w:200000000:5']),
    'full-raidz': (4, ['kind=raidz1', 'create', 'volume=v:500000000:8192', 'fill=v:500000000:1',
        'punch=v:300000000:8192:16384', 'export', 'import', 'fill=v:500000000:2']),
    'full-old': (1, ['-o=feature@spacemap_v2=disabled', '-o=feature@log_spacemap=disabled',
        '-o=feature@spacemap_histogram=disabled', 'create', 'volume=v:200000000:8192', 'fill=v:200000000:1',
        'punch=v:50000000:8192:16384', 'fill=v:200000000:2', 'export', 'import', 'zero=v:0:200000000',
        'fill=v:200000000:3']),
    'fragmented': (2, ['create', 'volume=v:100000000:8192', 'write=v:0:100000000:1', 'punch=v:100000000:8192:16384',
        'sync', 'sync', 'sync', 'volume=w:100000000:131072', 'fill=w:100000000:2', 'export', 'import',
        'punch=w:100000000:131072:262144', 'scatter=v:100000000:8192:1000:5']),
    'log-device': (1, ['create'] + FILL, 'new', [
        'import', 'log=new', 'write=v:0:30000000:2', 'export', 'import', 'remove=new', 'check=v:0:30000000:2', 'export',
        'import', 'add=new', 'write=v:0:10000000:4']),
}


def skip(why):
    print('skipped:', why)
    sys.exit(77)


def zdb_path():
    fetch = subprocess.run([os.path.join(SOURCE, 'dev/fetch-zdb.sh')], capture_output=True, text=True)
    if fetch.returncode:
        skip((fetch.stderr or fetch.stdout).strip() or 'no zdb')
    return os.path.join(fetch.stdout.strip(), 'zdb')


def poolsh(program, folder, commands):
    ran = subprocess.run([program, folder] + commands, capture_output=True, text=True, timeout=300)
    if ran.returncode:
        print('poolsh', ' '.join(commands), '\n', ran.stdout, ran.stderr)
    return ran.returncode == 0, ran.stderr


def is_whole(zdb, folder, pool):
    ran = subprocess.run([zdb, '-e', '-p', folder, '-bcc', pool], capture_output=True, text=True, timeout=600,
                         errors='replace')
    text = ran.stdout + ran.stderr
    counts = subprocess.run([zdb, '-e', '-p', folder, '-d', pool], capture_output=True, text=True, timeout=600,
                            errors='replace')
    # zdb itself does not know where lists of permissions are named, and calls them leaked.
    lost = [line for line in counts.stdout.split('\n') if 'leaked' in line]
    known = all('(DSL permissions)' in line for line in lost)
    if counts.returncode != (2 if lost else 0) or not known or 'mismatch' in counts.stdout + counts.stderr:
        print('zdb -d:', counts.returncode, (counts.stdout + counts.stderr)[-2000:])
        return False
    if ran.returncode == 0 and 'No leaks' in text and 'error' not in text.replace('no errors', ''):
        return True
    print('zdb:', ran.returncode, re.sub(r'(loading|[0-9]+ completed)[^\n\r]*[\n\r]', '', text)[-2000:])
    return False


def make_file(folder, name):
    with open(os.path.join(folder, name), 'wb') as f:
        f.truncate(SIZE)


def scenario_run(program, zdb, steps):
    with tempfile.TemporaryDirectory(prefix='tarn-pool-') as folder:
        for i in range(steps[0]):
            make_file(folder, f'd{i}')
        first = True
        for step in steps[1:]:
            if isinstance(step, str):
                make_file(folder, step)
            elif not poolsh(program, folder, (OLD if first else []) + step)[0]:
                return False
            first = False
        return is_whole(zdb, folder, 'live')


def made(program, zdb):
    bad = [name for name, steps in SCENARIOS.items() if not scenario_run(program, zdb, steps)]
    for name in bad:
        print('not whole:', name)
    print(f'{len(SCENARIOS)} scenarios, {len(bad)} bad')
    return not bad


def golden_unpack(pool, folder):
    """Puts the images of a golden pool into the folder; its manifest."""
    place = os.environ.get('TARN_POOLS') or os.environ.get('TARN_POOLS_DEFAULT') or os.path.join(SOURCE, '../shared/pools')
    place = os.path.join(place, pool)
    if not os.path.exists(os.path.join(place, 'manifest.json')):
        skip(f'no pool {place}')
    for packed in sorted(glob.glob(os.path.join(place, '*.img.zst'))):
        image = os.path.join(folder, os.path.basename(packed)[:-4])
        if subprocess.run(['zstd', '-dq', '--sparse', '--long=27', packed, '-o', image]).returncode:
            skip('zstd cannot unpack ' + packed)
    with open(os.path.join(place, 'manifest.json')) as f:
        return json.load(f)


def without_partitions(folder):
    """A folder in which OpenZFS's zdb finds the devices: it does not look for partitions in images."""
    parts = os.path.join(folder, 'parts')
    for path in glob.glob(os.path.join(folder, '*.img')):
        with open(path, 'rb') as image:
            head = image.read(2048)
            if head[512:520] != b'EFI PART':
                return folder
            first, last = struct.unpack('<QQ', head[1024 + 32:1024 + 48])  # of partition 1, in sectors
            os.makedirs(parts, exist_ok=True)
            image.seek(first * 512)
            with open(os.path.join(parts, os.path.basename(path)), 'wb') as part:
                part.write(image.read((last - first + 1) * 512))
    return parts


def golden(program, zdb, pool):
    with tempfile.TemporaryDirectory(prefix='tarn-pool-') as folder:
        m = golden_unpack(pool, folder)
        name = m['pool']['name']
        if m['datasets'][name].get('encryptionroot', ['-'])[0] in ('-', '', 'none'):
            steps = ['import', 'fs=made-here', 'snapshot=made-here@s', 'sync', 'destroy-snapshot=made-here@s', 'export', 'import',
                     'destroy-fs=made-here']
        else:  # nothing encrypted can be made yet
            steps = ['import', 'snapshot=@made-here', 'sync', 'export', 'import', 'destroy-snapshot=@made-here']
        ok, why = poolsh(program, folder, steps)
        if not ok and 'readonly=on' in why:
            skip(why.split('\n')[0])
        return ok and is_whole(zdb, without_partitions(folder), name)


def main():
    program, kind = sys.argv[1:3]
    zdb = zdb_path()
    if not (made(program, zdb) if kind == 'made' else golden(program, zdb, sys.argv[3])):
        sys.exit(1)


if __name__ == '__main__':
    main()
