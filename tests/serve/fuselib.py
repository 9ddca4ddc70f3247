"""What the tests of mounted file systems share: comparing what programs see below a directory with a manifest."""

import base64
import ctypes
import errno
import hashlib
import os
import stat
import subprocess

from tarnlib import Failure, Skip

TYPES = {stat.S_IFREG: 'file', stat.S_IFDIR: 'dir', stat.S_IFLNK: 'symlink', stat.S_IFCHR: 'char',
         stat.S_IFBLK: 'block', stat.S_IFIFO: 'fifo', stat.S_IFSOCK: 'socket'}
CHUNK = 1 << 20
OBJECT_MASK = (1 << 48) - 1


def need_fuse():
    """Skips where file systems cannot be mounted for others."""
    if os.geteuid() != 0:
        raise Skip('mounting for everybody needs root')
    if not os.access('/dev/fuse', os.R_OK | os.W_OK):
        raise Skip('there is no /dev/fuse')


def mounted(t):
    """{data set: directory} of the test's daemon."""
    return {row[0]: row[1] for row in (line.split(None, 1) for line in t.zfs('mount').lines())}


def manifest_bytes(value):
    return base64.b64decode(value['b64']) if isinstance(value, dict) else value.encode('utf-8', 'surrogateescape')


def file_extents(fd, size):
    at, found = 0, []
    while at < size:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as e:
            if e.errno != errno.ENXIO:
                raise
            break
        end = os.lseek(fd, at, os.SEEK_HOLE)
        found.append([at, end])
        at = end
    return found


def sha256_range(fd, digest, begin, end):
    while begin < end:
        data = os.pread(fd, min(CHUNK, end - begin), begin)
        if not data:
            raise Failure('end of file at %d, not %d' % (begin, end))
        digest.update(data)
        begin += len(data)


