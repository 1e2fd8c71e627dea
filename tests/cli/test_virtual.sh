#!/usr/bin/env bash
# test_virtual.sh: attest --device virtual: GPU kernels on the CPU.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

ATTEST_VIRTUAL_CACHE=$scratch/cache
export ATTEST_VIRTUAL_CACHE

# If it is not built.
mkdir -p bare/virtual
cp "$BUILD/attest" bare/attest
PATH=$scratch/bare:$path
expect 'not built' 3 err="the virtual GPU is not built; 'make virtual'" -- verify b1h1s16d64 --device virtual
touch bare/virtual/libcuda.so
expect 'built in part' 3 err="'make virtual'" -- verify b1h1s16d64 --device virtual
use_shipped

# Verbs for which its times mean nothing, and names that are not devices.
for verb in bench demo ablate tune certify profile doctor audit; do
    expect "$verb refuses it" 2 err='--device virtual is for verify, run, explain and info' -- "$verb" --device virtual
done
expect 'another name' 2 err='expected cpu, cuda, cuda:N or virtual' -- verify b1h1s16d64 --device virtual1

# What works.
expect 'info' 0 out='Virtual GPU 0: compute capability 9.0, 2 SMs' -- info --device virtual
expect 'a kernel runs' 0 out='naive_sm80 .* pass' -- verify b1h1s40d64,causal --device virtual --allow-slow --kernel naive_sm80
expect 'the device is named' 0 out='^device: the virtual GPU' -- verify b1h1s40d64,causal --device virtual --allow-slow --kernel naive_sm80
check 'the code is kept' test -n "$(ls "$ATTEST_VIRTUAL_CACHE")"
expect 'a result to keep' 0 -- verify b1h1s40d64 --device virtual --allow-slow --kernel naive_sm80 --json verify.json
check 'the document names it' grep -q 'Virtual GPU 0' verify.json
expect 'a mask names both kernels' 0 out='^chosen +fwd_sm90_bf16_d128_mask_.*; the mask is read by mask_sm90, grid 1 x 8 x 1' -- \
    explain b2h2s64sk300d128,bf16,bias=bool:1111 --device virtual
expect 'the reader of masks by itself' 0 out='^refused +mask_sm90 +role: reads masks for other kernels' -- \
    explain b2h2s64sk300d128,bf16,bias=bool --device virtual
expect 'a refusal says how to see it again' 3 out='--device virtual ' -- verify b1h1s40d64 --device virtual --kernel 'decode_sm80*'

# Sources from another folder, with faults in them; cached code must not be used for them.
mkdir faulty
cp -r "$root/kernels" faulty/
plant() { # plant FILE EXPRESSION: a change of the sources
    cp "$root/kernels/$1" "faulty/kernels/$1"
    sed -i -E "$2" "faulty/kernels/$1"
    check "the fault in $1 is one" test -n "$(diff "$root/kernels/$1" "faulty/kernels/$1")"
}
export ATTEST_VIRTUAL_SOURCES=$scratch/faulty
expect 'sources without a fault' 0 out='1 passed' -- verify b1h1s40d64,causal --device virtual --allow-slow --kernel naive_sm80
plant naive.cu '0,/^#include/s//#error planted\n#include/'
expect 'a source that does not compile' 3 out='kernels/naive.cu:[0-9]+:[0-9]+: error: #error planted' -- \
    verify b1h1s40d64,causal --device virtual --allow-slow --kernel naive_sm80
cp "$root/kernels/naive.cu" faulty/kernels/
plant tiled.cu 's/__syncthreads\(\);//'
expect 'barriers that are missing' 1 err='^virtual GPU: (race|uninitialised): ' -- verify b1h1s70d64 --device virtual --allow-slow --kernel 'tiled*'
unset ATTEST_VIRTUAL_SOURCES

# The requested compiler.
ATTEST_VIRTUAL_CXX=/nonexistent/c++ expect 'no compiler' 3 out='/nonexistent/c\+\+ cannot be run' -- \
    verify b1h1s40d64 --device virtual --allow-slow --kernel naive_sm80

finish
