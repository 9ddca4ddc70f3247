#!/bin/bash
# Brings OpenZFS's own zdb and ztest (Debian's packages, component contrib) for tests that compare with them, without
# installing anything: unpacked into build/zdb, or $TARN_ZDB_DIR.
#
#   dev/fetch-zdb.sh         prints the folder with zdb and ztest, fetching them when they are not there
#
# Exit 77 (with a word why) when they cannot be had, as tests do that skip.
set -eu
cd "$(dirname "$0")/.."
dir=$(realpath -m "${TARN_ZDB_DIR:-build/zdb}")
packages="zfsutils-linux zfs-test libzpool5linux libzfs4linux libnvpair3linux libuutil3linux"

skip() {
	echo "dev/fetch-zdb.sh: no zdb: $*" >&2
	exit 77
}

if [ -x "$dir/bin/zdb" ] && [ -x "$dir/bin/ztest" ]; then
	echo "$dir/bin"
	exit 0
fi
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
if [ -x "$dir/bin/ztest" ]; then # another one fetched it meanwhile
	echo "$dir/bin"
	exit 0
fi

dev/fetch-packages.sh "$dir" $packages
mkdir -p "$dir/bin"

# Programs run with their own libraries; ztest starts zdb.
for program in zdb ztest; do
	path=$(find "$dir/root" -type f -name $program -perm -u+x | head -n 1)
	[ -n "$path" ] || skip "the packages hold no $program"
	libs=$(dirname "$(find "$dir/root" -name 'libzpool.so.*' | head -n 1)")
	cat >"$dir/bin/$program.new" <<-END
		#!/bin/sh
		LD_LIBRARY_PATH=$libs\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} ZDB_PATH=\${ZDB_PATH:-$dir/bin/zdb} \\
			exec $path "\$@"
	END
	chmod +x "$dir/bin/$program.new"
	missing=$(LD_LIBRARY_PATH=$libs ldd "$path" | awk '/not found/ { print $1 }' | tr '\n' ' ')
	[ -z "$missing" ] || skip "$program needs libraries this machine lacks: $missing"
done
mv "$dir/bin/zdb.new" "$dir/bin/zdb"
mv "$dir/bin/ztest.new" "$dir/bin/ztest"
echo "$dir/bin"