def sha256_file(path):
    digest = hashlib.sha256()
    with open(path, 'rb', buffering=0) as f:
        while chunk := f.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class Comparison:
    """One file system or snapshot below `top` against its part of the manifest."""

    def __init__(self, top, files, snapshot=False):
        self.top, self.snapshot = os.fsencode(top), snapshot
        self.want = {manifest_bytes(f['path']): f for f in files}
        self.differences = []
        self.count = 0

    def differs(self, path, what, got, want):
        self.differences.append('%s: %s: %s is %r, not %r' % (self.top.decode(), path, what, got, want))

    def same(self, path, what, got, want):
        if got != want:
            self.differs(path, what, got, want)

    def run(self):
        for path, want in self.want.items():
            try:
                self.node(path, want)
            except (OSError, Failure) as e:
                self.differs(path, 'reading', e, 'possible')
            self.count += 1
        return self.differences

    def node(self, path, want):
        full = os.path.join(self.top, path)
        st = os.lstat(full)
        kind = TYPES.get(stat.S_IFMT(st.st_mode), '?')
        self.same(path, 'type', kind, want['type'])
        self.same(path, 'mode', '%04o' % stat.S_IMODE(st.st_mode), want['mode'])
        for name, got in (('uid', st.st_uid), ('gid', st.st_gid), ('size', st.st_size), ('nlink', st.st_nlink),
                          ('mtime_ns', st.st_mtime_ns), ('ctime_ns', st.st_ctime_ns), ('atime_ns', st.st_atime_ns),
                          ('ino', st.st_ino & OBJECT_MASK if self.snapshot else st.st_ino)):
            self.same(path, name, got, want[name])
        if 'rdev' in want:
            self.same(path, 'rdev', [os.major(st.st_rdev), os.minor(st.st_rdev)], want['rdev'])
        if kind == 'symlink':
            self.same(path, 'target', os.readlink(full), manifest_bytes(want['target']))
        if kind == 'file':
            self.data(path, full, st, want)
        if kind == 'dir':
            self.directory(path, full, want)
        self.xattrs(path, full, want)
        if 'acl' in want:
            self.acl(path, full, want)

    def data(self, path, full, st, want):
        fd = os.open(full, os.O_RDONLY)
        try:
            digest = hashlib.sha256()
            extents = file_extents(fd, st.st_size)
            self.same(path, 'extents', extents, want.get('extents', [[0, st.st_size]] if st.st_size else []))
            if 'sha256_of_extents' in want:
                for begin, end in extents:
                    sha256_range(fd, digest, begin, end)
                self.same(path, 'sha256_of_extents', digest.hexdigest(), want['sha256_of_extents'])
            elif 'sha256' in want:
                sha256_range(fd, digest, 0, st.st_size)
                self.same(path, 'sha256', digest.hexdigest(), want['sha256'])
            self.same(path, 'bytes behind the end', os.pread(fd, 10, st.st_size), b'')
        finally:
            os.close(fd)

    def directory(self, path, full, want):
        names = os.listdir(full)
        self.same(path, 'names twice', len(names) - len(set(names)), 0)
        if isinstance(want['entries'], dict):
            self.crowd(path, full, sorted(names), want['entries'])
            return
        self.same(path, 'entries', len(names), want['entries'])
        prefix = b'' if path == b'.' else path + b'/'
        inside = {p[len(prefix):] for p in self.want if p != b'.' and p.startswith(prefix)}
        self.same(path, 'names', sorted(names), sorted(p for p in inside if b'/' not in p))

    def crowd(self, path, full, names, want):
        """Folders too large for the manifest: digests of the names and of a line for each entry."""
        self.same(path, 'count', len(names), want['count'])
        self.same(path, 'names_sha256', hashlib.sha256(b''.join(n + b'\n' for n in names)).hexdigest(),
                  want['names_sha256'])
        digest = hashlib.sha256()
        for name in names:
            one = os.path.join(full, name)
            st = os.lstat(one)
            kind = TYPES[stat.S_IFMT(st.st_mode)]
            last = b''
            if kind == 'symlink':
                last = os.readlink(one)
            elif kind == 'file':
                last = sha256_file(one).encode()
            digest.update(b'\0'.join([name, kind.encode(), b'%04o' % stat.S_IMODE(st.st_mode), b'%d' % st.st_size,
                                      last]) + b'\n')
        self.same(path, 'lines_sha256', digest.hexdigest(), want['lines_sha256'])

    def xattrs(self, path, full, want):
        wanted = want.get('xattrs', {})
        names = os.listxattr(full, follow_symlinks=False)
        self.same(path, 'xattrs', sorted(names), sorted(wanted))
        for name in names:
            value = os.getxattr(full, name, follow_symlinks=False)
            expected = wanted.get(name)
            if isinstance(expected, dict) and 'sha256' in expected:
                self.same(path, name, [len(value), hashlib.sha256(value).hexdigest()],
                          [expected['len'], expected['sha256']])
            elif expected is not None:
                self.same(path, name, value, manifest_bytes(expected))

    def acl(self, path, full, want):
        r = subprocess.run(['getfacl', '-n', '-p', '-c', '-E', full], stdout=subprocess.PIPE, env={'LC_ALL': 'C.UTF-8'},
                           check=False)
        lines = [line for line in r.stdout.decode().splitlines() if line]
        if not any(line.startswith('user:') for line in want['acl']):  # defaults alone
            lines = [line for line in lines if line.startswith('default:')]
        self.same(path, 'acl', sorted(lines), sorted(want['acl']))


class Dirent(ctypes.Structure):
    _fields_ = [('ino', ctypes.c_uint64), ('off', ctypes.c_int64), ('reclen', ctypes.c_uint16),
                ('type', ctypes.c_uint8)]


_libc = ctypes.CDLL(None, use_errno=True)


def getdents(fd, size):
    """[(name, cookie of the next, inode, type)] of one system call with a buffer of `size` bytes."""
    buf = ctypes.create_string_buffer(size)
    n = _libc.syscall(217, fd, buf, size)
    if n < 0:
        raise OSError(ctypes.get_errno(), 'getdents64')
    found, at = [], 0
    while at < n:
        d = Dirent.from_buffer(buf, at)
        name = ctypes.string_at(ctypes.addressof(buf) + at + 19)
        found.append((name, d.off, d.ino, d.type))
        at += d.reclen
    return found
