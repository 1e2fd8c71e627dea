#!/usr/bin/env bash
# make_debs.sh VERSION SOVERSION FOLDER: Debian packages of the files that `make install-strip` installs.
#
# libattestN has the shared library, libattest-dev what a compiler needs, attest the program and its data. `make deb`
# calls this and sets BUILD and MAKE. DEB_COMPRESSION is dpkg-deb's -Z: xz, gzip or none; DEB_MAINTAINER is the
# packager's name and address.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$1 soversion=$2 folder=$3
: "${BUILD:=build}" "${MAKE:=make}" "${DEB_COMPRESSION:=xz}"
multiarch=$(${CC:-cc} -dumpmachine)
[[ $multiarch == *-*-* ]] || multiarch=x86_64-linux-gnu
multiarch=${multiarch/-pc-/-} # clang's
case $multiarch in # what CC compiles for, here or elsewhere
x86_64-*) architecture=amd64 ;;
aarch64-*) architecture=arm64 ;;
*) architecture=$(dpkg --print-architecture) ;;
esac
libdir=usr/lib/$multiarch
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
all=$scratch/all
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 315532800)}

"$MAKE" --no-print-directory BUILD="$BUILD" DESTDIR="$all" PREFIX=/usr LIBDIR="/$libdir" ZSHDIR=/usr/share/zsh/vendor-completions \
    install-strip >/dev/null
gzip -9n "$all/usr/share/man/man1/attest.1"

move() { # move PACKAGE PATH...: files of the installation, into a package
    local package=$1 path
    shift
    for path in "$@"; do
        mkdir -p "$scratch/$package/${path%/*}"
        mv "$all/$path" "$scratch/$package/$path"
    done
}

needs_libc() { # needs_libc FILE...: the newest C library that a file asks for
    objdump -T "$@" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1 | sed 's/GLIBC_/libc6 (>= /; s/$/)/'
}

pack() { # pack PACKAGE SECTION DEPENDS SUMMARY: the description is read from the standard input
    local package=$1 root=$scratch/$1 docs=$scratch/$1/usr/share/doc/$1
    mkdir -p "$docs" "$root/DEBIAN"
    {
        printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: attest\n\n'
        printf 'Files: *\nCopyright: The attest developers\nLicense: Apache-2.0\n On Debian systems: /usr/share/common-licenses/Apache-2.0\n'
        if [[ $package == attest && -e /usr/share/doc/libjansson-dev/copyright ]]; then
            printf '\nComment: jansson is linked into the program; its terms follow.\n'
            sed 's/^$/./; s/^/ /' /usr/share/doc/libjansson-dev/copyright
        fi
    } >"$docs/copyright"
    gzip -9nc CHANGELOG.md >"$docs/changelog.gz"
    cat >"$root/DEBIAN/control" <<END
Package: $package
Source: attest
Version: $version
Architecture: $architecture
Maintainer: ${DEB_MAINTAINER:-The attest developers}
Section: $2
Priority: optional
Depends: $3
Installed-Size: $(du -sk "$root" | cut -f1)
Description: $4
$(sed 's/^/ /')
END
    (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    find "$root" -type d -exec chmod 755 {} +
    mkdir -p "$folder"
    dpkg-deb --root-owner-group "-Z$DEB_COMPRESSION" --build "$root" "$folder/${package}_${version}_$architecture.deb" >/dev/null
    echo "$folder/${package}_${version}_$architecture.deb"
}

library=libattest$soversion
move "$library" "$libdir/libattest.so.$soversion" "$libdir/libattest.so.$version"
move libattest-dev usr/include/attest.h usr/include/attest_peer.h "$libdir/libattest.a" "$libdir/libattest.so" \
    "$libdir/pkgconfig/attest.pc" "$libdir/cmake/attest"
move attest usr/bin/attest usr/share/man usr/share/attest usr/share/bash-completion usr/share/zsh usr/share/fish
left=$(find "$all" ! -type d)
[[ -z $left ]] || { echo "make_debs: in no package: $left" >&2; exit 1; }

mkdir -p "$scratch/$library/DEBIAN"
echo 'activate-noawait ldconfig' >"$scratch/$library/DEBIAN/triggers"
echo "libattest $soversion $library (>= $version)" >"$scratch/$library/DEBIAN/shlibs"
pack "$library" libs "$(needs_libc "$scratch/$library/$libdir/libattest.so.$version")" 'fused transformer operations (shared library)' <<END
Fused attention, its gradients and mixture-of-experts layers with a plain C
interface, for CPUs and NVIDIA GPUs. A GPU needs its driver and nothing else.
END
pack libattest-dev libdevel "$library (= $version), libc6-dev" 'fused transformer operations (headers and static library)' <<END
The headers of attest, its static library, and files for pkg-config and CMake.
END
pack attest science "$(needs_libc "$scratch/attest/usr/bin/attest")" 'fused transformer operations (the program)' <<END
Verifies, times and explains the kernels of attest, with its suites, device
files and attestations.
END
