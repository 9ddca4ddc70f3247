#!/usr/bin/env python3
"""tarn extract against golden pools: everything comes out as the manifest says, and what cannot is told."""
import base64
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

TARN = sys.argv.pop(1)
POOLS = os.environ.get('TARN_POOLS') or os.environ.get('TARN_POOLS_DEFAULT', '')
ROOT = os.geteuid() == 0
TYPES = {'file': stat.S_ISREG, 'dir': stat.S_ISDIR, 'symlink': stat.S_ISLNK, 'fifo': stat.S_ISFIFO,
         'socket': stat.S_ISSOCK, 'char': stat.S_ISCHR, 'block': stat.S_ISBLK}
EXT4_MAX = 1 << 44  # files longer than this cannot be made on common file systems

if not os.path.isdir(POOLS):
    print(f"skipped: there is no folder of golden pools '{POOLS}' ($TARN_POOLS)")
    sys.exit(77)
if not shutil.which('zstd'):
    print('skipped: zstd is not installed')
    sys.exit(77)

WORK = tempfile.mkdtemp(prefix='tarn-extract-')


def content(path):
    with open(path, 'rb') as f:
        return f.read()


def text_or_bytes(value):
    return base64.b64decode(value['b64']) if isinstance(value, dict) else os.fsencode(value)


