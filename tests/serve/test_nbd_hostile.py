"""NBD clients that stall, vanish, lie, send rubbish, come in crowds: the others are served, memory stays bounded, and
the daemon exports its pool afterwards."""

import contextlib
import os
import random
import socket
import threading
import time

import tarnlib
import wire
from nbdlib import Client, path
from tarnlib import check, eq, wait_for

VOLUME = 'tank/vol'
SIZE = 4 << 20
DATA = 98304
PHASES = (b'', wire.client_flags(), wire.client_flags() + wire.option(wire.OPT_STRUCTURED_REPLY),
          wire.client_flags() + wire.go(VOLUME),
          wire.client_flags() + wire.option(wire.OPT_STRUCTURED_REPLY) +
          wire.meta(wire.OPT_SET_META_CONTEXT, VOLUME, 'base:allocation') + wire.go(VOLUME))


def served(t, seconds=10):
    """Somebody else is served, in time."""
    begin = time.monotonic()
    with Client(t) as c:
        eq(c.go(VOLUME, structured=True), SIZE)
        data, errors = c.read(0, 1 << 20)
        eq((len(data), errors), (1 << 20, []))
    check(time.monotonic() - begin < seconds, 'another client waited', time.monotonic() - begin)


def raw(t):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(path(t))
    return s


def clients_gone(t):
    """Nobody holds the pool any more: it can be exported without -f."""
    wait_for(lambda: t.zpool('export', 'tank', code=None).code == 0, 'the end of all clients')


def test_crowd(t):
    """300 connections at once, each of which reads."""
    t.import_pool('single')
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(Client(t, timeout=60)) for _ in range(300)]
        for c in crowd:
            c.send(wire.go(VOLUME))
        for c in crowd:
            c.take(20 + 12 + 20)
        for i, c in enumerate(crowd):
            c.send(wire.request(wire.READ, DATA + i, 65536, i))
        for i, c in enumerate(crowd):
            eq(c.simple(), (0, i))
            c.take(65536)
        served(t)
    clients_gone(t)


def test_clients_that_stop_reading(t):
    """Each asks for 40 GiB and takes nothing of it."""
    t.import_pool('single')
    served(t)
    before = t.daemon_memory()
    stalled = []
    for _ in range(20):
        s = raw(t)
        s.sendall(wire.client_flags() + wire.go(VOLUME))
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for i in range(10000):
                s.send(wire.request(wire.READ, 0, SIZE, i))
        stalled.append(s)
    time.sleep(0.5)
    served(t)
    grown = t.daemon_memory() - before
    check(grown < 200 << 20, 'the daemon grew by', grown)
    eq(t.zpool('list', '-H', '-o', 'name').out, 'tank\n')
    for s in stalled:
        s.close()
    served(t)
    clients_gone(t)


def test_lists_that_nobody_takes(t):
    """Answers of the negotiation are bounded as well."""
    t.import_pool('volumes-more')
    before = None
    with raw(t) as s:
        s.sendall(wire.client_flags())
        s.setblocking(False)
        end = time.monotonic() + 3
        while time.monotonic() < end:
            try:
                s.send(wire.option(wire.OPT_LIST) * 100)
            except BlockingIOError:
                time.sleep(0.01)
            before = before or t.daemon_memory()
        check(t.daemon_memory() - before < 64 << 20, 'the daemon grew by', t.daemon_memory() - before)


def test_force_ends_clients_that_stall(t):
    t.import_pool('single')
    with raw(t) as s:
        s.sendall(wire.client_flags() + wire.go(VOLUME))
        s.sendall(b''.join(wire.request(wire.READ, 0, SIZE, i) for i in range(100)))
        time.sleep(0.3)
        t.zpool('export', '-f', 'tank')
    eq(t.zpool('list').out, 'no pools available\n')


def test_clients_that_vanish(t):
    """In every phase, in the midst of requests and of answers."""
    t.import_pool('single')
    tail = wire.request(wire.READ, 0, SIZE) * 3 + wire.request(wire.WRITE, 0, 1 << 20) + bytes(1000)
    for start in PHASES:
        whole = start + tail
        for cut in sorted(set(range(0, len(start) + 1, 3)) | {len(start) + 10, len(start) + 28, len(whole)}):
            with raw(t) as s:
                s.sendall(whole[:cut])
    served(t)
    clients_gone(t)


def test_rubbish_in_every_phase(t):
    t.import_pool('single')
    rnd = random.Random(7)
    for start in PHASES:
        for n in (1, 4, 16, 28, 100, 70000):
            with raw(t) as s:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    s.sendall(start)
                    s.sendall(rnd.randbytes(n))
                    s.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):
                    while s.recv(65536):
                        pass
    served(t)
    clients_gone(t)


def test_lengths_that_lie(t):
    """What is announced and does not come holds up nobody; a wrong magic ends the connection."""
    t.import_pool('single')
    open_ones = []
    for lie in (wire.client_flags() + wire.option(wire.OPT_GO, b'ab', 8000),
                wire.client_flags() + wire.option(wire.OPT_LIST, b'', 0xffffffff),
                wire.client_flags() + wire.go(VOLUME) + wire.request(wire.WRITE, 0, 0xffffffff)):
        s = raw(t)
        s.sendall(lie)
        open_ones.append(s)
    served(t)
    for s in open_ones:
        s.close()
    for bad in (wire.client_flags(0xffff), wire.client_flags() + b'IHAVEOPX' + bytes(8),
                wire.client_flags() + wire.go(VOLUME) + bytes(28),
                wire.client_flags() + wire.option(wire.OPT_EXPORT_NAME, bytes(17000))):
        with Client(t, hello=False) as c:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                c.send(bad)
            wait_for(c.ended, 'the server to hang up')
    clients_gone(t)


def test_one_byte_at_a_time(t):
    t.import_pool('single')
    with Client(t, hello=False) as c:
        for b in PHASES[3] + wire.request(wire.READ, DATA, 100):
            c.send(bytes([b]))
            time.sleep(0.002)
        c.take(18 + 20 + 12 + 20)
        eq(c.simple()[0], 0)
        c.take(100)


def test_slow_ones_do_not_hold_up_others(t):
    """Hundreds that never get to the point, while others read."""
    t.import_pool('single')
    slow = []
    for i in range(200):
        s = raw(t)
        s.sendall(PHASES[i % 4][:i % 30])
        slow.append(s)
    for _ in range(5):
        served(t, 5)
    for s in slow:
        s.close()
    clients_gone(t)


def test_coming_and_going_from_many_threads(t):
    t.import_pool('single')
    failures = []

    def run(seed):
        rnd = random.Random(seed)
        try:
            for _ in range(20):
                with Client(t, timeout=60) as c:
                    c.go(VOLUME, structured=rnd.random() < 0.5)
                    for _ in range(rnd.randrange(10)):
                        n = rnd.randrange(1, 200000)
                        c.read(rnd.randrange(SIZE - n), n)
                    if rnd.random() < 0.5:
                        c.send(wire.request(wire.READ, 0, SIZE))
        except Exception as e:  # told by the main thread
            failures.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(16)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    eq(failures, [])
    clients_gone(t)


def test_silent_clients_are_sent_away(t):
    """A minute of negotiation: longer than a quick test takes."""
    if not os.environ.get('TARN_TEST_LONG'):
        raise tarnlib.Skip('only with TARN_TEST_LONG=1')
    t.import_pool('single')
    with Client(t, timeout=90) as idle, Client(t, timeout=90) as silent:
        idle.go(VOLUME)
        check(silent.ended())
        eq(idle.read(DATA, 10)[1], [])


tarnlib.main(globals())
