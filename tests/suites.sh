#!/usr/bin/env bash
# suites.sh: verify the problems of suites/ on every instruction set that the program can use here.
#
#   BUILD=build VERIFY_SUITES="backward_edge edge quick moe_edge merge" tests/suites.sh [ISA...]     default: those five, all there are
#
# The program exits with 3 if an instruction set is missing; its suites are then skipped.
set -uo pipefail

attest=${BUILD:-build}/attest
export ATTEST_AMX_F32=1 # on AMX, float32 too: left to itself it goes to the AVX-512 kernel, which has its own turn
export ATTEST_ALLOW_UNATTESTED=1 # the kernels for NEON have no evidence
isas=("$@")
[[ ${#isas[@]} -gt 0 ]] || isas=(portable avx2 avx512 avx512_bf16 amx neon)
commands=()

here=
for isa in "${isas[@]}"; do
    "$attest" explain b1h1s1d1 --isa "$isa" >/dev/null 2>&1
    if [[ $? -eq 3 ]]; then
        commands+=("echo skipped: suites: no $isa here")
    else
        here+=${here:+,}$isa
    fi
done

# In one process, so that all of them are judged by the same references, which take longest.
if [[ -n $here ]]; then
    for suite in ${VERIFY_SUITES:-backward_edge edge quick moe_edge merge}; do
        commands+=("$attest verify --suite $suite --isa $here")
    done
fi

exec tests/run.sh -j "$(nproc)" "${commands[@]}"
