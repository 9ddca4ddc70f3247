#!/bin/bash
# Makes tests/fuzz/corpus again from golden pools: tests/fuzz/make-corpus.sh POOLS [BUILD]
#
# POOLS is a folder with one folder per pool, each holding the pool's only device as disk0.img.
set -eu
pools=${1:?usage: tests/fuzz/make-corpus.sh POOLS [BUILD]}
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$top/build}
ninja -C "$build" tests/fuzz/corpus_cut >/dev/null
rm -rf "$top/tests/fuzz/corpus"
for pool in single compression checksums gang case-and-normalization xattr-and-acl names intent-log dedup version28 \
	version-early v24-fast-dedup v24-blake3 v24-longname; do
	[ -e "$pools/$pool/disk0.img" ] || { echo "no $pools/$pool/disk0.img" >&2; exit 1; }
	"$build/tests/fuzz/corpus_cut" "$pools/$pool/disk0.img" "$top/tests/fuzz/corpus"
done
python3 "$top/tests/serve/wire.py" "$top/tests/fuzz/corpus"
du -sb "$top/tests/fuzz/corpus"
