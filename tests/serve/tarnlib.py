"""What the tests of the suite `serve` share: golden pools unpacked into a folder of their own, a daemon of their own,
commands run as a user runs them.

A test is a file test_*.py whose functions named test_* run in the order in which they stand:

    import tarnlib
    from tarnlib import check, eq

    def test_list(t):
        t.import_pool('mirror')
        eq(t.zpool('list', '-H', '-o', 'name').out, 'mirror\n')

    tarnlib.main(globals())

Each function gets a fresh `Tarn` (run directory, daemon, work folder), stopped and removed afterwards. The programs are
those of $TARN_BUILD, the golden pools those of $TARN_POOLS or ../shared/pools beside the checkout; without pools a test
ends with 77, skipped. Images are unpacked once for each file and copied only for those who ask to write to them.
"""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get('TARN_BUILD', os.path.join(TOP, 'build'))
POOLS = os.environ.get('TARN_POOLS') or os.path.join(TOP, '..', 'shared', 'pools')
TIMEOUT = 60 * float(os.environ.get('TARN_TEST_PATIENCE', '1'))
SKIP = 77
SANITIZER = re.compile('(Address|Leak|Thread)Sanitizer:|: runtime error: ')  # begins a report


class Skip(Exception):
    """Raised to skip a test, with the reason."""


class Failure(Exception):
    """What was expected and did not happen."""


def check(condition, *words):
    if not condition:
        raise Failure(' '.join(str(w) for w in words) or 'condition does not hold')


def eq(got, want, *words):
    if got != want:
        raise Failure('%s\n   got: %r\n  want: %r' % (' '.join(str(w) for w in words), got, want))


def contains(text, part, *words):
    if part not in text:
        raise Failure('%s\n   got: %r\n  without: %r' % (' '.join(str(w) for w in words), text, part))


def wait_for(condition, what, timeout=10):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise Failure('waited in vain for ' + what)
        time.sleep(0.02)


class Result:
    """A command's end: code, out and err as text (bytes that are no UTF-8 survive as surrogates)."""

    def __init__(self, argv, code, out, err):
        self.argv, self.code = argv, code
        self.out, self.err = (b.decode('utf-8', 'surrogateescape') for b in (out, err))

    def json(self):
        return json.loads(self.out)

    def lines(self):
        return self.out.splitlines()

    def rows(self):
        """Lines of -H output, split at tabs."""
        return [line.split('\t') for line in self.lines()]

    def __str__(self):
        return '%s -> %d\n%s%s' % (' '.join(self.argv), self.code, self.out, self.err)


# ---- golden pools ----

_unpacked = None  # temporary folder of this process


def pools_folder():
    if not os.path.isdir(POOLS):
        raise Skip('there is no %s ($TARN_POOLS names the folder of the golden pools)' % POOLS)
    return POOLS


def manifest(pool):
    path = os.path.join(pools_folder(), pool, 'manifest.json')
    if not os.path.exists(path):
        raise Skip('there is no ' + path)
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def golden(pool):
    """Folder with the pool's unpacked images (disk0.img ...), shared by the tests of this file and not writable."""
    global _unpacked
    source = os.path.join(pools_folder(), pool)
    if not os.path.isdir(source):
        raise Skip('there is no ' + source)
    if not _unpacked:
        _unpacked = tempfile.mkdtemp(prefix='tarn-pools-')
    target = os.path.join(_unpacked, pool)
    if not os.path.isdir(target):
        os.mkdir(target)
        for name in sorted(os.listdir(source)):
            if name.endswith('.img.zst'):
                image = os.path.join(target, name[:-len('.zst')])
                subprocess.run(['zstd', '-dqf', '--sparse', '--long=27', os.path.join(source, name), '-o', image],
                               check=True)
                os.chmod(image, 0o444)
    return target


# ---- a daemon of one's own ----

