#!/bin/bash
# Fuzzes every decoder: tests/fuzz/run.sh SECONDS [TARGET...]
#
# SECONDS `check`: what `make check` does, 3 a target, or 60 with TARN_TEST_LONG. Needs clang (else exit 77). Builds into $FUZZ_BUILD (build-fuzz) when that is not there. New inputs are kept in
# $FUZZ_BUILD/corpus/TARGET; an input that fails is left in $FUZZ_BUILD/crashes and its report is printed.
set -eu
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET...]}
shift
if [ "$seconds" = check ]; then
	seconds=${TARN_TEST_LONG:+60}
	seconds=${seconds:-3}
fi
if ! command -v clang >/dev/null; then
	echo "skipped: the fuzzers need clang"
	exit 77
fi
top=$(cd "$(dirname "$0")/../.." && pwd)
build=${FUZZ_BUILD:-$top/build-fuzz}
[ -e "$build/build.ninja" ] || CC=clang meson setup "$build" "$top" -Dfuzz=true --buildtype=debugoptimized >/dev/null
if [ $# -eq 0 ]; then
	for source in "$top"/tests/fuzz/fuzz_*.c; do
		name=${source##*/fuzz_}
		set -- "$@" "${name%.c}"
	done
fi
ninja -C "$build" $(printf 'tests/fuzz/fuzz_%s ' "$@") >"$build/fuzz-build.log" || { tail -30 "$build/fuzz-build.log"; exit 1; }

failed=0
mkdir -p "$build/crashes"
for target in "$@"; do
	mkdir -p "$build/corpus/$target"
	log=$build/fuzz-$target.log
	if "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -max_len=200000 -timeout=10 -rss_limit_mb=1024 \
		-artifact_prefix="$build/crashes/$target-" -print_final_stats=1 \
		"$build/corpus/$target" "$top/tests/fuzz/corpus/$target" >"$log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		echo "$target: $runs runs, no failure"
	else
		failed=1
		echo "$target: FAILED"
		tail -40 "$log"
	fi
done
exit $failed
