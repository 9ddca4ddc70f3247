#!/bin/bash
# `make bench`: the figures of bench/README.md, as ratios measured in one run on one machine.
#
#   bench/run.sh [NAME...]        read extract nbd verify snapshots volumes small pools datasets; all when none is named
#
# TARN_BENCH_POOLS  folder with the pools (bench/make-pools.sh); build/bench/pools when not set
# TARN_ORACLE       program that makes what is not there yet; else figures without a pool are skipped
# TARN_BENCH_RUNS   how often each thing is measured (3); the median counts
set -eu
cd "$(dirname "$0")/.."
export BUILD=${BUILD:-build}
export TARN_BENCH_POOLS=${TARN_BENCH_POOLS:-$BUILD/bench/pools}
if [ -n "${TARN_ORACLE:-}" ]; then
	bench/make-pools.sh
fi
TARN_ZDB=$(dev/fetch-zdb.sh || true)
export TARN_ZDB
exec python3 bench/bench.py "$@"
