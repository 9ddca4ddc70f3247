"""Pools go between Tarn and OpenZFS and back: made here, imported, scrubbed, compared and written there, verified and
written here again; pools of OpenZFS worked on here; intent logs that one leaves and the other replays.

Needs $TARN_ORACLE (oraclelib.py). The machine is slow: one start for each test. TARN_ORACLE_WORKS names the pieces of
work (works.py) to show, all that OpenZFS 2.1 can open by default."""

import os
import random
import signal
import subprocess

import worklib  # first: it finds the modules of tests/serve
import oraclelib
import works
import tarnlib
import wire
from oraclelib import Shown
from tarnlib import check, eq, wait_for
from worklib import MIB, Writer

IMPORTED = r'''
scrubbed() { # POOL
	zpool scrub -w $1
	zpool status -v $1 | grep -q 'scrub repaired 0B in .* with 0 errors' || { zpool status -v $1; exit 1; }
	zpool status -v $1 | grep -q 'No known data errors' || { zpool status -v $1; exit 1; }
}
snapdev() { # POOL VALUE
	for v in $(zfs list -Hr -o name -t volume $1); do zfs set snapdev=$2 $v; done
}
room() { # POOL VOLUME: there is none for a snapshot until the volume goes
	! zfs snapshot -r $1@none 2>/dev/null && zfs destroy $1/$2 && zpool wait -t free $1 && zpool sync $1
}
'''
# What OpenZFS does to a pool of ours: first it only looks, then it scrubs, reads and writes.
VISIT = r'''
zpool import -d /share/%(n)s -o readonly=on -N %(n)s || exit 1
look %(n)s /share/%(n)s/look
zpool export %(n)s
zpool import -d /share/%(n)s -R /mnt/%(n)s %(n)s || exit 1
scrubbed %(n)s
zpool get -Hp all %(n)s >/share/%(n)s/pool
snapdev %(n)s visible
sums %(n)s /share/%(n)s/sums
[ %(n)s != full ] || room full big || exit 1
zfs snapshot -r %(n)s@there || exit 1
zfs create -o mountpoint=/fs %(n)s/fs && cp -r /usr/lib/python3.11/*.py /mnt/%(n)s/fs || exit 1
(cd /mnt/%(n)s/fs && sha256sum *) >/share/%(n)s/files
zfs snapshot %(n)s/fs@there
for v in $(zfs list -Hr -o name -t volume %(n)s); do
	size=$(zfs get -Hp -o value volsize $v)
	dd if=/dev/urandom of=/dev/zvol/$v bs=64k count=$((size > 4194304 ? 20 : 4)) seek=15 conv=notrunc status=none || exit 1
done
for s in $(zfs list -Hr -o name -t snapshot %(n)s | grep -v @there | head -3); do zfs destroy $s 2>/dev/null; done
snapdev %(n)s hidden
sums %(n)s /share/%(n)s/after
zpool export %(n)s || exit 1
'''
RETURN = r'''
zpool import -d /share/%(n)s -R /mnt/%(n)s %(n)s || exit 1
scrubbed %(n)s
sums %(n)s /share/%(n)s/last
(cd /mnt/%(n)s/fs && sha256sum *) | cmp - /share/%(n)s/files || exit 1
zpool export %(n)s || exit 1
'''


def sums_of(path):
    with open(path, encoding='utf-8') as f:
        return dict(line.split() for line in f)


def share(t):
    path = os.path.join(t.dir, 'share')
    os.makedirs(path, exist_ok=True)
    return path


def near(prop, mine, theirs):
    """What imports and the changes of a moment may move."""
    slack = {'allocated': 1 << 20, 'free': 1 << 20, 'capacity': 1}.get(prop, 0)
    if mine == theirs:
        return True
    return slack and abs(int(mine) - int(theirs)) <= slack


