#!/usr/bin/env bash
# test_variants.sh: ablate and tune, on a GPU that computes on the host and whose times follow from the flags of the code
# (tests/fake_cuda/fake_kernel.h).
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

fakes=$BUILD/tests/fake_cuda
expect 'ablate without a GPU' 3 err='the kernels of the CPU have no constants' -- ablate b1h1s17d16
export ATTEST_LIBCUDA=$fakes/libfake_cuda.so ATTEST_LIBNVRTC=$fakes/libfake_nvrtc.so
export ATTEST_LIBCUBLAS=/nonexistent/libcublas.so XDG_CACHE_HOME=$scratch/cache FAKE_CUDA_COMPUTES=1
switches=$(grep -c '^ATT_SWITCH(fwd_sm80' "$root/kernels/switches.def")

# Ablation.
expect 'ablate' 0 out='^without SWIZZLE +pass +[0-9.]+ +\[.*\] +\+[0-9.]+ %.*SLOWER$' -- \
    ablate b1h1s17d16 --seconds 0 --json ablation.json
check 'the waterfall ends with all on' grep -qE '^  \+ EARLY_COMBINE +\|' .out
check 'and begins with all off' grep -qE '^  all off +\|=+\| +[0-9.]+ us$' .out
check 'the document' json ablation.json \
    "d['schema'] == 'attest-ablation-1' and d['kernel'].startswith('fwd_sm80_f16_') and len(d['variants']) == 2 * $switches + 1"
check 'every kind' json ablation.json \
    "[sum(v['kind'] == k for v in d['variants']) for k in ('all_on', 'one_off', 'all_off', 'cumulative')] == [1, $switches, 1, $switches - 1]"
check 'samples, medians and verdicts' json ablation.json \
    'all(v["outcome"] == "pass" and len(v["samples_ns"]) >= 20 and v["low_ns"] <= v["median_ns"] <= v["high_ns"] for v in d["variants"]) and all(v["contribution"]["verdict"] == "SLOWER" for v in d["variants"] if v["kind"] == "one_off")'
check 'one off is one off' json ablation.json \
    'all(list(v["switches"].values()).count(False) == 1 for v in d["variants"] if v["kind"] == "one_off")'
check 'cumulative adds one at a time' json ablation.json \
    '[list(v["switches"].values()).count(True) for v in d["variants"] if v["kind"] in ("all_off", "cumulative")] == list(range(len(d["switches"])))'
FAKE_CUDA_WRONG=-DUSE_SWIZZLE=0 expect 'a wrong answer is not timed' 1 out='^FAIL without SWIZZLE: ' -- \
    ablate b1h1s17d16 --seconds 0 --min-samples 2 --json wrong.json
check 'and has no samples' json wrong.json \
    '[v["outcome"] for v in d["variants"] if v["name"] == "without SWIZZLE"] == ["fail"] and not any(v["samples_ns"] for v in d["variants"] if v["outcome"] == "fail")'
expect 'a kernel without switches' 3 err='naive.cu has no switches' -- ablate b1h1s17d16 --kernel naive_sm80 --allow-slow
expect 'one problem a document' 2 err='--json holds one problem' -- ablate b1h1s17d16 b1h1s18d16 --json two.json
ATTEST_LIBNVRTC=/nonexistent/libnvrtc.so CUDA_HOME='' expect 'no compiler' 3 err='compiled here, but NVRTC' -- ablate b1h1s17d16
finish