class Tarn:
    """A run directory, the daemon that is started in it by the first command, and a work folder (`dir`)."""

    def __init__(self):
        # Socket paths have room for 107 bytes: the run directory's name is short wherever TMPDIR points.
        self.rundir = tempfile.mkdtemp(prefix='tarn-', dir='/tmp')
        self.dir = tempfile.mkdtemp(prefix='tarn-work-')
        self.env = dict(os.environ, TARN_RUNDIR=self.rundir, TARN_STATEDIR=os.path.join(self.rundir, 'state'),
                        LC_ALL='C.UTF-8', TZ='UTC')
        # What the address sanitizer keeps back of freed memory is no growth of the daemon. What is set already wins.
        self.env['ASAN_OPTIONS'] = 'quarantine_size_mb=8:' + os.environ.get('ASAN_OPTIONS', '')
        self.started = []  # Popen of what must not outlive the test

    # -- commands --

    def program(self, name):
        return os.path.join(BUILD, name)

    def start(self, *argv, **kw):
        """Popen, with pipes, killed at the end of the test if it still runs."""
        argv = [str(a) for a in argv]
        kw.setdefault('stdin', subprocess.DEVNULL)
        kw.setdefault('stdout', subprocess.PIPE)
        kw.setdefault('stderr', subprocess.PIPE)
        kw.setdefault('env', self.env)
        p = subprocess.Popen(argv, **kw)
        self.started.append(p)
        return p

    def run(self, *argv, code=0, input=None, timeout=TIMEOUT, **kw):
        """Runs any program; code: what it must end with (None: anything)."""
        argv = [str(a) for a in argv]
        if input is None:
            kw.setdefault('stdin', subprocess.DEVNULL)
        elif isinstance(input, str):
            input = input.encode()
        kw.setdefault('env', self.env)
        try:
            p = subprocess.run(argv, input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **kw)
        except subprocess.TimeoutExpired:
            raise Failure('%s: no end after %g s' % (' '.join(argv), timeout))
        r = Result(argv, p.returncode, p.stdout, p.stderr)
        check(not SANITIZER.search(r.err), r)
        if code is not None and r.code != code:
            raise Failure('ends with %d instead of %d: %s' % (r.code, code, r))
        return r

    def tarn(self, *argv, **kw):
        return self.run(self.program('tarn'), *argv, **kw)

    def zpool(self, *argv, **kw):
        return self.tarn('zpool', *argv, **kw)

    def zfs(self, *argv, **kw):
        return self.tarn('zfs', *argv, **kw)

    def on_terminal(self, *argv, answers=(), interrupt_at=None, timeout=TIMEOUT):
        """tarn on a terminal of its own: each prompt ("Enter ...': ") is answered in turn, Ctrl-C typed as soon as the text
        interrupt_at is seen. Exit code, and all that was shown."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(self.program('tarn'), ['tarn', *map(str, argv)], self.env)
        shown, answered, end = b'', 0, time.monotonic() + timeout
        while True:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(fd)
                raise Failure('no end: %r' % shown[-2000:])
            if not select.select([fd], [], [], 1)[0]:
                continue
            try:
                part = os.read(fd, 4096)
            except OSError:  # the other end is closed
                break
            shown += part
            if answered < min(len(answers), len(re.findall(b"Enter [^\n]*': ", shown))):
                os.write(fd, answers[answered].encode() + b'\n')
                answered += 1
            if interrupt_at and interrupt_at.encode() in shown:
                os.write(fd, b'\x03')
                interrupt_at = None
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(fd)
        return code, shown.decode('utf-8', 'surrogateescape')

    # -- pools --

    def copy_pool(self, pool, name=None):
        """Writable copies of a golden pool's images in the work folder; the folder."""
        target = os.path.join(self.dir, name or pool)
        os.makedirs(target, exist_ok=True)
        source = golden(pool)
        for image in os.listdir(source):
            subprocess.run(['cp', '--sparse=always', '--no-preserve=mode', os.path.join(source, image), target],
                           check=True)
        return target

    def pool_name(self, pool):
        """What the golden pool calls itself."""
        return manifest(pool)['pool']['name']

    def import_pool(self, pool, *options, folder=None, mount=False, code=0):
        """Imports a golden pool read-only, -N unless mount; its name. Where it is mounted is t.altroot()."""
        name = self.pool_name(pool)
        more = ['-R', self.altroot()] if mount else ['-N']
        self.zpool('import', '-f', '-o', 'readonly=on', '-d', folder or golden(pool), *more, *options, name, code=code)
        return name

    def key_file(self, pool, root):
        """File with the key of an encryption root of a golden pool, as keylocation wants it: its path."""
        key = manifest(pool)['keys'][root]
        path = os.path.join(self.dir, 'key-' + root.replace('/', '_'))
        raw = bytes.fromhex(key['value']) if key['format'] == 'raw' else key['value'].encode() + b'\n'
        with open(path, 'wb') as f:
            f.write(raw)
        return path

    def load_keys(self, pool):
        """Loads every key of a golden pool."""
        m = manifest(pool)
        for root in m.get('keys') or {}:
            if root in m['datasets']:  # there are keys of what was received elsewhere, too
                self.zfs('load-key', '-L', 'file://' + self.key_file(pool, root), root)

    def altroot(self):
        path = os.path.join(self.dir, 'mnt')
        os.makedirs(path, exist_ok=True)
        return path

    # -- the daemon --

    def daemon_pid(self):
        """The daemon's process, None when there is none."""
        try:
            with open(os.path.join(self.rundir, 'tarnd.pid')) as f:
                pid = int(f.read() or '0')
        except (OSError, ValueError):
            return None
        return pid if pid and os.path.exists('/proc/%d' % pid) else None

    def daemon_log(self):
        with contextlib.suppress(OSError), open(os.path.join(self.rundir, 'tarnd.log'), errors='replace') as f:
            return f.read()
        return ''

    def daemon_memory(self):
        """Resident bytes of the daemon, now."""
        with open('/proc/%d/statm' % self.daemon_pid()) as f:
            return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')

    def stop(self):
        self.tarn('stop', '-f')

    def mounts(self):
        """Directories below the work and run folders that are mounted, deepest last."""
        found = []
        with open('/proc/self/mountinfo', encoding='utf-8', errors='surrogateescape') as f:
            for line in f:
                where = line.split()[4].encode('utf-8', 'surrogateescape').decode('unicode_escape')
                if where.startswith((self.dir + '/', self.rundir + '/')):
                    found.append(where)
        return found

    def end(self):
        """Ends and removes everything; what sanitizers wrote of the daemon, if anything."""
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.communicate()
        pid = self.daemon_pid()
        if pid:
            with contextlib.suppress(Exception):
                self.run(self.program('tarn'), 'stop', '-f', code=None, timeout=15)
            if os.path.exists('/proc/%d' % pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for where in reversed(self.mounts()):
            subprocess.run(['umount', '-l', where], stderr=subprocess.DEVNULL)
        log = self.daemon_log()
        shutil.rmtree(self.rundir, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)
        report = SANITIZER.search(log)
        return log[max(report.start() - 100, 0):] if report else ''


# ---- running ----

def _run_one(name, function):
    t = Tarn()
    begin = time.monotonic()
    try:
        function(t)
        word = 'ok'
    except Skip as e:
        word = 'skipped: %s' % e
    except Exception as e:
        word = 'FAILED'
        if isinstance(e, Failure):
            frame = [f for f in traceback.extract_tb(e.__traceback__) if f.filename != __file__][-1]
            print('%s:%d: %s' % (os.path.basename(frame.filename), frame.lineno, e))
        else:
            traceback.print_exc(file=sys.stdout)
        log = t.daemon_log()
        if log:
            print('daemon log:\n' + log[-4000:])
    finally:
        report = t.end()
    if report:
        word = 'FAILED'
        print('sanitizer report:\n' + report[:8000])
    print('%-40s %s (%.1f s)' % (name, word, time.monotonic() - begin), flush=True)
    return word


def main(names):
    """Runs the functions test_*, or those named on the command line."""
    tests = [(n, f) for n, f in names.items() if n.startswith('test_') and callable(f)]
    if sys.argv[1:]:
        tests = [(n, f) for n, f in tests if n in sys.argv[1:]]
    try:
        words = [_run_one(n, f) for n, f in tests]
    finally:
        if _unpacked:
            subprocess.run(['rm', '-rf', _unpacked])
    if 'FAILED' in words:
        sys.exit(1)
    sys.exit(SKIP if words and all(w.startswith('skipped') for w in words) else 0)
