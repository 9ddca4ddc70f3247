#!/bin/bash
# Unpacks packages of Debian into a folder for tests, without installing anything. The machine's apt configuration stays
# as it is; the mirror is the one it uses for Debian's main component.
#
#   dev/fetch-packages.sh DIR PACKAGE...     into DIR/root; a PACKAGE "of:NAME" is the first that NAME depends on
#
# Exit 77 (with a word why) when they cannot be had, as tests do that skip. The caller sees to it that only one at a time
# fetches into DIR.
set -eu
dir=$(realpath -m "$1")
shift

skip() {
	echo "dev/fetch-packages.sh: $*" >&2
	exit 77
}

command -v apt-get >/dev/null || skip "this is not a Debian system"

# Address and suite of the machine's main component, not of its updates.
source=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
	awk '$3 == "main" && $2 !~ /-(security|updates|backports|proposed)/ { print; exit }')
[ -n "$source" ] || skip "apt knows no Debian mirror"
read -r uri release _ <<<"$source"
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e $key ] || key=

tmp=$dir/apt
rm -rf "$tmp"
mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial" "$dir/root"
echo "deb ${key:+[signed-by=$key]} $uri $release main contrib" >"$tmp/sources.list"
apt() { # PROGRAM WORD...
	"$1" -q -o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$tmp/lists" \
		-o Dir::Cache="$tmp/cache" -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=2 -o Acquire::http::Timeout=30 \
		"${@:2}" </dev/null 2>>"$tmp/log"
}
apt apt-get update >>"$tmp/log" || skip "the package lists cannot be had ($(tail -n 1 "$tmp/log"))"
packages=
for package in "$@"; do
	case $package in
	of:*) package=$(apt apt-cache depends "${package#of:}" | awk '$1 == "Depends:" { print $2; exit }') ;;
	esac
	packages="$packages $package"
done
(cd "$tmp/cache" && apt apt-get download $packages >>"$tmp/log") || skip "the packages cannot be had ($(tail -n 1 "$tmp/log"))"
for deb in "$tmp"/cache/*.deb; do
	dpkg -x "$deb" "$dir/root"
done
rm -rf "$tmp"
