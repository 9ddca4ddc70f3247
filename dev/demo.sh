#!/bin/bash
# Shows Tarn at work. First its main job: a pool over four files, a volume that a client writes and reads over NBD,
# snapshots, export, import. Then a small pool that real OpenZFS made (tests/fixtures/demo): imports it, looks around,
# mounts it, reads a snapshot, an encrypted file system and a volume, and takes a tree out of it. Leaves the daemon
# running, and says how to go on and how to stop it. Everything lies in build/demo; a second run starts afresh.
#
#   dev/demo.sh           (make demo)
#   dev/demo.sh --once    in a folder of its own, stopping and removing everything at the end: a test
set -eu
cd "$(dirname "$0")/.."
build=$(realpath "${BUILD:-build}")
fixture=$PWD/tests/fixtures/demo
once=
[ "${1:-}" != --once ] || once=1

if [ -n "$once" ]; then
	demo=$(mktemp -d)
else
	demo=$build/demo
fi
# A socket's path has room for 107 bytes.
export TARN_RUNDIR=$demo/run
[ ${#TARN_RUNDIR} -le 90 ] || TARN_RUNDIR=/tmp/tarn-demo-$(id -u)
export PATH=$build:$PATH

say() {
	printf '\n\033[1m%s\033[0m\n' "$*"
}

# Shows a command as one would type it, and runs it.
show() {
	printf '$%s\n' "$(printf ' %q' "$@")"
	"$@"
}

finish() {
	tarn stop -f >/dev/null 2>&1 || true
	rm -rf "$demo"
}
[ -z "$once" ] || trap finish EXIT

tarn stop -f >/dev/null # the daemon of an earlier run
rm -rf "$demo/disks" "$demo/files" "$demo/out" "$demo/volume.img"
mkdir -p "$demo/disks" "$demo/files" "$demo/mnt"

say "A pool of our own, over four files."
truncate -s 512M "$demo"/files/{a,b,c,d}.img
show tarn zpool create -O compression=lz4 -R "$demo/mnt" tank "$demo"/files/{a,b,c,d}.img
show tarn zpool status tank

say "A volume in it, for a database: blocks of 16K, every write safe before it is answered."
show tarn zfs create -V 256M -b 16K -o sync=always tank/db
uri="nbd+unix:///tank/db?socket=$TARN_RUNDIR/nbd.sock"
show nbdinfo --size "$uri"

say "A client writes it over NBD and checks what it reads back."
show fio --name=db --ioengine=nbd --uri="$uri" --rw=randwrite --bs=16k --iodepth=16 --size=64M --verify=crc32c \
	--verify_state_save=0 --output-format=terse --output=/dev/null
show tarn zfs snapshot tank/db@monday
show fio --name=db --ioengine=nbd --uri="$uri" --rw=write --bs=128k --iodepth=8 --size=64M --output-format=terse \
	--output=/dev/null
show tarn zfs list -r -t all -o name,used,referenced,volsize tank

say "Back to Monday: a clone beside it, and then the volume itself."
show tarn zfs clone tank/db@monday tank/trial
show tarn zfs destroy tank/trial
show tarn zfs rollback tank/db@monday

say "Give the pool back, and take it again: here, or with OpenZFS on any machine."
show tarn zpool export tank
show tarn zpool import -d "$demo/files" -R "$demo/mnt" tank
show tarn zpool list tank
show tarn zpool history tank

for image in "$fixture"/*.img.zst; do
	zstd -q -d --long=27 "$image" -o "$demo/disks/$(basename "$image" .zst)"
done

say "The other way round: two disks of a mirror that OpenZFS made. What is on them?"
show tarn zpool import -d "$demo/disks"

say "Import it, read-only: nothing is written to the disks. The daemon starts by itself."
show tarn zpool import -o readonly=on -d "$demo/disks" -R "$demo/mnt" -N harbour
show tarn zpool status harbour
show tarn zfs list -r -t all harbour

say "One file system is encrypted. Its passphrase is \"correct horse\"."
echo '$ tarn zfs load-key harbour/private'
echo "correct horse" | tarn zfs load-key harbour/private

say "Mount all of it."
mounted=
if { : <>/dev/fuse; } 2>/dev/null && show tarn zfs mount -a; then
	mounted=1
	show cat "$demo/mnt/harbour/private/secret.txt"
	show ls -l "$demo/mnt/harbour/letters/archive"
	show tail -n 1 "$demo/mnt/harbour/library/book.txt"
	say "A file that was deleted is still in the snapshot."
	show cat "$demo/mnt/harbour/letters/.zfs/snapshot/before/lost.txt"
	say "What has changed since the snapshot?"
	show tarn zfs diff harbour/letters@before
else
	echo "There is no FUSE here (/dev/fuse cannot be used): going on without mounts."
fi

say "A volume, attached by any NBD client: here nbdinfo and nbdcopy."
uri="nbd+unix:///harbour/disk?socket=$TARN_RUNDIR/nbd.sock"
show nbdinfo --size "$uri"
show nbdcopy "$uri" "$demo/volume.img"
if command -v debugfs >/dev/null; then
	echo "It holds an ext4 file system:"
	show debugfs -R "cat /hello.txt" "$demo/volume.img" 2>/dev/null
fi

say "Without daemon, mount or root: take a tree straight from the disks."
show tarn extract -d "$demo/disks" harbour/letters@before:/ "$demo/out"
show cat "$demo/out/lost.txt"

if [ -n "$once" ]; then
	say "The demo is done."
	exit 0
fi
say "What to try next"
cat <<END
The daemon is running. Make your shell talk to it, and go where the disks are:

    export TARN_RUNDIR=$TARN_RUNDIR PATH=$build:\$PATH
    cd $demo

Then

    tarn zfs get all harbour/letters      every property, and where it comes from
    tarn zpool history harbour            what was done to the pool
    nbdinfo --list "nbd+unix://?socket=$TARN_RUNDIR/nbd.sock"
    ${mounted:+ls mnt/harbour/letters/.zfs/snapshot}
    tarn zdb -e -p disks -bcc harbour     read and verify every block
    tarn zfs create -s -V 10G tank/vm     a volume larger than the pool: only what is written takes room
    qemu-img info "nbd+unix:///tank/vm?socket=$TARN_RUNDIR/nbd.sock"
    tarn tunable -v                       what can be tuned

    tarn zpool export harbour
    rm disks/disk1.img                    lose a disk: the pool comes up degraded, and complete
    tarn zpool import -o readonly=on -d disks -R \$PWD/mnt harbour
    tarn zpool status

    tarn zpool import                     are there pools on this machine's own disks?

Commands are taken at $TARN_RUNDIR/tarnd.sock, volumes served at $TARN_RUNDIR/nbd.sock.
Stop it with

    TARN_RUNDIR=$TARN_RUNDIR $build/tarn stop
END