def tarn(*args, **kw):
    return subprocess.run([TARN, 'extract', *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=500, **kw)


class Pool:
    made = {}

    def __init__(self, name):
        self.dir = os.path.join(WORK, 'pool-' + name)
        self.manifest = json.loads(content(os.path.join(POOLS, name, 'manifest.json')))
        self.name = self.manifest['pool']['name']
        os.mkdir(self.dir)
        for image in self.manifest['images']:
            to = os.path.join(self.dir, image['file'].split('.')[0] + '.img')
            subprocess.run(['zstd', '-dq', '--sparse', '--long=27', os.path.join(POOLS, name, image['file']), '-o', to],
                           check=True)

    @classmethod
    def get(cls, name):
        if name not in cls.made:
            cls.made[name] = Pool(name)
        return cls.made[name]


def sha256(path, ranges=None):
    h = hashlib.sha256()
    with open(path, 'rb') as f:
        for start, end in ranges or [(0, os.fstat(f.fileno()).st_size)]:
            f.seek(start)
            while start < end:
                piece = f.read(min(1 << 20, end - start))
                if not piece:
                    break
                h.update(piece)
                start += len(piece)
    return h.hexdigest()


def xattr_matches(path, name, want):
    got = os.getxattr(path, name, follow_symlinks=False)
    if isinstance(want, str):
        return got == os.fsencode(want)
    if len(got) != want['len']:
        return False
    if 'b64' in want:
        return got == base64.b64decode(want['b64'])
    return hashlib.sha256(got).hexdigest() == want['sha256']


class Extract(unittest.TestCase):
    def setUp(self):
        self.out = tempfile.mkdtemp(dir=WORK, prefix='out-')
        self.addCleanup(shutil.rmtree, self.out, True)

    def run_ok(self, *args, codes=(0,)):
        r = tarn(*args)
        self.assertIn(r.returncode, codes, r.stderr.decode(errors='replace')[-3000:])
        return r

    # --- comparing ---

    def node_check(self, path, want, told, inodes):
        st = os.lstat(path)
        self.assertTrue(TYPES[want['type']](st.st_mode), path)
        if want['type'] == 'symlink':
            self.assertEqual(os.readlink(path), text_or_bytes(want['target']), path)
        else:
            self.assertEqual('%04o' % (st.st_mode & 0o7777), want['mode'], path)
        if ROOT:
            self.assertEqual((st.st_uid, st.st_gid), (want['uid'], want['gid']), path)
        self.assertEqual(st.st_mtime_ns, want['mtime_ns'], path)
        if 'rdev' in want:
            self.assertEqual([os.major(st.st_rdev), os.minor(st.st_rdev)], want['rdev'], path)
        if want['type'] != 'dir':
            self.assertEqual(inodes.setdefault(want['ino'], st.st_ino), st.st_ino, path)
        if want['type'] == 'file':
            self.file_check(path, st, want)
        for name, value in want.get('xattrs', {}).items():
            if not told:
                self.assertTrue(xattr_matches(path, name, value), f'{path}: {name}')

    def file_check(self, path, st, want):
        self.assertEqual(st.st_size, want['size'], path)
        if 'extents' in want:
            data = sum(end - start for start, end in want['extents'])
            self.assertLessEqual(st.st_blocks * 512, data + 65536 * (1 + len(want['extents'])), path)
        if 'sha256_of_extents' in want:
            self.assertEqual(sha256(path, want['extents']), want['sha256_of_extents'], path)
        elif 'sha256' in want:
            self.assertEqual(sha256(path), want['sha256'], path)

    def tree_check(self, top, fs, children, stderr):
        """Everything of the manifest's list is there, and nothing else."""
        refused = stderr.count(b'cannot be stored') + stderr.count(b'cannot make a file of')
        inodes, listed, digests = {}, set(), []
        for want in fs['files']:
            rel = os.path.normpath(text_or_bytes(want['path']))
            path = os.path.join(os.fsencode(top), rel)
            listed.add(rel)
            if isinstance(want.get('entries'), dict):
                digests.append(rel)
            if rel in children or any(rel.startswith(c + b'/') for c in children):
                continue
            if want.get('size', 0) >= EXT4_MAX and want['type'] == 'file' and not os.path.exists(path):
                self.assertIn(b'cannot make a file of', stderr)
                continue
            shown = b':' + rel + b': '
            self.node_check(path, want, refused and shown in stderr, inodes)
        for folder, dirs, files in os.walk(os.fsencode(top)):
            rel = os.path.normpath(os.path.relpath(folder, os.fsencode(top)))
            for name in dirs + files:
                sub = os.path.normpath(os.path.join(rel, name))
                below = any(sub == c or sub.startswith(c + b'/') for c in children)
                self.assertTrue(below or sub in listed or any(
                    d == b'.' or sub.startswith(d + b'/') for d in digests), sub)

    def pool_check(self, name, *options):
        pool = Pool.get(name)
        out = os.path.join(self.out, 'all')
        r = self.run_ok('-r', '-d', pool.dir, *options, pool.name, out, codes=(0, 1))
        heads = [f for f in pool.manifest['filesystems'] if '@' not in f]
        below = [d for d in pool.manifest['datasets'] if '@' not in d and '#' not in d]
        self.assertEqual(r.returncode, 1 if r.stderr and b'note:' not in r.stderr[:5] else 0, r.stderr[-2000:])
        for fs in heads:
            children = {os.fsencode(d[len(fs) + 1:]) for d in below if d.startswith(fs + '/')}
            self.tree_check(os.path.join(out, fs[len(pool.name):].lstrip('/')), pool.manifest['filesystems'][fs],
                            children, r.stderr)
        for volume, want in pool.manifest['volumes'].items():
            self.volume_check(os.path.join(out, volume[len(pool.name) + 1:]), want)
        return r

    def volume_check(self, path, want):
        self.assertEqual(os.stat(path).st_size, want['volsize'])
        if want.get('sha256'):
            self.assertEqual(sha256(path), want['sha256'], path)
        for probe in want['probes']:
            start = probe['offset']
            self.assertEqual(sha256(path, [(start, start + probe['length'])]), probe['sha256'], path)

    # --- whole pools ---

    def test_single_disk_pool(self):
        self.pool_check('single')

    def test_names_links_and_special_files(self):
        self.pool_check('names')

    def test_attributes_and_acls(self):
        self.pool_check('xattr-and-acl')

    def test_record_sizes(self):
        self.pool_check('recordsize')

    def test_raidz_without_one_disk(self):
        pool = Pool.get('raidz1')
        os.unlink(os.path.join(pool.dir, 'disk0.img'))
        r = tarn('-r', '-d', pool.dir, pool.name, os.path.join(self.out, 'x'))
        self.assertNotIn(b'lost', r.stderr)

    def test_snapshots(self):
        pool = Pool.get('snapshots-and-clones')
        snaps = [f for f in pool.manifest['filesystems'] if '@' in f][:6]
        self.assertTrue(snaps)
        for i, snap in enumerate(snaps):
            out = os.path.join(self.out, str(i))
            r = self.run_ok('-d', pool.dir, snap, out, codes=(0, 1))
            self.tree_check(out, pool.manifest['filesystems'][snap], set(), r.stderr)

    def test_encrypted_with_keys_from_files(self):
        pool = Pool.get('encryption')
        for n, (root, key) in enumerate(pool.manifest['keys'].items()):
            if root not in pool.manifest['filesystems']:
                continue
            path = os.path.join(self.out, f'key{n}')
            raw = bytes.fromhex(key['value']) if key['format'] == 'raw' else key['value'].encode() + b'\n'
            with open(path, 'wb') as f:
                f.write(raw)
            out = os.path.join(self.out, f'fs{n}')
            r = self.run_ok('-d', pool.dir, '-L', 'file://' + path, root, out, codes=(0, 1))
            below = {os.fsencode(d[len(root) + 1:]) for d in pool.manifest['datasets'] if d.startswith(root + '/')}
            self.tree_check(out, pool.manifest['filesystems'][root], below, r.stderr)

    def test_wrong_key_is_refused(self):
        pool = Pool.get('encryption')
        root = next(r for r, k in pool.manifest['keys'].items() if k['format'] == 'passphrase')
        path = os.path.join(self.out, 'key')
        with open(path, 'w') as f:
            f.write('not the passphrase\n')
        r = self.run_ok('-d', pool.dir, '-L', 'file://' + path, root, os.path.join(self.out, 'x'), codes=(1,))
        self.assertIn(b'key of', r.stderr)

    # --- single things ---

    def some_file(self, pool, smallest=20000):
        for fs, what in pool.manifest['filesystems'].items():
            for f in what['files']:
                if f['type'] == 'file' and isinstance(f['path'], str) and f['size'] >= smallest and f.get('sha256') \
                        and '\\' not in f['path'] and 'extents' not in f:
                    return fs, f

    def test_file_to_standard_output(self):
        pool = Pool.get('single')
        fs, f = self.some_file(pool)
        r = self.run_ok('-d', pool.dir, f"{fs}:{f['path']}", '-')
        self.assertEqual(hashlib.sha256(r.stdout).hexdigest(), f['sha256'])
        guid = pool.manifest['pool']['guid']
        r = self.run_ok('-d', pool.dir, f"{guid}{fs[len(pool.name):]}:{f['path']}", '-')
        self.assertEqual(hashlib.sha256(r.stdout).hexdigest(), f['sha256'])
        self.run_ok('-d', pool.dir, f"{fs}:{f['path']}", '/dev/null')
        r = self.run_ok('-d', pool.dir, fs, '-', codes=(1,))
        self.assertEqual(r.stdout, b'')

    def test_volume(self):
        pool = Pool.get('single')
        volume, want = next(iter(pool.manifest['volumes'].items()))
        out = os.path.join(self.out, 'volume')
        self.run_ok('-d', pool.dir, volume, out)
        self.volume_check(out, want)
        r = self.run_ok('-d', pool.dir, volume, '-')
        self.assertEqual(len(r.stdout), want['volsize'])
        self.assertEqual(hashlib.sha256(r.stdout).hexdigest(), sha256(out))

    def test_dry_run_lists_and_makes_nothing(self):
        pool = Pool.get('single')
        r = self.run_ok('-n', '-d', pool.dir, pool.name, os.path.join(self.out, 'x'))
        self.assertFalse(os.path.exists(os.path.join(self.out, 'x')))
        self.assertEqual(len(r.stdout.splitlines()), len(pool.manifest['filesystems'][pool.name]['files']) - sum(
            1 for d in pool.manifest['filesystems'][pool.name]['files']
            if any(os.fsencode(text_or_bytes(d['path'])).startswith(os.fsencode(c[len(pool.name) + 1:]) + b'/')
                   for c in pool.manifest['datasets'] if c.startswith(pool.name + '/'))))

    def test_several_sources_go_into_a_directory(self):
        pool = Pool.get('single')
        fs, f = self.some_file(pool)
        out = os.path.join(self.out, 'x')
        self.run_ok('-d', pool.dir, f"{fs}:{f['path']}", next(iter(pool.manifest['volumes'])), out)
        self.assertEqual(sha256(os.path.join(out, os.path.basename(f['path']))), f['sha256'])
        self.assertEqual(len(os.listdir(out)), 2)

    def test_names_longer_than_a_file_system_takes_are_shortened(self):
        p = Pool.get('v24-longname')
        r = self.run_ok('-r', '-d', p.dir, p.name, os.path.join(self.out, 'x'))
        self.assertIn(b'its name was shortened', r.stderr)
        want = sorted(f['sha256'] for name, fs in p.manifest['filesystems'].items() if '@' not in name
                      for f in fs['files'] if f['type'] == 'file' and 'sha256' in f)
        got = sorted(hashlib.sha256(content(os.path.join(d, n))).hexdigest()
                     for d, _, names in os.walk(os.path.join(self.out, 'x')) for n in names
                     if os.path.isfile(os.path.join(d, n)) and not os.path.islink(os.path.join(d, n)))
        self.assertEqual(got, want)

    def test_an_empty_directory_is_filled_a_full_one_refused(self):
        pool = Pool.get('single')
        out = os.path.join(self.out, 'x')
        os.mkdir(out)
        self.run_ok('-d', pool.dir, pool.name, out, codes=(0, 1))
        n = len(os.listdir(out))
        self.assertGreater(n, 1)
        r = self.run_ok('-d', pool.dir, pool.name, out, codes=(1,))
        self.assertIn(b'-f', r.stderr)
        self.run_ok('-f', '-d', pool.dir, pool.name, out, codes=(0, 1))
        self.assertEqual(len(os.listdir(out)), n)

    def test_missing_things_are_told(self):
        pool = Pool.get('single')
        for source in ('nosuchpool/x', pool.name + '/nosuchfs', pool.name + ':no/such/file'):
            r = self.run_ok('-d', pool.dir, source, os.path.join(self.out, 'x'), codes=(1,))
            self.assertTrue(r.stderr)

    # --- a destination that is not empty ---

    def test_existing_files_need_f(self):
        pool = Pool.get('single')
        fs, f = self.some_file(pool)
        out, victim = os.path.join(self.out, 'file'), os.path.join(self.out, 'victim')
        with open(victim, 'w') as v:
            v.write('mine')
        os.symlink(victim, out)
        source = f"{fs}:{f['path']}"
        self.run_ok('-d', pool.dir, source, out, codes=(1,))
        self.assertTrue(os.path.islink(out))
        self.run_ok('-f', '-d', pool.dir, source, out)
        self.assertFalse(os.path.islink(out))
        self.assertEqual(content(victim), b'mine')
        self.assertEqual(sha256(out), f['sha256'])

    def test_links_in_the_destination_are_not_followed(self):
        pool = Pool.get('names')
        tree, elsewhere = os.path.join(self.out, 'tree'), os.path.join(self.out, 'elsewhere')
        folder = next(f['path'] for f in pool.manifest['filesystems'][pool.name]['files']
                      if f['type'] == 'dir' and f['path'] != '.' and '/' not in f['path'])
        os.mkdir(tree)
        os.mkdir(elsewhere)
        os.symlink(elsewhere, os.path.join(tree, folder))
        r = self.run_ok('-d', pool.dir, pool.name, tree, codes=(1,))
        self.assertIn(b'-f', r.stderr)
        self.assertEqual(os.listdir(elsewhere), [])
        self.assertEqual(os.listdir(tree), [folder])
        self.run_ok('-f', '-d', pool.dir, pool.name, tree, codes=(0, 1))
        self.assertEqual(os.listdir(elsewhere), [])
        self.assertTrue(stat.S_ISDIR(os.lstat(os.path.join(tree, folder)).st_mode))

    # --- damage ---

    def damageable(self, pool, image):
        """A file of several records, a place in it, and the bytes there that the image has as they are."""
        for fs, what in pool.manifest['filesystems'].items():
            for f in what['files']:
                if f['type'] != 'file' or not isinstance(f['path'], str) or f['size'] < 20000 or 'extents' in f \
                        or '\\' in f['path']:
                    continue
                data = self.run_ok('-d', pool.dir, f"{fs}:{f['path']}", '-').stdout
                for place in range(5000, f['size'] - 300, 10000):
                    piece = data[place:place + 300]
                    if len(set(piece)) > 15 and piece in image:
                        return fs, f, data, place, piece
        self.fail('no file to damage')

    def test_damaged_blocks_are_named_and_the_rest_comes_out(self):
        pool = Pool.get('recordsize')
        image = content(os.path.join(pool.dir, 'disk0.img'))
        fs, f, data, place, piece = self.damageable(pool, image)
        bad = os.path.join(self.out, 'bad')
        os.mkdir(bad)
        with open(os.path.join(bad, 'disk0.img'), 'wb') as out:
            out.write(image.replace(piece, bytes([piece[0] ^ 0x10]) + piece[1:]))  # every copy
        to = os.path.join(self.out, 'x')
        r = self.run_ok('-d', bad, f"{fs}:{f['path']}", to, codes=(1,))
        self.assertIn(b'lost bytes', r.stderr)
        start, end = (int(x) for x in r.stderr.split(b'lost bytes ')[1].split(b':')[0].split(b'-'))
        self.assertTrue(start <= place <= end and end - start + 1 < f['size'], r.stderr)
        self.assertEqual(content(to), data[:start] + bytes(end + 1 - start) + data[end + 1:])
        self.assertEqual(os.stat(to).st_mtime_ns, f['mtime_ns'])
        r = self.run_ok('-d', bad, f"{fs}:{f['path']}", '-', codes=(1,))
        self.assertEqual(r.stdout, content(to))


if __name__ == '__main__':
    try:
        unittest.main()
    finally:
        shutil.rmtree(WORK, True)
