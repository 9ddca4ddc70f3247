#!/bin/bash
# Makes the pools of the benchmark with real OpenZFS, those that are not there yet, each in a folder of
# $TARN_BENCH_POOLS (build/bench/pools). They need 8 GB, and, in an emulated machine, some ten minutes each.
#
# TARN_ORACLE is called as `$TARN_ORACLE run --timeout SECONDS --disk FILE... --ro-disk FILE... --set-e -- 'COMMANDS'`
# and runs the commands as root on a machine with OpenZFS, where the files are /dev/whole/vda and so on, and `zvm-links`
# makes the device links of volumes.
set -eu
cd "$(dirname "$0")/.."
: "${TARN_ORACLE:?names the program that runs a machine with OpenZFS}"
pools=${TARN_BENCH_POOLS:-build/bench/pools}
mkdir -p "$pools"
pools=$(realpath "$pools")
random=$pools/random.img
trap 'rm -f "$random" "$pools"/*/*.new' EXIT

# NAME SIZE COMMANDS: the second disk holds 2 GiB that do not compress.
make_pool() {
	local image=$pools/$1/disk0.img
	[ ! -e "$image" ] || return 0
	[ -e "$random" ] || head -c 2G /dev/urandom >"$random"
	echo "making the pool $1"
	mkdir -p "$pools/$1"
	truncate -s "$2" "$image.new"
	"$TARN_ORACLE" run --timeout 3600 --disk "$image.new" --ro-disk "$random" --set-e -- "$3"
	mv "$image.new" "$image"
}

for size in 128K 1M; do
	name=big$(tr KM km <<<$size)
	make_pool "$name" 2560M "
		zpool create -o ashift=12 $name /dev/whole/vda
		zfs set recordsize=$size $name
		dd if=/dev/vdb of=/$name/file bs=1M"
done
make_pool bigvol 3G '
	zpool create -o ashift=12 bigvol /dev/whole/vda
	zfs create -s -V 2G -o volblocksize=128K bigvol/vol
	zvm-links
	dd if=/dev/vdb of=/dev/zvol/bigvol/vol bs=1M oflag=direct'
make_pool snaps10k 1G '
	zpool create -o ashift=12 -O canmount=off snaps10k /dev/whole/vda
	for fs in {00..98}; do
		zfs create -o canmount=off snaps10k/fs$fs
	done
	for snap in {000..100}; do
		zfs snapshot -r snaps10k@snapshot-$snap
	done'
