# common.sh: what the tests of the program share; sourced by each of them.
#
# Every test runs in its own folder, with `attest` on the path. A script ends with `finish`, which prints
# `N passed, N failed, N skipped`.
# shellcheck shell=bash
set -uo pipefail

tests_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$tests_folder/../.." && pwd)
BUILD=$(cd "${BUILD:-$root/build}" && pwd)
path=$PATH
export PATH=$BUILD:$path
unset ATTEST_ISA ATTEST_THREADS ATTEST_AMX_F32 ATTEST_SUITES ATTEST_DEVICES NO_COLOR
unset ATTEST_DEVICE ATTEST_KERNEL ATTEST_ALLOW_SLOW ATTEST_JIT ATTEST_LAB_EXACT
export ATTEST_ROWS= # the user who runs the tests may have set it
export ATTEST_LIBCUDA=/nonexistent/libcuda.so.1 # as on a machine without a GPU
export ATTEST_LIBNVML=/nonexistent/libnvidia-ml.so.1

# From here on `attest` has code for GPUs, even without nvcc: see mk/images.mk.
use_images() {
    PATH=$BUILD/tests/images:$path
}

# Use the installed program again.
use_shipped() {
    PATH=$BUILD:$path
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

passed=0
failed=0
skipped=0

pass() {
    passed=$((passed + 1))
}

fail() { # fail NAME REASON
    failed=$((failed + 1))
    echo "FAILED $1: $2"
}

skip() { # skip WHAT: say what was not tested, and why
    skipped=$((skipped + 1))
    echo "skipped: $1"
}

# expect NAME STATUS [out=PATTERN] [err=PATTERN] -- ARGUMENT...
# Run attest; its exit status and its output, as extended regular expressions, must be as given.
expect() {
    local name=$1 status=$2 out_pattern='' err_pattern=''
    shift 2
    while [[ $1 != -- ]]; do
        case $1 in
        out=*) out_pattern=${1#out=} ;;
        err=*) err_pattern=${1#err=} ;;
        *) fail "$name" "the test itself is wrong: $1" && return ;;
        esac
        shift
    done
    shift
    attest "$@" >"$scratch/.out" 2>"$scratch/.err"
    local actual=$?
    if ((actual != status)); then
        fail "$name" "attest $* exited $actual, not $status: $(head -c 600 "$scratch/.err")"
    elif [[ -n $out_pattern ]] && ! grep -qE -- "$out_pattern" "$scratch/.out"; then
        fail "$name" "attest $* did not print '$out_pattern': $(head -c 600 "$scratch/.out")"
    elif [[ -n $err_pattern ]] && ! grep -qE -- "$err_pattern" "$scratch/.err"; then
        fail "$name" "attest $* did not complain '$err_pattern': $(head -c 600 "$scratch/.err")"
    else
        pass
    fi
}

# check NAME COMMAND...: the command must succeed.
check() {
    local name=$1
    shift
    if "$@" >"$scratch/.log" 2>&1; then
        pass
    else
        fail "$name" "$* exited $?: $(head -c 600 "$scratch/.log")"
    fi
}

# build FILE.so SOURCE FLAG...: a plug-in.
build() {
    local out=$1 source=$2
    shift 2
    "${CC:-cc}" -O1 -Wall -Wextra -Wno-unused-function -Werror -shared -fPIC -I"$root/include" "$@" \
        -o "$out" "$source" -lm
}

# json FILE EXPRESSION: the document d makes the expression true.
json() {
    python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$1" "$2"
}

# A Python that has NumPy.
numpy_python() {
    local python
    for python in python3 /usr/bin/python3; do
        if "$python" -c 'import numpy' 2>/dev/null; then
            echo "$python"
            return 0
        fi
    done
    return 1
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0))
    exit
}
