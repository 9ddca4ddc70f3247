#!/bin/bash
# Everything that must hold, in the build folder $BUILD (build), which is already built: the small checks, then the
# test suites. Closes with "N passed, N failed", also kept in $BUILD/test-summary.
#
#   dev/test.sh [SUITE...]          unit, interop, crash, serve, fuzz; all and the small checks when none is named
#
# TARN_TEST_LONG=1 adds the suite `long` and lengthens random runs and fuzzing.
set -u
cd "$(dirname "$0")/.."
build=${BUILD:-build}
rm -f "$build/test-summary"
checks=$build/check.log

if [ $# -eq 0 ]; then
	dev/check.sh | tee "$checks"
	arguments=(--no-suite long)
	if [ -n "${TARN_TEST_LONG:-}" ]; then
		arguments=(--timeout-multiplier 20)
	fi
else
	: >"$checks"
	arguments=()
	for suite in "$@"; do
		arguments+=(--suite "$suite")
	done
fi

# Unit tests of finding and importing read the golden pools unpacked.
pools=${TARN_POOLS:-../shared/pools}
if [ -z "${TARN_GOLDEN:-}" ] && [ -d "$pools" ] && command -v zstd >/dev/null; then
	export TARN_GOLDEN TARN_MANIFESTS
	TARN_GOLDEN=$(cd "$build" && pwd)/golden
	TARN_MANIFESTS=$(cd "$pools" && pwd)
	for image in "$pools"/*/disk*.img.zst; do
		to=$TARN_GOLDEN/$(basename "$(dirname "$image")")/$(basename "$image" .zst)
		mkdir -p "$(dirname "$to")"
		[ -e "$to" ] || zstd -dq --sparse --long=27 "$image" -o "$to"
	done
fi

rm -f "$build/meson-logs/testlog.json"
meson test -C "$build" --print-errorlogs "${arguments[@]}" </dev/null
status=$?
python3 dev/test-summary.py "$checks" "$build/meson-logs/testlog.json" $status | tee "$build/test-summary"
exit "${PIPESTATUS[0]}"
