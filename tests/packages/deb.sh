#!/usr/bin/env bash
# deb.sh: the Debian packages of `make deb`: their contents and dependencies, and a program that is compiled against
# them.
#
# `make test-packages` sets BUILD, VERSION and SOVERSION.
set -euo pipefail
cd "$(dirname "$0")/../.."

: "${BUILD:=build}" "${VERSION:?}" "${SOVERSION:?}" "${CC:=cc}"
# shellcheck source=tests/quietly.sh
source tests/quietly.sh

if ! command -v dpkg-deb >/dev/null; then
    echo 'skipped: deb: dpkg-deb is not here'
    exit 0
fi

architecture=$(dpkg --print-architecture)
debs=$scratch/debs
root=$scratch/root
file() { echo "$debs/$1_${VERSION}_$architecture.deb"; }

has() { # has PACKAGE FILE
    grep -q "$2\$" "$scratch/$1.list" || fail "$1 lacks $2"
}

check_contents() { # every file is in one package and belongs to root
    local package twice
    for package in "libattest$SOVERSION" libattest-dev attest; do
        dpkg-deb -c "$(file "$package")" >"$scratch/$package.list"
    done
    twice=$(awk '$1 !~ /^d/ { print $6 }' "$scratch"/*.list | sort | uniq -d)
    [[ -z $twice ]] || fail "in two packages: $twice"
    [[ -z $(awk '$2 != "root/root"' "$scratch"/*.list) ]] || fail 'files do not belong to root'
    has "libattest$SOVERSION" "/libattest.so.$VERSION"
    has libattest-dev ' ./usr/include/attest.h'
    has attest ' ./usr/share/man/man1/attest.1.gz'
    [[ $(dpkg-deb -f "$(file libattest-dev)" Depends) == "libattest$SOVERSION (= $VERSION), "* ]] || fail 'libattest-dev asks for another library'
    [[ $(dpkg-deb -f "$(file attest)" Depends) =~ ^libc6\ \(\>=\ 2\.[0-9]+\)$ ]] || fail 'attest does not say which C library it needs'
}

check_installed() { # unpacked by dpkg where this is root's to do, else by dpkg-deb
    local package flags lib
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers"
    : >"$root/var/lib/dpkg/status"
    if [[ $(id -u) -eq 0 ]]; then
        quietly dpkg --root="$root" --force-depends --force-script-chrootless -i "$debs"/*.deb
    else
        for package in "$debs"/*; do
            quietly dpkg-deb -x "$package" "$root"
        done
    fi
    lib=$(dirname "$(find "$root" -name "libattest.so.$VERSION")")
    readelf -SW "$lib/libattest.so.$VERSION" "$root/usr/bin/attest" >"$scratch/sections"
    ! grep -qE ' \.(debug_info|symtab) ' "$scratch/sections" || fail 'not stripped'
    read -ra flags <<<"$(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$lib/pkgconfig pkg-config --cflags --libs attest)"
    awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' README.md >"$scratch/example.c"
    quietly "$CC" -std=c11 "$scratch/example.c" "${flags[@]}" -o "$scratch/example"
    LD_LIBRARY_PATH=$lib quietly "$scratch/example"
    quietly "$CC" -std=c11 "$scratch/example.c" "-I$root/usr/include" "$lib/libattest.a" -pthread -lm -ldl -o "$scratch/example"
    quietly "$scratch/example"
    (cd / && quietly "$root/usr/bin/attest" verify b1h2s16d8,f32 --device cpu)
    (cd / && quietly "$root/usr/bin/attest" suites)
}

quietly env DEB_COMPRESSION=none make --no-print-directory BUILD="$BUILD" DIST="$debs" deb
check_contents
check_installed
echo "deb: contents, dependencies, a caller by pkg-config, the static library and the program hold"
