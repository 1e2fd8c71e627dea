#!/usr/bin/env bash
# aarch64.sh: the CPU engine of a build for aarch64, on such a machine or under qemu-user.
#
#   BUILD=build/aarch64-linux-gnu RUN="qemu-aarch64 ..." PYTHON="env ... python3" tests/aarch64.sh UNIT_TEST...
#
# `make test-aarch64` sets them; RUN is empty on such a machine. All problems of the suites of merge and experts are verified, and
# the smallest with every feature of those of attention and gradients: on NEON attention in every type and gradients in two, in
# plain C, which other machines test too, both in one. qemu is slow. Random problems of attention are
# drawn for NEON alone.
set -uo pipefail

: "${BUILD:?}" "${RUN=}" "${PYTHON:?}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# some_of SUITE TYPES: its problems, the smallest first, without those that bring nothing new: no head dimension, and no feature (less
# its numbers, and the shape of a bias) in one of its first TYPES types, that no problem before had.
some_of() {
    awk -F, '/^[^#]/ {
        shape = $1
        sub(/.*:/, "", shape)
        gsub(/[a-z]+/, " &=", shape)
        delete size
        count = split(shape, parts, " ")
        for (i = 1; i <= count; i++) {
            split(parts[i], pair, "=")
            size[pair[1]] = pair[2]
        }
        print size["b"] * size["h"] * size["s"] * ("sk" in size ? size["sk"] : size["s"]) * size["d"], size["d"], $0
    }' "suites/$1.txt" | sort -n -k1,1 -s | awk -v types="$2" '{
        new = 0
        count = split($3, words, ",")
        for (i = 3; i <= count; i++) {
            sub(/:.*/, "", words[i])
            gsub(/[0-9.]+/, "#", words[i])
            if (!seen[words[2], words[i]]++)
                new += count_of[words[i]]++ < types
        }
        if (!seen[$2]++ || new)
            print $3
    }'
}

export ATTEST_ALLOW_UNATTESTED=1 # the kernels for NEON have no evidence
commands=("env ATTEST_ALLOW_UNATTESTED=0 $PYTHON tests/aarch64_import.py" "$PYTHON tests/aarch64_import.py")

verify() { # verify ISAS LIST: commands for a list of problems, in two halves for two processors
    local half
    for half in 0 1; do
        awk -v half="$half" 'NR % 2 == half' "$scratch/$2.txt" >"$scratch/$2.$half.txt"
        commands+=("$RUN $BUILD/attest verify --device cpu --isa $1 --suite $scratch/$2.$half.txt")
    done
}

some() { # some SUITE TYPES: the problems in one type on both, judged by the same references, and what TYPES types add on NEON
    some_of "$1" 1 >"$scratch/$1.both.txt"
    some_of "$1" "$2" | grep -vxFf "$scratch/$1.both.txt" >"$scratch/$1.neon.txt"
    verify portable,neon "$1.both"
    verify neon "$1.neon"
}
some backward_edge 2
some edge 3
for suite in moe_edge merge; do
    commands+=("$RUN $BUILD/attest verify --device cpu --isa portable,neon --suite $suite")
done
for kind in problems gradients; do
    commands+=("env ATTEST_PROPERTY_COUNT=40 $RUN $BUILD/tests/property/test_random *random_$kind*[neon]")
done
commands+=("env ATTEST_PROPERTY_COUNT=40 $RUN $BUILD/tests/property/test_moe_random")
for test in "$@"; do
    commands+=("env -u ATTEST_ALLOW_UNATTESTED $RUN $test")
done
tests/run.sh -j "$(nproc)" "${commands[@]}"
