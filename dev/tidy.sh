#!/bin/bash
# clang-tidy over the sources the build knows, with the rules of .clang-tidy. Some minutes.
#
#   dev/tidy.sh [FILE...]       all sources of src/, or those named
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
[ -e "$build/compile_commands.json" ] || meson setup "$build"
[ $# -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.c')
printf '%s\n' "${files[@]-$@}" | xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet --warnings-as-errors='*' 2>/dev/null
