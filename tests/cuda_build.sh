#!/usr/bin/env bash
# cuda_build.sh: the driver's functions have the signatures of its headers, the build of kernels compiles what changed
# and nothing else, and the library with all kernels is small enough. Needs nvcc, and says so if it is missing.
#
# `make test-cuda-build` sets NVCC, CC, STRIP, and LIBRARY, which was built with that nvcc.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${NVCC:=}" "${CC:=cc}" "${STRIP:=strip}"
bytes_most=20000000 # of the library without symbols, as it is installed
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "cuda_build: $*" >&2
    exit 1
}

# Every function as "name version shape", where the shape is the stars of each parameter.
our_calls() {
    printf '%s\n' '#include "cuda/driver.h"' '#define X(name, since, parameters) @name since parameters' \
        'ATT_CUDA_CALLS(X) ATT_CUDA_CALLS_OPTIONAL(X)' |
        "$CC" -Iinclude -Isrc -I. -E -P -x c - | tr '\n' ' ' | tr '@' '\n' |
        sed -nE 's/^([A-Za-z0-9]+) ([0-9]+) \((.*)\) *$/cu\1 \2 (\3)/p'
}

their_calls() { # their_calls HEADER
    sed -nE 's/^ *typedef CUresult \(CUDAAPI \*PFN_(cu[A-Za-z0-9]+)_v([0-9]+)\)(\(.*\));.*/\1 \2 \3/p' "$1"
}

shapes() {
    awk '{ parameters = $0; sub(/^[^(]*\(/, "", parameters)
           count = split(parameters, each, ",")
           shape = ""
           for (i = 1; i <= count; i++)
               shape = shape gsub(/\*/, "", each[i]) ","
           print $1, $2, shape }'
}

check_signatures() { # check_signatures HEADER
    local complaints
    complaints=$(awk 'NR == FNR { if (!(($1, $2) in shape)) versions[$1] = versions[$1] " " $2
                                  shape[$1, $2] = $3; next }
        { best = -1
          count = split(versions[$1], each, " ")
          for (i = 1; i <= count; i++)
              if (each[i] + 0 <= $2 + 0 && each[i] + 0 > best) best = each[i] + 0
          if (best < 0) print $1 ": not in the header"
          else if (shape[$1, best] != $3)
              print $1 " of version " best " has parameters " shape[$1, best] " not " $3 }' \
        <(their_calls "$1" | shapes) <(our_calls | shapes))
    [[ -z $complaints ]] || fail "$complaints"
    [[ $(our_calls | wc -l) -gt 50 ]] || fail "the list of calls was not read"
}

# A tree with two kernels of its own.
row() { # row ID SOURCE TILE
    echo "ATT_CUDA_KERNEL($1, $2, SM80, PLAIN, F32, 1, 1, $3, 1, 1, 4, \"a test's own\")"
}

plant_tree() { # plant_tree FOLDER
    mkdir -p "$1"
    cp -r Makefile mk include src scripts "$1"
    mkdir "$1/kernels"
    cp kernels/operations.def kernels/fwd_params.h kernels/fwd_mask_params.h "$1/kernels" # what the rows are made from
    printf '%s\n' '#include "kernels/shared.cuh"' \
        '__device__ __noinline__ static float twice(float x) { return x * TILE_M + SHARED; }' \
        'extern "C" __global__ void KERNEL(float *x) { *x = twice(*x); }' >"$1/kernels/one.cu"
    cp "$1/kernels/one.cu" "$1/kernels/two.cu"
    echo '#define SHARED 1' >"$1/kernels/shared.cuh"
    { row a one 1; row b one 2; row c two 1; } >"$1/kernels/rows.def"
}

build() { # build FOLDER [OUT]: the ids whose source was compiled, in order
    local out=${2:-out}
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -C "$1" --no-print-directory -j2 V=1 NVCC="$NVCC" CC="$CC" BUILD="$out" KERNELS_DEF=kernels/rows.def \
        "$out/cuda/embedded.c" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "the build fails"; }
    sed -nE 's/.* -ptx .* -DKERNEL=([a-z]+) .*/\1/p' "$scratch/log" | sort -u | tr '\n' ' '
}

expect() { # expect WHAT WANT GOT
    [[ $2 == "$3" ]] || fail "$1: \"$3\" was compiled, not \"$2\""
}

embedded_ids() {
    sed -nE 's/^ *\{"([a-z]+)", 80,.*/\1/p' "$1/out/cuda/embedded.c" | tr '\n' ' '
}

check_build() {
    local tree=$scratch/tree other=$scratch/elsewhere/tree
    plant_tree "$tree"
    expect "a new tree" "a b c " "$(build "$tree")"
    expect "an unchanged tree" "" "$(build "$tree")"
    { row a one 1; row b one 3; row c two 1; } >"$tree/kernels/rows.def"
    expect "another tile of b" "b " "$(build "$tree")"
    sleep 0.01
    touch "$tree/kernels/two.cu"
    expect "another source" "c " "$(build "$tree")"
    echo '#define SHARED 2' >"$tree/kernels/shared.cuh"
    expect "another header" "a b c " "$(build "$tree")"
    { row a one 1; row c two 1; } >"$tree/kernels/rows.def"
    expect "a row less" "" "$(build "$tree")"
    [[ $(embedded_ids "$tree") == "a c " ]] || fail "the row that is gone is still embedded"
    grep -q 'registers' "$tree/out/cuda/a.sm_80.ptxas" || fail "what ptxas says is not kept"

    # Neither comments nor paths nor the build folder change the machine code.
    plant_tree "$other"
    echo '#define SHARED 2 /* as there */' >"$other/kernels/shared.cuh"
    build "$other" another/folder >/dev/null
    cmp "$tree/out/cuda/a.sm_80.fatbin" "$other/another/folder/cuda/a.sm_80.fatbin" ||
        fail "the code of a kernel depends on where it was built"
}

check_size() { # check_size LIBRARY
    local bytes
    "$STRIP" --strip-unneeded -o "$scratch/library" "$1"
    bytes=$(stat -c %s "$scratch/library")
    ((bytes < bytes_most)) || fail "$1 has $bytes bytes without symbols; at most $bytes_most are allowed"
}

if [[ -z $NVCC ]]; then
    echo 'skipped: no nvcc, so no kernels are compiled here'
    exit 0
fi
header=$(dirname "$(dirname "$(readlink -f "$NVCC")")")/include/cudaTypedefs.h
if [[ -f $header ]]; then
    check_signatures "$header"
else
    echo "skipped: no cudaTypedefs.h beside nvcc to check signatures by"
fi
check_build
check_size "$LIBRARY"
echo "cuda_build: signatures, incremental builds, digests and the size of the library hold"
