#!/usr/bin/env bash
# examples.sh: the examples as a newcomer runs them: outside the tree, against an installed attest.
#
# This test runs the commands of examples/README.md, with its own home folder. Then each program must notice what is
# wrong: a mistake in a call, and faults planted in a copy of the decode loop.
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

readme_says() { # the commands of the page, which is compared, not run
    diff - <(awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 } inside' examples/README.md | sed 's/ *#.*//') ||
        fail 'examples/README.md has other commands than this test: change both'
}

check_readme() { # `make install` belongs to the tree, everything else to the copy
    readme_says <<'END'
make install PREFIX="$HOME/attest"
export PKG_CONFIG_PATH="$HOME/attest/lib/pkgconfig"
make -C examples/c && examples/c/call
make -C examples/decode && examples/decode/decode
cmake -S examples/c -B call-cmake -DCMAKE_PREFIX_PATH="$HOME/attest"
cmake --build call-cmake && call-cmake/call
END
    quietly make --no-print-directory install PREFIX="$HOME/attest"
    cd "$scratch"
    quietly make -C examples/c
    quietly examples/c/call
    says 'row 127 is the mean'
    quietly make -C examples/decode
    quietly examples/decode/decode
    says ': holds'
    quietly cmake -S examples/c -B call-cmake -DCMAKE_PREFIX_PATH="$HOME/attest"
    quietly cmake --build call-cmake
    quietly call-cmake/call
    says 'row 127 is the mean'
    cd "$source_root"
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
    ! grep -q ' 0 sent back' "$scratch/log" || fail "no sequence was sent back for lack of pages"
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
