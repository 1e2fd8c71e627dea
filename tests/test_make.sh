#!/usr/bin/env bash
# test_make.sh: the output of make: short lines, whole commands with V=1, nothing with -s; warnings are errors only with
# WERROR=1.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
}

printed() { # printed OPTION...: by the compilation of one file, in a folder of its own, whatever make this is called from
    rm -rf "$scratch/build"
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u WERROR -u V make --no-print-directory NVCC= BUILD="$scratch/build" "$@" \
        "$scratch/build/obj/src/base/error.o" 2>&1
}

check 'one short line' test "$(printed)" = '  CC    src/base/error.c'
check 'nothing with -s' test -z "$(printed -s)"
whole=$(printed V=1)
check 'the whole command with V=1' grep -q -- ' -c src/base/error.c -o ' <<<"$whole"
check 'warnings are no errors by themselves' test "$(grep -c -- -Werror <<<"$whole")" -eq 0
check 'they are with WERROR=1' test "$(printed V=1 WERROR=1 | grep -c -- -Werror)" -eq 1

echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
