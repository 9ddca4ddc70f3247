"""A disk that a virtual machine boots from, and the machine: a boot loader (syslinux) in a FAT partition, Debian's kernel
with the few modules a disk needs, a root file system of busybox. Everything is made from files, by nobody special."""

import glob
import os
import re
import shutil
import signal
import struct
import subprocess

import tarnlib
from nbdlib import need, uri
from tarnlib import Skip, check, wait_for

SECTOR = 512
BOOT_AT, BOOT_SIZE = 1 << 20, 31 << 20
ROOT_AT, ROOT_SIZE = 32 << 20, 64 << 20
DISK_SIZE = ROOT_AT + ROOT_SIZE
MODULES = 'virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk'.split()  # as they need each other
BOOT_PATIENCE = 240  # of an emulated processor on a busy machine

CONFIG = '''DEFAULT linux
PROMPT 0
LABEL linux
KERNEL vmlinuz
INITRD initrd
APPEND console=ttyS0 quiet loglevel=1 panic=1
'''
FIRST = '''#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for m in %s; do /bin/busybox insmod /$m.ko; done
/bin/busybox mount -t ext4 -o discard /dev/vda2 /root && exec /bin/busybox switch_root /root /sbin/init
''' % ' '.join(MODULES)

# Tells what is there, then writes files numbered from where it left off. A number is told once its file is safe, and once
# the register, which is overwritten in place, holds it too. Meanwhile others write what nobody promised to keep.
INIT = '''#!/bin/sh
mount -t devtmpfs dev /dev
mount -t proc proc /proc
n=0
cd /data
for f in $(ls | sort -n); do echo "tarn: have $f $(md5sum <$f | cut -c1-32)"; n=$f; done
echo "tarn: register $(head -c 9 /register)"
echo "tarn: up"
while :; do dd if=/dev/urandom of=/scratch bs=64k count=20 status=none; done &
step() {
	yes "file $1" | head -c $(($1 * 7919 % 60000 + 1)) | dd of=$1 bs=64k iflag=fullblock conv=fsync status=none &&
		printf '%09d' $1 | dd of=/register conv=notrunc,fsync status=none && sync /data && echo "tarn: safe $1"
}
while step $((n + 1)); do
	n=$((n + 1))
done
echo "tarn: the disk fails"
while :; do sleep 100; done
'''


