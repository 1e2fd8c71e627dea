#!/usr/bin/env bash
# stand_in_images.sh: write files that replace compiled kernels, for tests on a machine without nvcc.
#
#   tests/fake_cuda/stand_in_images.sh FOLDER ROWS_MK
#
# ROWS_MK is the output of scripts/cuda_rows.c. FOLDER gets the files that nvcc would make: ID.sm_80.fatbin and
# ID.compute_80.fatbin if a target is 8.x, ID.sm_90a.fatbin if one is 9.0. They begin like a fat binary and contain their
# name, which is all that the fake driver and the tests read.
set -euo pipefail

folder=$1
rows=$2

write_image() { # write_image NAME: 256 bytes and the name, so that no two are equal
    printf '\x50\xed\x55\xba%-252s%s\n' 'stands in for' "$1" >"$folder/$1.fatbin"
}

mkdir -p "$folder"
rm -f "$folder"/*.fatbin
while IFS=, read -r _ id _ targets; do
    targets=${targets%%)*}
    if [[ $targets == *' 8'* ]]; then
        write_image "$id.sm_80"
        write_image "$id.compute_80"
    fi
    [[ $targets != *' 9'* ]] || write_image "$id.sm_90a"
done <"$rows"
