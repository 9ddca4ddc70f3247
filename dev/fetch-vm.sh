#!/bin/bash
# Brings what a disk needs that a virtual machine boots from (a kernel, busybox, the boot loader syslinux and mtools, from
# Debian's packages), without installing anything: unpacked into build/vm, or $TARN_VM_DIR.
#
#   dev/fetch-vm.sh          prints the folder with them, fetching them when they are not there
#
# Exit 77 (with a word why) when they cannot be had, as tests do that skip.
set -eu
cd "$(dirname "$0")/.."
dir=$(realpath -m "${TARN_VM_DIR:-build/vm}")
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
if [ ! -e "$dir/ready" ]; then
	dev/fetch-packages.sh "$dir" of:linux-image-cloud-amd64 busybox-static syslinux syslinux-common mtools
	: >"$dir/ready"
fi
echo "$dir/root"
