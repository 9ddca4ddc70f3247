"""Pools made, and pools worked on, for OpenZFS to look at: what test_write_zdb.py and test_oracle.py share.

A piece of work is a function that gets a `Pool`, makes it or imports it, does things to it with the commands and over
NBD, and leaves it exported. What was written last to every volume is kept in Pool.sums, so that whoever reads it
afterwards, in whatever software, can be asked whether it is still that.
"""

import hashlib
import os
import random
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, 'tests', 'serve'))

import tarnlib  # noqa: E402
import writelib  # noqa: E402
from tarnlib import check, eq  # noqa: E402
from writelib import MIB, Writer  # noqa: E402

# The features of OpenZFS 2.1, which is what Debian's zdb and its kernel module know (docs/format/01-pool.md, 6.3).
FEATURES_2_1 = '''async_destroy empty_bpobj lz4_compress multi_vdev_crash_dump spacemap_histogram enabled_txg hole_birth
extensible_dataset embedded_data bookmarks filesystem_limits large_blocks large_dnode sha512 skein edonr userobj_accounting
encryption project_quota device_removal obsolete_counts zpool_checkpoint spacemap_v2 allocation_classes resilver_defer
bookmark_v2 redaction_bookmarks redacted_datasets bookmark_written log_spacemap livelist device_rebuild zstd_compress
draid'''.split()
OF_2_1 = ['-d'] + [w for f in FEATURES_2_1 for w in ('-o', 'feature@%s=enabled' % f)]
ZTOOLS = os.environ.get('TARN_ZTOOLS', '')  # zdb of OpenZFS 2.4, called as `$TARN_ZTOOLS zdb ...`


