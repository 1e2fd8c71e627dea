#!/usr/bin/env bash
# examples.sh: the examples as a newcomer meets them: out of the tree, against an installed attest.
#
# The commands of examples/README.md are run as they stand, with a home folder of their own. Then each program
# must see what is wrong: a mistake in a call, and faults planted in a copy of the decode loop.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${CC:=cc}" "${CXX:=c++}"
source_root=$PWD
# shellcheck source=tests/quietly.sh
source tests/quietly.sh
export CC HOME=$scratch PKG_CONFIG_PATH=$scratch/attest/lib/pkgconfig
strict=(-Wall -Wextra -Wshadow -Wconversion -pedantic -Werror)

says() { # says TEXT: the last command said so
    grep -qF -- "$1" "$scratch/log" || fail "not said: $1"$'\n'"$(<"$scratch/log")"
}

check_readme() { # `make install` belongs to the tree, everything else to the copy
    awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' examples/README.md |
        sed "s|^make install|make --no-print-directory -C '$source_root' install|" >"$scratch/commands"
    grep -q 'decode/decode' "$scratch/commands" || fail "examples/README.md has no commands"
    (cd "$scratch" && quietly bash -eu ./commands)
    [[ $(grep -c '^row 127 is the mean' "$scratch/log") -eq 2 ]] || fail "call does not run by both builds"
    says ': holds'
}

check_call() {
    local flags
    quietly make -B -C "$scratch/examples/c" CFLAGS="${strict[*]}"
    ! "$scratch/examples/c/call" 7 >"$scratch/log" 2>&1 || fail "call takes 7 heads over 2"
    says 'att_plan_create: ATT_E_ARG'
    says 'field  heads_q'
    says 'text   heads_q=7 is not a multiple of heads_kv=2'
    read -ra flags <<<"$(pkg-config --cflags --libs attest)"
    quietly "$CXX" -std=c++17 "${strict[@]}" -x c++ "$scratch/examples/c/call.c" -x none "${flags[@]}" -o "$scratch/call"
    LD_LIBRARY_PATH=$scratch/attest/lib quietly "$scratch/call"
}

check_decode() { # clean under the sanitizers; by another kernel; sequences do step back, so that path is among the checked
    quietly make -B -C "$scratch/examples/decode" CFLAGS="-O1 -g ${strict[*]} -fsanitize=address,undefined"
    ATTEST_ISA=portable quietly "$scratch/examples/decode/decode"
    says 'decode_cpu_portable'
    says '0 now'
    ! grep -q ' 0 sent back' "$scratch/log" || fail "no sequence was sent back for want of pages"
}

plant() { # plant FROM TO: the loop with this fault must find itself wrong
    cp -r "$scratch/examples/decode" "$scratch/planted"
    sed -i "s|$1|$2|" "$scratch/planted/decode.c"
    ! cmp -s "$scratch/planted/decode.c" "$scratch/examples/decode/decode.c" || fail "nothing to plant at: $1"
    quietly make -B -C "$scratch/planted"
    ! timeout 60 "$scratch/planted/decode" >"$scratch/log" 2>&1 || fail "not noticed: $2"
    says 'WRONG'
    rm -r "$scratch/planted"
}

cp -r examples "$scratch"
check_readme
check_call
check_decode
plant 'lens_k\[i\] = s->count;' 'lens_k[i] = s->count - 1;'
plant '\[page\] = s->page_id\[page\];' '[page] = s->page_id[0];'
plant 's->cached = 0;' 's->cached = s->count - 1;'
echo "examples: README, pkg-config, CMake, C++17 and errors hold; the decode loop is right, and notices 3 planted faults"
