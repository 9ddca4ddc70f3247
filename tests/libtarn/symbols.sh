#!/bin/bash
# Only what the public header declares is visible in the library, and all of that is.
#
#   symbols.sh LIBRARY
set -eu
header=$(dirname "$0")/../../include/tarn/tarn.h
diff <(sed -n 's/^TARN_API .*[ *]\(tarn_[a-z_]*\)(.*/\1/p' "$header" | sort) <(nm -D --defined-only "$1" | awk '{ print $3 }' | sort)
