#!/usr/bin/env bash
# install.sh: an installed attest from the point of view of a packager and of a caller, in a temporary DESTDIR.
#
# `make test-install` sets BUILD, VERSION and SOVERSION.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${BUILD:=build}" "${VERSION:?}" "${SOVERSION:?}" "${CC:=cc}" "${CXX:=c++}"
source_root=$PWD
# shellcheck source=tests/quietly.sh
source tests/quietly.sh
# shellcheck source=tests/plain_words.sh
source tests/plain_words.sh

root=$scratch/root
prefix=/opt/attest
lib=$root$prefix/lib
include=$root$prefix/include
strict=(-Wall -Wextra -pedantic -Werror)

same() { # same WHAT EXPECTED ACTUAL
    [[ $2 == "$3" ]] || fail "$1 differ:"$'\n'"$(diff <(echo "$2") <(echo "$3"))"
}

in_make() { # make from inside make would say which folder it enters
    make --no-print-directory BUILD="$BUILD" DESTDIR="$root" PREFIX="$prefix" "$@"
}

check_files() {
    local expected
    expected=$( (find evidence \( -path '*/harnesses.txt' -o -path '*/attestations/*' -o -name host.json \) -type f
        printf '%s\n' bin/attest include/attest.h include/attest_peer.h lib/libattest.a lib/libattest.so \
        "lib/libattest.so.$SOVERSION" "lib/libattest.so.$VERSION" lib/pkgconfig/attest.pc \
        lib/cmake/attest/attestConfig.cmake lib/cmake/attest/attestConfigVersion.cmake \
        share/man/man1/attest.1 share/bash-completion/completions/attest share/zsh/site-functions/_attest \
        share/fish/vendor_completions.d/attest.fish suites/*.txt devices/*.json evidence/required.txt) |
        sed -E 's,^(suites|devices|evidence)/,share/attest/&,' | sort)
    same "the installed files" "$expected" \
        "$(cd "$root$prefix" && find . ! -type d -printf '%P\n' | sort)"
    [[ $(readlink -f "$lib/libattest.so") == "$lib/libattest.so.$VERSION" ]] ||
        fail "libattest.so does not lead to libattest.so.$VERSION"
}

check_header_alone() {
    local header
    for header in attest attest_peer; do
        quietly "$CC" -x c -std=c11 "${strict[@]}" -fsyntax-only "$include/$header.h"
        quietly "$CXX" -x c++ -std=c++11 "${strict[@]}" -fsyntax-only "$include/$header.h"
    done
}

check_symbols() {
    local declared
    declared=$(grep -oE '^ATT_API [^(;]*\batt_[a-z0-9_]+\(' include/attest.h |
        grep -oE 'att_[a-z0-9_]+\($' | tr -d '(' | sort)
    same "the functions declared and the symbols exported" "$declared" \
        "$(nm -D --defined-only "$lib/libattest.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)"
    same "the functions declared and the version script" "$declared" \
        "$(grep -oE '^ +att_[a-z0-9_]+;' src/attest.map | tr -d ' ;' | sort)"
    # Code linked with the static library sees all its global names: they have our prefix, or are kernel ids.
    same "global symbols of libattest.a that others may have too" "" \
        "$(nm -g --defined-only "$lib/libattest.a" 2>/dev/null | awk 'NF == 3 { print $3 }' |
            grep -vE '^att_' | grep -vxFf <(sed -nE 's/^ATT_CPU_KERNEL\(([a-z0-9_]+),.*/\1/p' kernels/kernels.def))"
}

check_needed() { # check_needed FILE: nothing but the C library is loaded at run time
    local unexpected
    unexpected=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vxE 'lib(c|m|pthread|dl)\.so\.[0-9]+|ld-linux-[a-z0-9_-]+\.so\.[0-9]+' || true)
    [[ -z $unexpected ]] || fail "${1##*/} needs $unexpected"
}

check_libraries() {
    readelf -d "$lib/libattest.so" | grep -q "(SONAME).*\[libattest.so.$SOVERSION\]" ||
        fail "the soname is not libattest.so.$SOVERSION"
    check_needed "$lib/libattest.so"
    check_needed "$root$prefix/bin/attest"
}

extract_example() { # the first C block of the README is a whole program
    awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' README.md >"$1"
    grep -q 'int main' "$1" || fail "README.md has no C program"
}

pkg() {
    PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$lib/pkgconfig pkg-config "$@" attest
}

check_pkg_config() {
    local flags
    same "versions" "$VERSION" "$(pkg --modversion)"
    read -ra flags <<<"$(pkg --cflags --libs)"
    quietly "$CC" -std=c11 "${strict[@]}" "$scratch/example.c" "${flags[@]}" -o "$scratch/example"
    LD_LIBRARY_PATH=$lib quietly "$scratch/example"
    quietly "$CXX" -std=c++11 "${strict[@]}" tests/install/caller.cpp "${flags[@]}" -o "$scratch/caller"
    LD_LIBRARY_PATH=$lib quietly "$scratch/caller"
    read -ra flags <<<"$(pkg --static --cflags --libs)"
    quietly "$CC" -std=c11 "${strict[@]}" -static "$scratch/example.c" "${flags[@]}" -o "$scratch/example"
    quietly "$scratch/example"
}

configure() { # configure WANTED_VERSION
    cmake -S tests/install -B "$scratch/cmake-$1" -DCMAKE_PREFIX_PATH="$root$prefix" \
        -DATTEST_WANTED="$1" -DREADME_EXAMPLE="$scratch/example.c" \
        -DCMAKE_C_COMPILER="${CC%% *}" -DCMAKE_CXX_COMPILER="${CXX%% *}"
}

check_peer() { # the example plug-in is built by its own Makefile and taken by the installed program
    cp -r examples/peer "$scratch"
    PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$lib/pkgconfig \
        quietly make --no-print-directory -C "$scratch/peer" CC="$CC"
    (cd "$scratch/peer" && quietly "$root$prefix/bin/attest" verify b1h2s16d8,f32 --peer plain_peer.so)
    grep -q '^2 passed, 0 failed' "$scratch/log" || fail "the example plug-in does not pass"
}

check_cmake() {
    local program
    quietly configure "$VERSION"
    quietly cmake --build "$scratch/cmake-$VERSION"
    for program in {c,cxx}_{shared,static}; do
        quietly "$scratch/cmake-$VERSION/$program"
    done
    ! configure 99.0 >/dev/null 2>&1 || fail "the CMake package claims to be version 99"
}

check_plain_words() { # what plain_words takes and refuses
    local line words
    plain_words "attest verify --kernel 'fwd_sm80*' -o a/b.json  # these; \$(rm) alone" ||
        fail 'a plain command is refused'
    same 'words' "attest verify --kernel fwd_sm80* -o a/b.json" "${words[*]}"
    # shellcheck disable=SC2016 # nothing may be expanded
    for line in 'attest run $(id)' 'attest run `id`' 'attest run; id' 'attest run >x' 'attest run "$HOME"' 'attest run *' \
        'attest run a|b' 'attest run a&' "attest run 'a b'" 'attest run ~' 'attest run {a,b}' 'attest run \x'; do
        ! plain_words "$line" || fail "taken for a plain command: $line"
    done
}

check_page_commands() { # the attest commands of the README and of docs/command-line.md hold as they stand; without a GPU, those for one exit 3
    local line file words=() gpu=true count=0
    "$root$prefix/bin/attest" doctor --device cuda >/dev/null 2>&1 || [[ $? -ne 3 ]] || gpu=false
    while IFS= read -r line; do
        plain_words "$line" || fail "this test runs plain words only: $line"
        count=$((count + 1))
        # The same command, in less time.
        [[ ${words[1]} != bench || $line == *' --seconds '* ]] || words+=(--seconds 0 --min-samples 3)
        [[ $line != *' --processes 5 '* ]] || words+=(--processes 2)
        words=("$root$prefix/bin/attest" "${words[@]:1}")
        if [[ $line == *'--device cuda'* ]] && ! $gpu; then
            "${words[@]}" >"$scratch/log" 2>&1 || [[ $? -eq 3 ]] || fail "without a GPU does not exit 3: $line"
        elif [[ $line == *' --aa '* || $line == *' --baseline '* || $line == 'attest compare '* ]]; then
            # No test depends on a time: these may or may not find a difference.
            for file in before after; do
                [[ -e $scratch/$file.json ]] || cp "$scratch/r.json" "$scratch/$file.json"
            done
            (cd "$scratch" && "${words[@]}" >log 2>&1) || [[ $? -eq 1 ]] ||
                fail "neither holds nor finds a difference: $line: $(head -c 600 "$scratch/log")"
        else
            (cd "$scratch" && quietly "${words[@]}")
        fi
    done < <(awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside && /^attest /' README.md docs/command-line.md)
    ((count >= 15)) || fail "README.md and docs/command-line.md have $count attest commands"
}

check_program() { # check_program FILE: it runs, away from the sources, without knowing where they are
    (cd / && quietly "$1" info)
    (cd / && quietly "$1" verify --suite seed)
    objcopy --strip-debug "$1" "$scratch/stripped"
    ! grep -qF "$source_root" "$scratch/stripped" || fail "$1 holds the path of its sources"
}

check_copied_build() {
    mkdir -p "$scratch/elsewhere/copy"
    # What `make` leaves for users. Objects, tests and variants are left out: other tests may be writing them.
    find "$BUILD" -mindepth 1 -maxdepth 1 -regex '.*/\(attest\|libattest\..*\|devices\|peers\|python\|suites\)' \
        -exec cp -r -t "$scratch/elsewhere/copy" {} +
    check_program "$scratch/elsewhere/copy/attest"
}

check_manual() {
    same "the man page and its warnings" "" "$(groff -mandoc -ww -Tutf8 -z man/attest.1 2>&1)"
}

check_uninstall() {
    quietly in_make uninstall
    same "files after uninstall" "" "$(find "$root" ! -type d)"
}

quietly in_make install
check_files
check_header_alone
check_symbols
check_libraries
extract_example "$scratch/example.c"
check_pkg_config
check_cmake
check_peer
check_plain_words
check_page_commands
check_program "$root$prefix/bin/attest"
check_copied_build
check_manual
check_uninstall
echo "install: files, header, symbols, dependencies, pkg-config, CMake, plug-in, README, man page and a copied build hold"