def is_equal(p, failures):
    """What it found at its first look, and in the volumes, is what we say."""
    failures += ['%s: %s' % (p.name, line) for line in oraclelib.differences(p.look, oraclelib.theirs(os.path.join(p.folder, 'look')))]
    mine = oraclelib.table(p.look['pool'], 2)
    with open(os.path.join(p.folder, 'pool'), encoding='utf-8') as f:
        theirs = oraclelib.table(f.read(), 2)
    for prop in sorted(oraclelib.SPACE_OF_POOL - {'fragmentation'}):  # OpenZFS 2.1 weighs otherwise than 2.4
        a, b = mine[p.name, prop][0], theirs[p.name, prop][0]
        if not near(prop, a, b):
            failures.append('%s: %s: - %s + %s' % (p.name, prop, a, b))
    got = sums_of(os.path.join(p.folder, 'sums'))
    for name, want in p.sums.items():
        if got.get(name) != want:
            failures.append('%s holds something else there' % name)


def test_pools_go_there_and_back(t):
    names = (os.environ.get('TARN_ORACLE_WORKS') or ' '.join(n for n in works.WORKS if works.is_old(n))).split()
    oraclelib.oracle()
    pools, failures = [], []
    for name in names:
        p = Shown(t, name, share(t))
        works.WORKS[name](p)
        p.reimport('-o', 'readonly=on', '-N')
        p.look = oraclelib.look(p)
        p.export()
        pools.append(p)
    oraclelib.in_guest(share(t), IMPORTED + ''.join(VISIT % {'n': p.name} for p in pools), timeout=300 + 240 * len(pools))
    for p in pools:
        is_equal(p, failures)
        p.verify(deep=False)
        p.reimport('-N')
        for name, want in sums_of(os.path.join(p.folder, 'after')).items():
            eq(p.sum(name[len(p.name) + 1:]), want, name, 'that was written there')
        works.used_on(p)
        p.remember()
        p.export()
        p.verify(deep=False)
    print('\n'.join(failures))
    oraclelib.in_guest(share(t), IMPORTED + ''.join(RETURN % {'n': p.name} for p in pools), timeout=300 + 200 * len(pools))
    for p in pools:
        got = sums_of(os.path.join(p.folder, 'last'))
        failures += ['%s holds something else at last' % n for n, want in p.sums.items() if '@' not in n and got.get(n) != want]
    check(not failures, '\n'.join(failures))


# ---- logs that OpenZFS left ----

CONTENTS = r'''
cat >/sparse-sum <<'END'
import hashlib, os, sys
for name in sys.argv[1:]: # what is not zeros, and where
	h, at, f = hashlib.sha256(), 0, os.open(name, os.O_RDONLY)
	while True:
		try:
			at = os.lseek(f, at, os.SEEK_DATA) // 131072 * 131072
		except OSError: # no more data
			break
		data = os.pread(f, 131072, at)
		if data.strip(b"\0"):
			h.update(at.to_bytes(8, "big") + data)
		at += 131072
	print(h.hexdigest(), name)
	os.close(f)
END
devices() { # FOLDER LETTER...: the devices of one pool, apart from those of its twin
	d=$1; shift; mkdir -p $d
	for l in $*; do ln -s /dev/vd$l $d/$l; done
}
contents() { # POOL FOLDER KEYS FILE: of all files and volumes
	zpool import -f -d $2 -R /mnt/c -N $1 || exit 1
	for k in $3/*; do [ ! -e $k ] || zfs load-key -L file://$k $(basename $k | tr + /) || exit 1; done
	zfs mount -a
	zpool sync $1
	(cd /mnt/c && find . -type f -size -65M -print0 | sort -z | xargs -0 -r sha256sum) >$4
	(cd /mnt/c && find . -type f -size +64M -print0 | sort -z | xargs -0 -r python3 /sparse-sum) >>$4
	find /mnt/c -printf '%%P %%y %%m %%U %%s\n' | sort >>$4
	sums $1 $4.volumes
	cat $4.volumes >>$4
	zpool export $1 || exit 1
}
'''


def keys_of(t, pool, folder):
    os.makedirs(folder, exist_ok=True)
    for root in tarnlib.manifest(pool).get('keys') or {}:
        os.rename(t.key_file(pool, root), os.path.join(folder, root.replace('/', '+')))


