#!/bin/bash
# Installs what building, checking and measuring Tarn needs, on Debian 12. Quick when nothing is missing.
#
#   dev/install-deps.sh [build|check|bench|all]      (all)
set -eu

build="gcc make pkg-config meson ninja-build liburing-dev libssl-dev libisal-dev liblz4-dev libzstd-dev zlib1g-dev
  libutf8proc-dev libfuse3-dev libjansson-dev libmicrohttpd-dev fuse3 zstd"
check="git python3 clang libclang-rt-14-dev clang-format-14 clang-format libcmocka-dev libnbd-bin python3-libnbd nbdkit
  qemu-utils fio attr acl mandoc e2fsprogs"
bench="fio nbdkit libnbd-bin python3"

case "${1:-all}" in
build) want=$build ;;
check) want="$build $check" ;;
bench) want="$build $bench" ;;
all) want="$build $check $bench" ;;
*)
	echo "usage: dev/install-deps.sh [build|check|bench|all]" >&2
	exit 2
	;;
esac

if ! command -v dpkg-query >/dev/null; then
	echo "dev/install-deps.sh: not a Debian system; what Tarn needs, by Debian's names:" >&2
	echo $want >&2
	exit 0
fi

missing=
for package in $want; do
	status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
	[ "$status" = "install ok installed" ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "dev/install-deps.sh: missing packages; as root:" >&2
	echo "    apt-get install --no-install-recommends$missing" >&2
	exit 1
fi

echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
	apt-get install -y -q --no-install-recommends $missing >"$log" 2>&1 </dev/null
}
# The package lists of a fresh machine are empty or old.
install || { apt-get update -q >>"$log" 2>&1 </dev/null && install; } || {
	tail -n 30 "$log" >&2
	echo "dev/install-deps.sh: apt-get could not install:$missing" >&2
	exit 1
}