def contents(n):
    """What the machine writes into file n."""
    size = n * 7919 % 60000 + 1
    line = b'file %d\n' % n
    return (line * (size // len(line) + 1))[:size]


def fetched():
    """Folder with the unpacked packages."""
    p = subprocess.run([os.path.join(tarnlib.TOP, 'dev', 'fetch-vm.sh')], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode:
        raise Skip(p.stderr.strip() or 'dev/fetch-vm.sh fails')
    return p.stdout.strip()


def tool(name):
    """A program that may be meant for administrators only."""
    found = shutil.which(name) or shutil.which(name, path='/usr/sbin:/sbin')
    if not found:
        raise Skip('there is no program ' + name)
    return found


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as f:
        f.write(text)
    os.chmod(path, mode)


def make_initrd(t, root, path):
    tree = os.path.join(t.dir, 'initrd')
    for name in ('bin', 'dev', 'root'):
        os.makedirs(os.path.join(tree, name))
    busybox = os.path.join(root, 'bin', 'busybox')
    shutil.copy(busybox, os.path.join(tree, 'bin'))
    for name in MODULES:
        found, = glob.glob(os.path.join(root, 'lib/modules/*/kernel/**', name + '.ko'), recursive=True)
        shutil.copy(found, tree)
    write(os.path.join(tree, 'init'), FIRST, 0o755)
    names = '\n'.join(os.path.relpath(os.path.join(d, f), tree) for d, ds, fs in os.walk(tree) for f in ds + fs)
    with open(path, 'wb') as f:
        subprocess.run([busybox, 'cpio', '-o', '-H', 'newc'], input=names.encode(), stdout=f, stderr=subprocess.DEVNULL, cwd=tree, check=True)


def make_boot(t, root, path):
    """The FAT file system with loader, kernel and initrd."""
    env = dict(t.env, PATH=os.path.join(root, 'usr/bin') + ':' + t.env['PATH'])
    kernel, = glob.glob(os.path.join(root, 'boot/vmlinuz-*'))
    initrd, config = os.path.join(t.dir, 'initrd.cpio'), os.path.join(t.dir, 'syslinux.cfg')
    make_initrd(t, root, initrd)
    write(config, CONFIG)
    with open(path, 'wb') as f:
        f.truncate(BOOT_SIZE)
    t.run('mformat', '-i', path, '-H', BOOT_AT // SECTOR, '::', env=env)
    t.run('syslinux', '--install', path, env=env)
    for source, name in ((kernel, 'vmlinuz'), (initrd, 'initrd'), (config, 'syslinux.cfg')):
        t.run('mcopy', '-i', path, source, '::' + name, env=env)


def make_root(t, root, path):
    tree = os.path.join(t.dir, 'root')
    for name in ('bin', 'sbin', 'dev', 'proc', 'data'):
        os.makedirs(os.path.join(tree, name))
    shutil.copy(os.path.join(root, 'bin', 'busybox'), os.path.join(tree, 'bin'))
    for name in 'sh mount cut dd echo head ls md5sum printf sleep sort sync yes'.split():
        os.symlink('busybox', os.path.join(tree, 'bin', name))
    write(os.path.join(tree, 'sbin/init'), INIT, 0o755)
    write(os.path.join(tree, 'register'), '%09d' % 0)
    t.run(tool('mke2fs'), '-q', '-t', 'ext4', '-d', tree, path, '%dk' % (ROOT_SIZE >> 10))


def make_disk(t):
    """A raw image of DISK_SIZE: master boot record, the partition that is booted, the root file system; its path."""
    need('qemu-system-x86_64')
    root = fetched()
    boot, system, disk = (os.path.join(t.dir, name) for name in ('boot.img', 'root.img', 'disk.img'))
    make_boot(t, root, boot)
    make_root(t, root, system)
    with open(os.path.join(root, 'usr/lib/syslinux/mbr/mbr.bin'), 'rb') as f:
        loader = f.read()
    entries = b''.join(struct.pack('<B3sB3sII', active, b'\xfe\xff\xff', kind, b'\xfe\xff\xff', at // SECTOR, size // SECTOR)
                       for active, kind, at, size in ((0x80, 0x0e, BOOT_AT, BOOT_SIZE), (0, 0x83, ROOT_AT, ROOT_SIZE)))
    with open(disk, 'wb') as f:
        f.write(loader.ljust(446, b'\0') + entries.ljust(64, b'\0') + b'\x55\xaa')
        for at, part in ((BOOT_AT, boot), (ROOT_AT, system)):
            f.seek(at)
            with open(part, 'rb') as source:
                shutil.copyfileobj(source, f)
        f.truncate(DISK_SIZE)
    return disk


class Machine:
    """A virtual machine whose only disk is an export; what it says on its console."""

    def __init__(self, t, export, cache, *options):
        self.console = os.path.join(t.dir, 'console')
        with open(self.console, 'wb'):
            pass
        drive = ['file=' + uri(t, export), 'format=raw', 'if=virtio', 'discard=unmap', 'cache=' + cache, *options]
        self.p = t.start('qemu-system-x86_64', '-nodefaults', '-accel', 'tcg', '-m', '256', '-display', 'none', '-no-reboot',
                         '-serial', 'file:' + self.console, '-drive', ','.join(drive))

    def said(self):
        """The complete lines that are meant for us, without their first word."""
        with open(self.console, encoding='utf-8', errors='replace', newline='') as f:
            return re.findall(r'tarn: ([^\r\n]*)\r?\n', f.read())

    def numbers(self):
        """The files it called safe."""
        return [int(line.split()[1]) for line in self.said() if line.startswith('safe ')]

    def wait_for(self, condition, what):
        def is_so():
            check(self.p.poll() is None, 'the machine ended', self.p.returncode, self.text())
            return condition()
        try:
            wait_for(is_so, what, BOOT_PATIENCE)
        except tarnlib.Failure as e:
            raise tarnlib.Failure('%s\n%s' % (e, self.text()))

    def text(self):
        with open(self.console, encoding='utf-8', errors='replace') as f:
            return f.read()[-3000:]

    def wait_until_up(self):
        self.wait_for(lambda: 'up' in self.said(), 'the machine to boot')

    def kill(self):
        self.p.send_signal(signal.SIGKILL)
        self.p.communicate()
