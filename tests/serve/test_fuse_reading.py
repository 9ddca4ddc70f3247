"""Programs that read mounted file systems in every way they have."""

import concurrent.futures
import errno
import mmap
import os
import signal

import fuselib
import tarnlib
from tarnlib import Failure, check, eq, wait_for


def mount(t, pool, fs=None):
    fuselib.need_fuse()
    name = t.import_pool(pool)
    top = os.path.join(t.dir, 'fs')
    os.mkdir(top)
    t.tarn('mount', fs or name, top)
    return top


def fails(number, function, *args, **kw):
    try:
        function(*args, **kw)
    except OSError as e:
        eq(e.errno, number, function.__name__, *args)
        return
    raise Failure('%s %r succeeds' % (function.__name__, args))


def test_directory_cookies_are_stable(t):
    top = mount(t, 'big-directory')
    fd = os.open(os.path.join(top, 'some'), os.O_RDONLY | os.O_DIRECTORY)
    entries = []
    while part := fuselib.getdents(fd, 600):
        entries += part
    eq(len(entries), 702)
    eq(len({e[0] for e in entries}), 702)
    for i in range(0, 700, 37):
        os.lseek(fd, entries[i][1], os.SEEK_SET)
        eq(fuselib.getdents(fd, 600)[0], entries[i + 1])
    os.lseek(fd, 0, os.SEEK_SET)
    again = fuselib.getdents(fd, 600)
    eq(again, entries[:len(again)])
    os.close(fd)


def test_memory_does_not_grow_with_lookups(t):
    top = mount(t, 'big-directory')
    many = os.path.join(top, 'many')
    names = os.listdir(many)
    eq(len(names), 50000)
    for name in names:
        os.lstat(os.path.join(many, name))
    once = t.daemon_memory()
    for _ in range(2):
        with open('/proc/sys/vm/drop_caches', 'w') as f:
            f.write('2')
        for name in names:
            os.lstat(os.path.join(many, name))
    more = t.daemon_memory() - once
    check(more < 32 << 20, 'grew by', more)


def test_long_names(t):
    top = mount(t, 'v24-longname', 'lname/l')
    names = [n for _, _, files in os.walk(top) for n in files]
    eq(max(len(os.fsencode(n)) for n in names), 1023)
    fails(errno.ENAMETOOLONG, os.lstat, os.path.join(top, 'x' * 1024))
    fails(errno.ENOENT, os.lstat, os.path.join(top, 'x' * 1023))
    eq(os.statvfs(top).f_namemax, 1023)


def test_case_insensitive_lookups(t):
    top = mount(t, 'case-and-normalization', 'letters/formC-i')
    ino = os.stat(os.path.join(top, 'ReadMe')).st_ino
    for name in ('readme', 'README', 'rEADmE'):
        eq(os.stat(os.path.join(top, name)).st_ino, ino)
    eq(os.stat(os.path.join(top, 'DIR/sub/FILE')).st_ino, os.stat(os.path.join(top, 'Dir/SUB/File')).st_ino)
    eq(os.stat(os.path.join(top, 'cafe\u0301')).st_ino, os.stat(os.path.join(top, 'caf\u00e9')).st_ino)
    fails(errno.ENOENT, os.stat, os.path.join(top, 'readme.'))


def test_statfs(t):
    top = mount(t, 'single')
    s = os.statvfs(top)
    available, referenced = (int(v) for v in t.zfs('get', '-Hpo', 'value', 'available,referenced', 'tank').lines())
    eq((s.f_bavail * s.f_frsize, s.f_blocks * s.f_frsize), (available & ~511, (available + referenced) & ~511))
    check(s.f_flag & os.ST_RDONLY)


def test_memory_maps_and_direct_reads(t):
    top = mount(t, 'single')
    path = os.path.join(top, 'text.txt')
    with open(path, 'rb') as f:
        data = f.read()
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            eq(m[:], data)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    buf = mmap.mmap(-1, 1 << 20)
    eq(os.preadv(fd, [buf], 0), len(data))
    eq(buf[:len(data)], data)
    eq(os.preadv(fd, [buf], 4096), len(data) - 4096)
    eq(os.preadv(fd, [buf], 1 << 20), 0)
    os.close(fd)


