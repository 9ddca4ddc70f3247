"""The control protocol by hand: what a program that is no tarn, or one of another version, gets for an answer."""

import contextlib
import os
import random
import socket
import struct
import subprocess
import threading
import time

import tarnlib
import wire
from tarnlib import Failure, Skip, check, contains, eq, wait_for


class Control:
    def __init__(self, t):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.connect(os.path.join(t.rundir, 'tarnd.sock'))
        self.s.settimeout(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def send(self, data):
        self.s.sendall(data)

    def take(self, n):
        out = b''
        while len(out) < n:
            piece = self.s.recv(n - len(out))
            if not piece:
                raise Failure('the daemon hung up')
            out += piece
        return out

    def frame(self):
        """(kind, id, pairs) of the next frame."""
        magic, version, kind, ident, length = struct.unpack('<4sHHII', self.take(16))
        eq((magic, version), (b'TARN', 1))
        return kind, ident, wire.nvlist_parse(self.take(length)) if length else {}

    def reply(self):
        """(id, pairs) of the next reply; items and progress before it are dropped."""
        while True:
            kind, ident, pairs = self.frame()
            if kind == wire.REPLY:
                return ident, pairs

    def ended(self):
        with contextlib.suppress(ConnectionResetError):
            return self.s.recv(1) == b''
        return True


def start(t):
    t.zpool('list')


def alive(t):
    with Control(t) as c:
        c.send(wire.command('daemon.info', 77))
        ident, pairs = c.reply()
        eq((ident, pairs['err']), (77, 0))


def test_requests_and_unknown_commands(t):
    start(t)
    with Control(t) as c:
        c.send(wire.command('daemon.info', 5))
        ident, pairs = c.reply()
        eq((ident, pairs['err'], pairs['result']['pid']), (5, 0, t.daemon_pid()))
        for name in ('no.such', '', 'daemon.info\x01', 'x' * 10000):
            c.send(wire.command(name, 6))
            ident, pairs = c.reply()
            check(ident == 6 and pairs['err'] < 0 and 'does not know' in pairs['text'], pairs)
        c.send(wire.frame(wire.REQUEST, 7))
        check(c.reply()[1]['err'] < 0)
        c.send(wire.frame(wire.REQUEST, 8, {'cmd': 3, 'args': 'x'}))
        check(c.reply()[1]['err'] < 0)
        c.send(wire.frame(wire.REQUEST, 9, {'cmd': 'pool.get', 'args': {'name': 5, 'vdev': True}}))
        check(c.reply()[1]['err'] < 0)


def test_other_versions_are_told_both(t):
    start(t)
    with Control(t) as c:
        c.send(wire.frame(wire.REQUEST, 1, {'cmd': 'daemon.info'}, version=9))
        _, pairs = c.reply()
        contains(pairs['text'], 'version 9')
        contains(pairs['text'], 'version 1')
        check(c.ended())
    alive(t)


def test_bad_frames_end_only_their_connection(t):
    start(t)
    good = wire.command('daemon.info')
    for bad in (wire.frame(wire.REQUEST, 1, length=(64 << 20) + 1), wire.frame(wire.REQUEST, 1, length=0xffffffff),
                wire.frame(99), wire.frame(0), wire.frame(wire.REPLY), wire.frame(wire.ANSWER, 1, {'bytes': b'x'}),
                wire.frame(wire.REQUEST, magic=b'HTTP'), b'GET / HTTP/1.1\r\n\r\n',
                wire.frame(wire.REQUEST, 1, b'\1\1\0\0' + b'\xff' * 100), wire.frame(wire.REQUEST, 1, b'x')):
        with Control(t) as c:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                c.send(bad)
            with contextlib.suppress(Failure, ConnectionResetError):
                check(c.reply()[1]['err'] < 0)
            check(c.ended(), bad[:40])
    for cut in range(0, len(good), 5):
        with Control(t) as c:
            c.send(good[:cut])
    alive(t)


def test_nesting_without_end(t):
    start(t)
    deep = {}
    for _ in range(200):
        deep = {'a': deep}
    with Control(t) as c:
        c.send(wire.frame(wire.REQUEST, 1, deep))
        check(c.ended() or True)
    alive(t)


def test_announced_memory_is_not_taken(t):
    """Frames of 64 MiB that never come cost nothing to speak of."""
    start(t)
    before = t.daemon_memory()
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(Control(t)).send(wire.frame(wire.REQUEST, 1, length=64 << 20))
        alive(t)
        check(t.daemon_memory() - before < 64 << 20, t.daemon_memory() - before)


def test_other_users_are_refused(t):
    if os.geteuid() != 0:
        raise Skip('only root can become somebody else')
    start(t)
    for p in (t.rundir, os.path.join(t.rundir, 'tarnd.sock'), os.path.join(t.rundir, 'nbd.sock')):
        os.chmod(p, 0o777)  # even if somebody opens the way
    r = t.run('python3', '-c', '''
import os, socket, sys
sys.path.insert(0, sys.argv[2])
os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
try:
    s.sendall(bytes.fromhex(sys.argv[3]))
    print(s.recv(1))
except (BrokenPipeError, ConnectionResetError):
    print(b'')
''', os.path.join(t.rundir, 'tarnd.sock'), os.path.dirname(__file__), wire.command('daemon.info').hex())
    eq(r.out, "b''\n")
    contains(t.daemon_log(), 'refused a control connection of user 65534')
    alive(t)


def test_cancel(t):
    """A long listing ends when its client says so, and the connection goes on."""
    t.import_pool('many-datasets')
    with Control(t) as c:
        c.send(wire.command('dataset.list', 3, props=['name', 'used'], types=7))
        eq(c.frame()[0], wire.ITEM)
        c.send(wire.frame(wire.CANCEL, 3))
        ident, pairs = c.reply()
        check(ident == 3 and pairs['err'] in (0, -4), pairs)
        c.send(wire.command('daemon.info', 4))
        eq(c.reply()[0], 4)
    alive(t)


def test_clients_that_go_in_the_midst(t):
    t.import_pool('many-datasets')
    for n in range(20):
        with Control(t) as c:
            c.send(wire.command('dataset.list', 3, props=['name', 'used'], types=7))
            if n % 2:
                c.frame()
    wait_for(lambda: t.zpool('export', t.pool_name('many-datasets'), code=None).code == 0, 'the export')
    alive(t)


def test_many_clients_start_one_daemon(t):
    started = [t.start(t.program('tarn'), 'zpool', 'list') for _ in range(20)]
    for p in started:
        out, err = p.communicate(timeout=60)
        eq((p.returncode, out, err), (0, b'no pools available\n', b''))
    check(t.daemon_pid())


def test_many_clients_at_once(t):
    t.import_pool('single')
    failures = []

    def run(seed):
        try:
            rnd = random.Random(seed)
            for i in range(20):
                with Control(t) as c:
                    c.send(wire.command(rnd.choice(('daemon.info', 'pool.list', 'dataset.list', 'pool.status')), i))
                    eq(c.reply()[0], i)
        except Exception as e:  # told by the main thread
            failures.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(30)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    eq(failures, [])


def test_too_many_connections_are_refused(t):
    start(t)
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Control(t)) for _ in range(300)]
        time.sleep(0.3)
        crowd[0].send(wire.command('daemon.info', 1))
        eq(crowd[0].reply()[0], 1)
        check(crowd[-1].ended())
    wait_for(lambda: subprocess.run([t.program('tarn'), 'zpool', 'list'], env=t.env, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL).returncode == 0, 'room for new clients')


tarnlib.main(globals())
