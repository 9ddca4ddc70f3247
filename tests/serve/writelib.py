"""What the tests that write share: pools on files of their own, OpenZFS's zdb over what was written, a client that
writes blocks which say what they are."""

import os
import struct
import subprocess

import tarnlib
import wire
from nbdlib import Client
from tarnlib import Skip, check, eq

MIB = 1 << 20
BLOCK = 4096


def files(t, n=1, size=256 * MIB, name='disk'):
    """New empty files in a folder of their own; their paths."""
    folder = os.path.join(t.dir, 'files')
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, '%s%d.img' % (name, i)) for i in range(n)]
    for path in paths:
        with open(path, 'wb') as f:
            f.truncate(size)
    return paths


def folder(t):
    return os.path.join(t.dir, 'files')


# What OpenZFS 2.1 knows, so that Debian's zdb opens the pool.
FEATURES = """allocation_classes async_destroy bookmark_v2 bookmark_written bookmarks device_rebuild device_removal edonr
    embedded_data empty_bpobj enabled_txg encryption extensible_dataset filesystem_limits hole_birth large_blocks large_dnode
    livelist log_spacemap lz4_compress obsolete_counts project_quota redacted_datasets redaction_bookmarks resilver_defer
    sha512 skein spacemap_histogram spacemap_v2 userobj_accounting zpool_checkpoint zstd_compress""".split()


def create(t, *options, n=1, size=256 * MIB, pool='tank', newest=False, mount=False):
    """A pool over n new files, mounted nowhere or below the test's own mount points; newest: with all features there are."""
    if not mount:
        options = ['-m', 'none', *options]
    old = [] if newest else ['-d', *('-ofeature@%s=enabled' % f for f in FEATURES)]
    t.zpool('create', '-R', t.altroot(), *old, *options, pool, *files(t, n, size))
    return pool


def reimport(t, pool='tank', *options):
    t.zpool('import', '-d', folder(t), '-R', t.altroot(), *options, pool)


_zdb = None


def openzfs_zdb():
    """Folder with zdb of OpenZFS, as Debian has it."""
    global _zdb
    if _zdb is None:
        p = subprocess.run([os.path.join(tarnlib.TOP, 'dev', 'fetch-zdb.sh')], stdout=subprocess.PIPE, text=True)
        _zdb = p.stdout.strip() if p.returncode == 0 else ''
    return _zdb


def verify_folder(t, where, pool, theirs=True):
    """An exported pool is whole: no wrong checksum, no leak, by our zdb and by OpenZFS's."""
    r = t.run(t.program('tarn'), 'zdb', '-e', '-p', where, '-bcc', pool, code=None, timeout=300)
    check(r.code == 0 and 'No leaks' in r.out, r)
    if theirs and openzfs_zdb():  # not of pools made with newest=True
        r = t.run(os.path.join(openzfs_zdb(), 'zdb'), '-e', '-p', where, '-bcc', pool, code=None, timeout=600)
        check(r.code == 0 and 'No leaks' in r.out, r)


def verify(t, pool='tank', theirs=True):
    verify_folder(t, folder(t), pool, theirs)


class Writer(Client):
    """A client that writes and flushes."""

    def __init__(self, t, export):
        super().__init__(t)
        self.size = self.go(export)

    def end(self, what):
        error, _ = self.simple()
        eq(error, 0, what)

    def write(self, offset, data, flags=0):
        self.send(wire.request(wire.WRITE, offset, len(data), flags=flags) + data)
        self.end('write at %d' % offset)

    def flush(self):
        self.send(wire.request(wire.FLUSH, 0, 0))
        self.end('flush')

    def trim(self, offset, length):
        self.send(wire.request(wire.TRIM, offset, length))
        self.end('trim')

    def zero(self, offset, length, flags=0):
        self.send(wire.request(wire.WRITE_ZEROES, offset, length, flags=flags))
        self.end('write zeroes')

    def get(self, offset, length):
        data, errors = self.read(offset, length)
        eq(errors, [], 'read at %d' % offset)
        return data


def stamp(block, sequence):
    """Contents of a block that nobody can mistake for another's, or for half of itself."""
    return struct.pack('<QQ', block, sequence) * (BLOCK // 16)


def read_stamp(data, block):
    """The sequence a block was written with, 0 for one never written; fails on anything else."""
    if data == bytes(BLOCK):
        return 0
    where, sequence = struct.unpack('<QQ', data[:16])
    check(where == block and data == stamp(block, sequence), 'block', block, 'holds something else:', data[:32].hex())
    return sequence


def need_openzfs():
    if not openzfs_zdb():
        raise Skip("there is no zdb of OpenZFS")
