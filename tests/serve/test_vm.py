"""Virtual machines whose disk is a volume: they boot from it, and lose nothing they were promised when machine or daemon
are killed."""

import hashlib
import os
import random
import shutil
import signal

import tarnlib
import vmlib
from nbdlib import need, uri
from tarnlib import check, eq, wait_for
from writelib import create, folder, verify
from vmlib import Machine

ROUNDS = 6


def install(t, *options):
    """A pool with a volume from which a machine boots."""
    need('qemu-img', 'nbdcopy')
    disk = vmlib.make_disk(t)
    create(t, n=2)
    t.zfs('create', '-V', str(vmlib.DISK_SIZE), '-b', '16K', '-o', 'compression=zstd', *options, 'tank/vm')
    t.run('qemu-img', 'convert', '-n', '-f', 'raw', '-O', 'raw', disk, uri(t, 'tank/vm'))


def check_what_it_has(machine, safe):
    """At its start it has found every file it was promised, with what was written into it; the last but one it may have
    been in the midst of."""
    said = [line.split() for line in machine.said()]
    have = {int(words[1]): words[2] for words in said if words[0] == 'have'}
    for n in range(1, safe + 1):
        eq(have.get(n), hashlib.md5(vmlib.contents(n)).hexdigest(), 'file', n, 'of', safe)
    check(all(n <= safe + 1 for n in have), 'files after', safe, ':', sorted(have)[-3:])
    register, = (int(words[1]) for words in said if words[0] == 'register')
    check(safe <= register <= safe + 1, 'register', register, 'safe', safe)
    return max(have, default=0)


def check_file_system(t, export, safe):
    """The root file system of the export is clean once its journal is replayed, and holds the files."""
    copy, system, out = (os.path.join(t.dir, name) for name in ('copy.img', 'copied-root.img', 'rescued'))
    t.run('nbdcopy', uri(t, export), copy)
    with open(copy, 'rb') as f, open(system, 'wb') as to:
        f.seek(vmlib.ROOT_AT)
        to.write(f.read(vmlib.ROOT_SIZE))
    t.run(vmlib.tool('e2fsck'), '-y', '-E', 'journal_only', system)
    t.run(vmlib.tool('e2fsck'), '-fn', system)
    shutil.rmtree(out, ignore_errors=True)
    os.mkdir(out)
    t.run(vmlib.tool('debugfs'), '-R', 'rdump /data %s' % out, system)
    for n in range(1, safe + 1):
        with open(os.path.join(out, 'data', str(n)), 'rb') as f:
            check(f.read() == vmlib.contents(n), 'file', n, 'of', safe, 'in', export)


def kill_daemon(t):
    os.kill(t.daemon_pid(), signal.SIGKILL)
    wait_for(lambda: t.daemon_pid() is None, 'the daemon to be gone')


def bring_back(t):
    t.zpool('import', '-f', '-d', folder(t), '-R', t.altroot(), 'tank')


def test_a_machine_survives_kills(t):
    """By turns the machine alone is killed, and daemon and machine as when the host dies."""
    install(t)
    rnd = random.Random(5)
    safe, first = 0, 0
    for turn in range(ROUNDS):
        machine = Machine(t, 'tank/vm', ('writeback', 'none')[turn // 2 % 2])
        machine.wait_until_up()
        first = check_what_it_has(machine, safe)
        more = rnd.randrange(10, 40)
        machine.wait_for(lambda: len(machine.numbers()) >= more, 'files')
        if turn % 2:
            kill_daemon(t)
        machine.kill()
        eq(machine.numbers(), list(range(first + 1, first + 1 + len(machine.numbers()))))
        safe = machine.numbers()[-1]
        if turn % 2:
            bring_back(t)
        t.zfs('snapshot', 'tank/vm@%d' % turn)
        check_file_system(t, 'tank/vm@%d' % turn, safe)
    machine = Machine(t, 'tank/vm', 'none')
    machine.wait_until_up()
    check_what_it_has(machine, safe)
    machine.kill()
    print('%d files in %d rounds' % (safe, ROUNDS))
    t.zpool('export', 'tank')
    verify(t)


def test_a_machine_goes_on_when_the_daemon_comes_back(t):
    """All it writes is safe at once (sync=always), so that the machine need not know that the daemon was killed."""
    install(t, '-o', 'sync=always')
    machine = Machine(t, 'tank/vm', 'none', 'file.reconnect-delay=%d' % vmlib.BOOT_PATIENCE)
    machine.wait_until_up()
    for _ in range(3):
        had = len(machine.numbers())
        machine.wait_for(lambda: len(machine.numbers()) >= had + 10, 'files')
        kill_daemon(t)
        bring_back(t)
    had = len(machine.numbers())
    machine.wait_for(lambda: len(machine.numbers()) >= had + 10, 'files after the last kill')
    machine.kill()
    safe = machine.numbers()[-1]
    eq(machine.numbers(), list(range(1, safe + 1)))
    t.zfs('snapshot', 'tank/vm@s')
    check_file_system(t, 'tank/vm@s', safe)
    t.zpool('export', 'tank')
    verify(t)


tarnlib.main(globals())
