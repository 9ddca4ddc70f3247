#!/bin/bash
# A Debian package of what `make install` installs: $BUILD/tarn_VERSION_ARCH.deb. Needs dpkg-deb, no root.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}-deb
version=$(sed -n "s/^project(.*, version: '\([^']*\)'.*/\1/p" meson.build)
arch=$(dpkg --print-architecture)
root=$PWD/$build/package

make BUILD="$build" PREFIX=/usr
rm -rf "$root"
DESTDIR=$root meson install -C "$build" --no-rebuild --strip >/dev/null
mkdir -p "$root/DEBIAN" "$root/usr/share/doc/tarn"
cp LICENSE "$root/usr/share/doc/tarn/copyright"

# The libraries that the programs name, as the packages that hold them.
depends=$(find "$root" -type f -path '*bin/*' -exec objdump -p {} + | awk '$1 == "NEEDED" { print $2 }' | sort -u |
	while read -r lib; do dpkg-query -S "*/$(gcc -print-multiarch)/$lib" 2>/dev/null | grep -v ^diversion | head -n 1; done |
	cut -d: -f1 | sort -u | paste -sd, | sed 's/,/, /g')
cat >"$root/DEBIAN/control" <<END
Package: tarn
Version: $version
Architecture: $arch
Maintainer: Tarn developers <tarn@localhost>
Section: admin
Priority: optional
Depends: $depends
Recommends: fuse3
Description: OpenZFS storage in user space
 Opens real OpenZFS pools without a kernel module, serves their file systems
 through FUSE and their volumes through NBD, and is driven by commands that
 work like zpool, zfs and zdb.
END
dpkg-deb --root-owner-group --build "$root" "$build/tarn_${version}_$arch.deb"