def test_very_large_sparse_file(t):
    top = mount(t, 'single')
    fd = os.open(os.path.join(top, 'far'), os.O_RDONLY)
    size = os.fstat(fd).st_size
    eq(os.pread(fd, 1 << 20, 1 << 39), bytes(1 << 20))
    eq(len(os.pread(fd, 100, size - 10)), 10)
    eq(os.pread(fd, 100, size), b'')
    eq(os.pread(fd, 100, size + (1 << 40)), b'')
    eq(os.lseek(fd, 0, os.SEEK_DATA), 1100072091648)
    eq(os.lseek(fd, 0, os.SEEK_HOLE), 0)
    fails(errno.ENXIO, os.lseek, fd, size, os.SEEK_DATA)
    os.close(fd)


def test_nothing_can_be_written(t):
    top = mount(t, 'single')
    path = os.path.join(top, 'text.txt')
    fails(errno.EROFS, open, path, 'r+b')
    fails(errno.EROFS, os.mkdir, os.path.join(top, 'new'))
    fails(errno.EROFS, os.unlink, path)
    fails(errno.EROFS, os.chmod, path, 0o600)
    fails(errno.EROFS, os.utime, path, (0, 0))
    fails(errno.EROFS, os.setxattr, path, 'user.new', b'')
    fails(errno.EROFS, os.rename, path, path + '2')


def test_parallel_readers(t):
    top = mount(t, 'single')
    paths = [os.path.join(d, n) for d, _, files in os.walk(top) for n in files
             if os.path.isfile(os.path.join(d, n)) and n != 'far' and not os.path.islink(os.path.join(d, n))]
    paths = [p for p in paths if os.path.getsize(p) < 1 << 26]
    want = [fuselib.sha256_file(p) for p in paths]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            with open('/proc/sys/vm/drop_caches', 'w') as f:
                f.write('3')
            eq(list(pool.map(fuselib.sha256_file, paths)), want)


def test_killed_readers_leave_nothing_behind(t):
    top = mount(t, 'single')
    for _ in range(5):
        readers = [t.start('sh', '-c', 'while :; do cat %s/far | head -c 200000000 >/dev/null; done' % top,
                           start_new_session=True) for _ in range(3)]
        wait_for(lambda: all(r.poll() is None for r in readers), 'readers')
        for r in readers:
            os.killpg(r.pid, signal.SIGKILL)
            r.wait()
    wait_for(lambda: t.zfs('unmount', top, code=None).code == 0, 'the last reader to let go')
    t.zpool('export', 'tank')


def test_damage_stays_in_its_file(t):
    """One block of one file is overwritten: reading it fails with EIO, all else is as before."""
    fuselib.need_fuse()
    top = mount(t, 'single')
    with open(os.path.join(top, 'text.txt'), 'rb') as f:
        part = f.read()[70000:70000 + 512]
    t.zpool('export', 'tank')
    folder = t.copy_pool('single')
    image = os.path.join(folder, 'disk0.img')
    with open(image, 'r+b') as f:
        m = mmap.mmap(f.fileno(), 0)
        at = m.find(part)
        check(at > 0, 'the data are not in the image')
        while at >= 0:
            m[at:at + 512] = bytes(512)
            at = m.find(part)
        m.close()
    t.import_pool('single', folder=folder)
    t.tarn('mount', 'tank', top)
    damaged = 0
    for d, _, files in os.walk(top):
        for name in files:
            path = os.path.join(d, name)
            if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 1 << 26:
                try:
                    fuselib.sha256_file(path)
                except OSError as e:
                    eq((name, e.errno), ('text.txt', errno.EIO))
                    damaged += 1
    eq(damaged, 1)
    eq(os.stat(os.path.join(top, 'text.txt')).st_size, 147003)


tarnlib.main(globals())
