"""The daemon's own life: one instance, start by the first command, stop, and what is left when it is killed."""

import os
import signal
import socket
import stat
import time

import tarnlib
from tarnlib import Skip, check, contains, eq, wait_for


def gone(pid):
    """Ended, if perhaps not reaped."""
    try:
        with open('/proc/%d/stat' % pid) as f:
            return f.read().rsplit(')', 1)[1].split()[0] == 'Z'
    except OSError:
        return True


def test_starts_by_itself_and_stops(t):
    eq(t.tarn('stop').out, 'no daemon runs\n')
    eq(t.tarn('info', code=1).out, 'no daemon runs\n')
    eq(t.daemon_pid(), None)
    t.zpool('list')
    pid = t.daemon_pid()
    check(pid, 'no daemon after a command')
    eq(stat.S_IMODE(os.stat(os.path.join(t.rundir, 'tarnd.sock')).st_mode), 0o600)
    t.import_pool('single')
    t.tarn('stop')
    wait_for(lambda: gone(pid), 'the end of the daemon')
    contains(t.daemon_log(), "exported pool 'tank'")


def test_second_instance_refuses(t):
    t.zpool('list')
    r = t.run(t.program('tarnd'), code=1)
    contains(r.err, 'already runs')
    contains(r.err, str(t.daemon_pid()))
    t.zpool('list')


def test_foreground_ends_on_sigterm(t):
    p = t.start(t.program('tarnd'))
    wait_for(lambda: os.path.exists(os.path.join(t.rundir, 'tarnd.sock')) and t.daemon_pid(), 'the socket')
    t.import_pool('single')
    p.send_signal(signal.SIGTERM)
    eq(p.wait(10), 0)
    contains(p.communicate()[1].decode(), "exported pool 'tank'")


def test_stale_socket(t):
    s = socket.socket(socket.AF_UNIX)
    s.bind(os.path.join(t.rundir, 'tarnd.sock'))
    s.close()
    with open(os.path.join(t.rundir, 'tarnd.pid'), 'w') as f:
        f.write('1\n')
    eq(t.zpool('list').code, 0)


def test_killed_daemon(t):
    """Commands start a new one, and mounts of the dead one are no obstacle."""
    if not os.path.exists('/dev/fuse'):
        raise Skip('there is no /dev/fuse')
    name = t.import_pool('single', mount=True)
    where = t.mounts()
    check(where, 'nothing is mounted')
    pid = t.daemon_pid()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: gone(pid), 'the end')
    eq(t.zpool('list').out, 'no pools available\n')
    wait_for(lambda: not t.mounts(), 'the end of the dead mounts')
    t.import_pool('single', mount=True)
    eq(sorted(set(t.mounts())), sorted(where))
    for place in where:
        os.listdir(place)
    t.zpool('export', name)
    eq(t.mounts(), [])


def test_hostile_client(t):
    """Rubbish on the control socket closes that connection, nothing else."""
    t.zpool('list')
    for rubbish in (b'GET / HTTP/1.0\r\n\r\n', b'\0' * 64, b'TARN' + b'\xff' * 12, b'T'):
        s = socket.socket(socket.AF_UNIX)
        s.connect(os.path.join(t.rundir, 'tarnd.sock'))
        s.sendall(rubbish)
        s.settimeout(5)
        if rubbish != b'T':
            try:
                while s.recv(4096):
                    pass
            except ConnectionResetError:
                pass
        s.close()
    begin = time.monotonic()
    t.zpool('list')
    check(time.monotonic() - begin < 5)


tarnlib.main(globals())