class Pool:
    """A pool on files in a folder of its own. `old`: OpenZFS 2.1 must be able to open it."""

    def __init__(self, t, name, old=True):
        self.t, self.name, self.old = t, name, old
        self.folder = os.path.join(t.dir, name)
        os.makedirs(self.folder, exist_ok=True)
        self.sums = {}  # volume or its snapshot (whole name): sha256 of all it holds
        self.seed = 0

    # -- the pool --

    def disks(self, n=1, size=256 * MIB, name='disk'):
        paths = [os.path.join(self.folder, '%s%d.img' % (name, i)) for i in range(n)]
        for path in paths:
            with open(path, 'wb') as f:
                f.truncate(size)
        return paths

    def create(self, *words):
        """zpool create: options first, then devices."""
        at = next((i for i, w in enumerate(words) if w.startswith('/') or w in ('mirror', 'log', 'raidz')), len(words))
        features = OF_2_1 if self.old and '-d' not in words else []
        self.t.zpool('create', '-R', self.t.altroot(), '-m', 'none', *features, *words[:at], self.name, *words[at:])

    def zpool(self, command, *words, **kw):
        return self.t.zpool(command, *words, **kw)

    def zfs(self, command, *words, **kw):
        return self.t.zfs(command, *words, **kw)

    def ds(self, name):
        return self.name + '/' + name

    def export(self):
        self.zpool('export', self.name)

    def reimport(self, *options):
        self.zpool('import', '-d', self.folder, '-R', self.t.altroot(), *options, self.name, timeout=300)

    def cycle(self):
        self.export()
        self.reimport()

    # -- volumes --

    def volume(self, name, size='32M', block='16K', *options):
        self.zfs('create', '-V', size, '-b', block, *options, self.ds(name))
        return name

    def write(self, name, offset=0, length=4 * MIB, kind='mixed', step=256 * 1024, flags=0):
        """Writes length bytes: of 'random' ones, or 'mixed' with what compresses and with zeroes."""
        self.seed += 1
        rnd = random.Random('%s %s %d' % (self.name, name, self.seed))
        with Writer(self.t, self.ds(name)) as w:
            for at in range(offset, offset + length, step):
                n = min(step, offset + length - at)
                w.write(at, contents(rnd, n, kind), flags)
            w.flush()

    def scatter(self, name, count=200, span=16 * MIB, unit=4096, kind='mixed', flags=0, seed=None):
        """Writes units at places without order."""
        self.seed += 1
        rnd = random.Random('%s %s %s' % (self.name, name, seed or self.seed))
        with Writer(self.t, self.ds(name)) as w:
            for _ in range(count):
                w.write(rnd.randrange(span // unit) * unit, contents(rnd, unit, kind), flags)
            w.flush()

    def punch(self, name, offset, length, trim=True):
        with Writer(self.t, self.ds(name)) as w:
            (w.trim if trim else w.zero)(offset, length)
            w.flush()

    def sum(self, name):
        """sha256 of a volume or a volume's snapshot, as NBD reads it."""
        with Writer(self.t, self.ds(name)) as w:
            h = hashlib.sha256()
            for at in range(0, w.size, MIB):
                h.update(w.get(at, min(MIB, w.size - at)))
            return h.hexdigest()

    def volumes(self, snapshots=True):
        kinds = 'volume,snapshot' if snapshots else 'volume'
        names = self.zfs('list', '-H', '-r', '-o', 'name', '-t', kinds, self.name).lines()
        volumes = self.zfs('list', '-H', '-r', '-o', 'name', '-t', 'volume', self.name).lines()
        return [n[len(self.name) + 1:] for n in names if n.split('@')[0] in volumes]

    def remember(self):
        """Keeps the sums of all volumes and their snapshots."""
        self.sums = {self.ds(v): self.sum(v) for v in self.volumes()}

    def compare(self):
        """Everything remembered is there still."""
        for name, want in self.sums.items():
            eq(self.sum(name[len(self.name) + 1:]), want, 'contents of', name)

    # -- what other software says --

    def verify(self, deep=True):
        """The exported pool is whole for our zdb and for those of OpenZFS that know its features."""
        whole(self.t, [self.t.program('tarn'), 'zdb'], self.folder, self.name)
        if self.old and writelib.openzfs_zdb():
            theirs = [os.path.join(writelib.openzfs_zdb(), 'zdb')]
            whole(self.t, theirs, self.folder, self.name)
            if deep:
                readable(self.t, theirs, self.folder, self.name)
        if ZTOOLS:
            whole(self.t, [ZTOOLS, 'zdb'], self.folder, self.name)


def contents(rnd, n, kind):
    if kind == 'random':
        return rnd.randbytes(n)
    out = b''
    while len(out) < n:
        piece = min(rnd.choice((512, 4096, 16384, 65536)), n - len(out))
        which = rnd.randrange(4)
        if which == 0:
            out += bytes(piece)
        elif which == 1:
            out += rnd.randbytes(piece)
        else:
            out += (rnd.randbytes(32) * (piece // 32 + 1))[:piece]
    return out


# What zdb says when something is wrong, in -bcc and in -dddd.
COMPLAINTS = ('leaked', 'error', 'mismatch', 'ASSERT', 'WARNING', 'failed', 'bad ', 'inconsistent', 'not found', 'unable',
              'corrupt', 'double', 'dangling', 'cannot', 'missing')


def whole(t, zdb, folder, pool):
    r = t.run(*zdb, '-e', '-p', folder, '-bcc', pool, code=None, timeout=900)
    text = '\n'.join(part for line in (r.out + r.err).split('\n') for part in line.split('\r') if 'loading' not in part and 'nothing leaked' not in part)
    check(r.code == 0 and 'No leaks' in text, ' '.join(zdb), r.code, text[-4000:])
    for word in COMPLAINTS:
        check(word not in text, ' '.join(zdb), 'says', repr(word), text[-4000:])


def readable(t, zdb, folder, pool):
    """Every object can be read. zdb itself does not know where lists of permissions are named, and calls them leaked."""
    r = t.run(*zdb, '-e', '-p', folder, '-dddd', pool, code=None, timeout=900)
    leaked = [line for line in r.out.split('\n') if 'leaked' in line]
    check(all('(DSL permissions)' in line for line in leaked), ' '.join(leaked))
    check(r.code == (2 if leaked else 0), ' '.join(zdb), '-dddd', r.code, r.err[-2000:])
    for line in r.err.split('\n'):
        check(not any(w in line for w in COMPLAINTS) or line in leaked, line)
