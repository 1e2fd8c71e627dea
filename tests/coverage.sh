#!/usr/bin/env bash
# coverage.sh: print how much of src/ the tests reach, and fail below 90 % of its lines.
#
#   BUILD=build tests/coverage.sh     reads the output of the variant in $BUILD/coverage
#
# All of src/ counts. Only files for instruction sets that this processor lacks are left out, and listed: nothing could
# run them. (AMX is emulated in this variant and needs only AVX512-BF16; without AVX512-BF16 the AVX-512 kernels are
# emulated, and the headers with its instructions are not used.)
set -uo pipefail

least=90
build=${BUILD:-build}
flags=" $(sed -n 's/^flags[[:space:]]*: //p' /proc/cpuinfo | head -n 1) "
exclude=()

leave_out() { # leave_out FLAG FILE...: the files cannot run without the processor's FLAG
    local flag=$1 file
    shift
    [[ $flags == *" $flag "* ]] && return
    for file in "$@"; do
        echo "coverage: this processor has no $flag: $file is left out"
        exclude+=(--exclude "$file")
    done
}

leave_out avx2 src/attention/cpu/isa_avx2.c src/cpu/simd_avx2.h
leave_out avx512_bf16 src/cpu/simd_avx512.h src/attention/cpu/isa_amx.c 'src/attention/cpu/amx_.*'

if gcovr --root . --filter src/ "${exclude[@]}" --exclude-unreachable-branches \
    --fail-under-line "$least" --print-summary "$build/coverage/obj/src"; then
    echo "coverage: at or above $least % of lines"
    echo "1 passed, 0 failed"
else
    echo "coverage: below $least % of lines"
    echo "0 passed, 1 failed"
    exit 1
fi
