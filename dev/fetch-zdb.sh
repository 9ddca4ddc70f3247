#!/bin/bash
# Brings OpenZFS's own zdb and ztest (Debian's packages, component contrib) for tests that compare with them, without
# installing anything: unpacked into build/zdb, or $TARN_ZDB_DIR. The machine's apt configuration stays as it is; the
# mirror is the one it uses for Debian's main component.
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
command -v apt-get >/dev/null || skip "this is not a Debian system"
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
if [ -x "$dir/bin/ztest" ]; then # another one fetched it meanwhile
	echo "$dir/bin"
	exit 0
fi

# Address and suite of the machine's main component, not of its updates.
source=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
	awk '$3 == "main" && $2 !~ /-(security|updates|backports|proposed)/ { print; exit }')
[ -n "$source" ] || skip "apt knows no Debian mirror"
read -r uri release _ <<<"$source"
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $key ] || key=

tmp=$dir/apt
rm -rf "$tmp"
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$dir/root" "$dir/bin"
echo "deb ${key:+[signed-by=$key]} $uri $release main contrib" >"$tmp/sources.list"
apt() {
	apt-get -q -o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$tmp/lists" \
		-o Dir::Cache="$tmp/cache" -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 \
		"$@" </dev/null >>"$tmp/log" 2>&1
}
apt update || skip "the package lists cannot be had ($(tail -n 1 "$tmp/log"))"
(cd "$tmp/cache" && apt download $packages) || skip "the packages cannot be had ($(tail -n 1 "$tmp/log"))"
for deb in "$tmp"/cache/*.deb; do
	dpkg -x "$deb" "$dir/root"
done

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
rm -rf "$tmp"
echo "$dir/bin"