def test_logs_of_openzfs(t):
    """A log that is not replayed here is there still when OpenZFS comes back, and gives what it gives without us."""
    oraclelib.oracle()
    script, disks, cases = IMPORTED + CONTENTS.replace('%%', '%'), [], ['unclean', 'intent-log', 'intent-log-device']
    for case in cases:
        name, base = t.pool_name(case), os.path.join(t.dir, case)
        for kind in ('before', 'after'):
            subprocess.run(['cp', '-r', '--sparse=always', '--no-preserve=mode', tarnlib.golden(case), base + '-' + kind], check=True)
        keys_of(t, case, os.path.join(share(t), case + '-keys'))
        p = worklib.Pool(t, name)
        p.folder = base + '-after'
        p.reimport('-f', '-N')
        p.zfs('snapshot', '-r', name + '@tarn')
        for volume, about in tarnlib.manifest(case)['volumes'].items():
            if '@' not in volume and 'sha256' in about:
                eq(p.sum(volume[len(name) + 1:]), about['sha256'], volume, 'after our replay')
        p.export()
        p.verify(deep=False)
        for kind in ('before', 'after'):
            letters = ''
            for image in sorted(os.listdir(base + '-' + kind)):
                letters += ' ' + chr(ord('a') + len(disks))
                disks.append(os.path.join(base + '-' + kind, image))
            script += 'devices /dev-%s-%s%s\n' % (case, kind, letters)
            script += 'contents %s /dev-%s-%s /share/%s-keys /share/%s.%s\n' % (name, case, kind, case, case, kind)
    oraclelib.in_guest(share(t), script, timeout=1500, options=[w for d in disks for w in ('--disk', d)])
    for case in cases:
        before, after = ([*open(os.path.join(share(t), '%s.%s' % (case, kind)), errors='surrogateescape')] for kind in ('before', 'after'))
        check(len(before) > 4, case, before)
        different = ['-' + line for line in before if line not in after] + ['+' + line for line in after if line not in before]
        check(not [line for line in different if '/tarn' not in line], case, ''.join(different[:20]))


# ---- logs that we left ----

def test_logs_of_tarn(t):
    """The daemon is killed while groups never sync: what the log holds is replayed by us and by OpenZFS to the same."""
    oraclelib.oracle()
    script, pools = IMPORTED, []
    for name, words in (('embedded', []), ('slog', ['log'])):
        p = Shown(t, name, share(t))
        p.create(*p.disks(2), *(['log', *p.disks(1, 128 * MIB, 'log')] if words else []))
        for volume, block, options in (('small', '4K', ()), ('middle', '16K', ('-o', 'sync=always')), ('large', '128K', ()),
                                       ('through', '32K', ('-o', 'logbias=throughput'))):
            p.volume(volume, '16M', block, *options)
            p.write(volume, 0, MIB)
        p.zpool('sync')
        t.tarn('tunable', 'zfs_txg_timeout=3600')
        for volume in ('small', 'middle', 'large', 'through'):
            changes(p, volume)
        pid = t.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: t.daemon_pid() is None, 'the daemon to be gone')
        there = os.path.join(share(t), name + '-there')
        subprocess.run(['cp', '-r', '--sparse=always', p.folder, there], check=True)
        script += 'zpool import -f -d /share/%s-there -N %s || exit 1\nsums %s /share/%s.sums\nscrubbed %s\nzpool export %s\n' % (
            (name,) * 6)
        pools.append(p)
    oraclelib.in_guest(share(t), script, timeout=900)
    for p in pools:
        p.reimport('-f')
        theirs = sums_of(os.path.join(share(t), p.name + '.sums'))
        eq(len(theirs), 4, theirs)
        for name, want in theirs.items():
            eq(p.sum(name[len(p.name) + 1:]), want, name)
        p.export()
        p.verify(deep=False)
        p.folder = os.path.join(share(t), p.name + '-there')
        p.verify(deep=False)


def changes(p, volume):
    """Writes of all sizes, all of them acknowledged as safe, holes among them."""
    rnd = random.Random(volume)
    with Writer(p.t, p.ds(volume)) as w:
        for _ in range(60):
            n = rnd.choice((512, 4096, 8192, 65536, 131072, 300 * 512))
            at = rnd.randrange((16 * MIB - n) // 512) * 512
            what = rnd.randrange(8)
            if what == 0:
                w.trim(at, n)
            elif what == 1:
                w.zero(at, n)
            else:
                w.write(at, rnd.randbytes(n), wire.FLAG_FUA)
        w.flush()


if __name__ == '__main__':
    tarnlib.main(globals())
