#!/bin/bash
# Unpacks the pool of `make demo` (tests/fixtures/demo) into a folder of its own and runs a program with that folder as
# its first argument. Exit 77 when there is no zstd to unpack with.
#
#   with-demo-pool.sh PROGRAM [ARGUMENT...]
set -eu
fixture=$(dirname "$0")/../fixtures/demo
command -v zstd >/dev/null || {
	echo "skipped: there is no zstd"
	exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for image in "$fixture"/*.img.zst; do
	zstd -q -d --long=27 "$image" -o "$dir/$(basename "$image" .zst)"
done
program=$1
shift
"$program" "$dir" "$@"
