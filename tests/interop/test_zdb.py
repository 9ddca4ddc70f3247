#!/usr/bin/env python3
"""tarn zdb counts every block as OpenZFS's own zdb does, on the same pool.

    test_zdb.py TARN golden POOL      a pool of $TARN_POOLS (default ../shared/pools beside the checkout)
    test_zdb.py TARN ztest KIND       a pool made on the spot by OpenZFS's ztest

Compared are the totals of -bbcc, the lines of every type, the table of sizes and the exit status. Exit 77 with a word
why where zdb, ztest or the pool cannot be had.
"""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KINDS = {
    'single': '-v 2 -m 0 -r 1 -K raidz',
    'mirror': '-v 1 -m 3 -r 1 -K raidz',
    'raidz': '-v 1 -m 0 -r 5 -R 2 -K raidz -a 12',
    'mirrored-raidz': '-v 1 -m 2 -r 4 -K raidz -a 9',
    'draid': '-v 1 -m 0 -K draid -D 4 -S 1 -r 8',
    'gangs': '-v 1 -m 0 -r 1 -K raidz -g 8192',
}
# Lines whose numbers zdb takes from memory that a reader of a pool does not have, or that only one of the two prints.
APART = re.compile(r'^\t(Normal|Special|Dedup|Log|Embedded log) class|Metadata Total|indirect vdev id|^\t\d+ copies or '
                   r'reconstructions|^Checkpointed uberblock|^\t\w+ = |^space map refcount mismatch')


def skip(why):
    print('skipped:', why)
    sys.exit(77)


def real_tools():
    fetch = subprocess.run([os.path.join(SOURCE, 'dev/fetch-zdb.sh')], capture_output=True, text=True)
    if fetch.returncode:
        skip((fetch.stderr or fetch.stdout).strip() or 'no zdb')
    return fetch.stdout.strip()


def run(command, timeout=600, **more):
    """Runs a command in a group of its own, which ends with it."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, errors='replace', **more)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        skip(' '.join(command[:3]) + ' did not end in time')
    return process.returncode, out, err


def lines_of(text):
    lines = [line.rstrip() for line in text.split('\n') if not APART.search(line)]
    return [line for line in lines if line]


def compare(tarn, tools, folder, pool):
    options = ['-e', '-p', folder, '-bbcc', pool]
    theirs = run([os.path.join(tools, 'zdb')] + options)
    if 'bp count' not in theirs[1]:
        skip(f'zdb itself cannot read {pool}: ' + theirs[2].strip().split('\n')[-1])
    ours = run([tarn, 'zdb'] + options)
    a, b = lines_of(theirs[1]), lines_of(ours[1])
    wrong = 0
    for kind, here, there in (('only zdb', a, set(b)), ('only tarn', b, set(a))):
        for line in here:
            if line not in there:
                print(f'{kind}: {line}')
                wrong += 1
    # zdb counts space maps too, of devices that ztest has just taken away; 2 is all it says then.
    if theirs[0] != ours[0] and 'refcount mismatch' not in theirs[1]:
        print(f'exit status: zdb {theirs[0]}, tarn {ours[0]}: {ours[2]}')
        wrong += 1
    print(f'{pool}: {len(a)} lines compared, {wrong} differ')
    return 1 if wrong else 0


def golden(tarn, name, work):
    pools = os.environ.get('TARN_POOLS') or os.environ.get('TARN_POOLS_DEFAULT') or os.path.join(SOURCE, '../shared/pools')
    source = os.path.join(pools, name)
    if not os.path.exists(os.path.join(source, 'manifest.json')):
        skip(f'no pool {source}')
    tools = real_tools()
    with open(os.path.join(source, 'manifest.json'), encoding='utf-8') as f:
        manifest = json.load(f)
    for image in glob.glob(os.path.join(source, '*.img.zst')):
        target = os.path.join(work, os.path.basename(image)[:-4])
        subprocess.run(['zstd', '-q', '-d', '--sparse', '--long=27', image, '-o', target], check=True)
    return compare(tarn, tools, work, manifest['pool']['name'])


def ztest(tarn, kind, work):
    tools = real_tools()
    command = [os.path.join(tools, 'ztest'), '-f', work, '-p', 'zt', '-T', '15', '-P', '8', '-s', '128m', '-t', '6', '-d', '3']
    run(command + KINDS[kind].split(), timeout=240)
    if not glob.glob(os.path.join(work, 'zt.*')):
        skip('ztest made no pool')
    return compare(tarn, tools, work, 'zt')


def main():
    tarn, what, name = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix='tarn-zdb-') as work:
        return {'golden': golden, 'ztest': ztest}[what](tarn, name, work)


if __name__ == '__main__':
    sys.exit(main())
