#!/usr/bin/env bash
# test_variants.sh: ablate and tune, on a GPU that computes on the host and whose times follow from the flags of the code
# (tests/fake_cuda/fake_kernel.h).
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

fakes=$BUILD/tests/fake_cuda
use_images
expect 'tune without a GPU' 3 err='the kernels of the CPU have no constants' -- tune b1h1s17d16
expect 'tune, the CPU by name' 3 err='the kernels of the CPU have no constants' -- tune b1h1s17d16 --device cpu
expect 'tune without a GPU leaves no document' 3 -- tune b1h1s17d16 --json none.json
check 'none at all' test ! -e none.json
expect 'ablate without a GPU, of a suite into a document' 3 err='a GPU is needed' -- ablate --json none.json
expect 'ablate without a GPU, a kernel of one' 3 err='a GPU is needed' -- ablate b1h1s17d16 --kernel 'fwd_sm80*'
expect 'ablate without a GPU, a mistake' 2 err='unknown shape key' -- ablate q7
expect 'ablate without a GPU' 3 err='the kernels of the CPU have no constants' -- ablate b1h1s17d16
export ATTEST_ALLOW_UNATTESTED=1 # the fake GPU is of an architecture without evidence
export ATTEST_LIBCUDA=$fakes/libfake_cuda.so ATTEST_LIBNVRTC=$fakes/libfake_nvrtc.so
export ATTEST_LIBCUBLAS=/nonexistent/libcublas.so XDG_CACHE_HOME=$scratch/cache FAKE_CUDA_COMPUTES=1
export FAKE_CUDA_CC=80 # a GPU whose kernels are those of fwd_sm80
switches=$(grep -c '^ATT_SWITCH(fwd_sm80,' "$root/kernels/switches.def")

# Merge kernels have neither tiles nor switches.
expect 'tune of another operation' 3 err='the kernels of merge have no constants to vary' -- tune merge:n2b1h1s4d8 --budget 1
expect 'ablate of another operation' 3 err='the kernels of merge have no constants to vary' -- ablate merge:n2b1h1s4d8

# Ablation.
expect 'the list of switches' 0 out='^fwd_sm80 +SWIZZLE +rows of shared memory' -- ablate --list
check 'all of them' test "$(grep -c '^fwd_sm80 ' .out)" = "$switches"
expect 'ablate' 0 out='^without SWIZZLE +pass +[0-9.]+ +\[.*\] +\+[0-9.]+ %.*SLOWER$' -- \
    ablate b1h1s17d16 --seconds 0 --json ablation.json
check 'ablate counts' grep -qE '^[0-9]+ passed, 0 failed' .out
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
XDG_CACHE_HOME=$scratch/empty FAKE_NVRTC_MS=100 TERM=xterm python3 "$tests_folder/terminal.py" 80 err ablate b1h1s17d16 --seconds 0 --min-samples 2 >drawn.txt
check 'a bar while variants are compiled' grep -qE "compiling variants [1-9][0-9]*/$((2 * switches + 1))" drawn.txt
FAKE_CUDA_WRONG=-DUSE_SWIZZLE=0 expect 'a wrong answer is not timed' 1 out='^FAIL without SWIZZLE: ' -- \
    ablate b1h1s17d16 --seconds 0 --min-samples 2 --json wrong.json
check 'and has no samples' json wrong.json \
    '[v["outcome"] for v in d["variants"] if v["name"] == "without SWIZZLE"] == ["fail"] and not any(v["samples_ns"] for v in d["variants"] if v["outcome"] == "fail")'
expect 'a kernel without switches' 3 err='naive.cu has no switches' -- ablate b1h1s17d16 --kernel naive_sm80 --allow-slow
expect 'one problem a document' 2 err='--json holds one problem' -- ablate b1h1s17d16 b1h1s18d16 --json two.json
ATTEST_LIBNVRTC=/nonexistent/libnvrtc.so CUDA_HOME='' expect 'no compiler' 3 err='compiled here, but NVRTC' -- ablate b1h1s17d16

# The kernels of Hopper: their own blocks and tiles.
hopper=(b1h2s40d64 --kernel fwd_sm90_f16_d64_m192n128s4 --seconds 0 --min-samples 3)
FAKE_CUDA_CC=90 expect 'ablate fwd_sm90' 0 out='^without CARRY +pass' -- ablate "${hopper[@]}" --json hopper.json
check 'its own switches' json hopper.json \
    "d['kernel'] == 'fwd_sm90_f16_d64_m192n128s4' and len(d['switches']) == $(grep -c '^ATT_SWITCH(fwd_sm90,' "$root/kernels/switches.def")"
small=(b1h2s40d64 --kernel fwd_sm90_small_f16_d64_m64n64s4w8 --seconds 0 --min-samples 3)
FAKE_CUDA_CC=90 expect 'ablate fwd_sm90_small' 0 out='^without EARLY_LAUNCH +pass' -- ablate "${small[@]}" --json small.json
check 'its own switches, too' json small.json \
    "d['kernel'] == 'fwd_sm90_small_f16_d64_m64n64s4w8' and len(d['switches']) == $(grep -c '^ATT_SWITCH(fwd_sm90_small,' "$root/kernels/switches.def")"
FAKE_CUDA_CC=90 expect 'tune fwd_sm90' 0 out='^tried +8 variants, 0 refused, 0 with wrong answers' -- tune "${hopper[@]}" --trials 8 -o hopper.rows

# Tuning.
quick=(--seconds 0 --min-samples 6)
expect 'tune wants a shape' 2 err='expected a shape' -- tune
expect 'tune, a population' 2 err='--population 3: expected 4 to 64' -- tune b1h1s17d64 --population 3
expect 'tune, one record a problem' 2 err='--state holds one problem' -- tune b1h1s17d64 b1h1s18d64 --state s
expect 'tune' 0 out='^verdict  FASTER: -[0-9.]+ %' -- tune b1h1s17d64 --trials 48 "${quick[@]}" -o my.rows --json tune.json
check 'a row is written' grep -qE '^id +=' my.rows
check 'with its provenance' test "$(grep -cE '^(source|problem|date|verdict|driver|uuid|attest|code) +=' my.rows)" = 8
check 'the document of tune' json tune.json \
    'd["schema"] == "attest-tune-1" and d["results"][0]["verdict"] == "FASTER" and len(d["results"][0]["tuned"]["samples_ns"]) >= 12 and d["results"][0]["row"].startswith("[row]")'
expect 'the row serves' 0 out='^chosen +user_fwd_sm80_f16_d64_' -- explain b1h1s17d64 --rows my.rows
ATTEST_ROWS=my.rows expect 'the row by the environment' 0 out='user_fwd_sm80_f16_d64_[0-9a-f]+ +[0-9]' -- bench b1h1s17d64 --seconds 0
ATTEST_ROWS=my.rows expect 'ablate varies what ships' 0 out='^kernel +fwd_sm80_f16_d64_' -- ablate b1h1s17d64 --seconds 0 --min-samples 2
expect 'and no other problem' 0 out='^refused +user_.*seq_q: seq_q=18 is not in the 17\.\.17' -- explain b1h1s18d64 --rows my.rows
expect 'nor another GPU' 0 out="^refused +user_.*device: is for a Fake GPU 0" -- explain b1h1s17d64 --rows my.rows --device cuda:1
expect 'info lists it' 0 out='^user_fwd_sm80_f16_d64_.*a user.s row: fwd_sm80_f16_d64' -- info --rows my.rows
sed 's/^tile .*/tile = m1n1s1w1/' my.rows >bad.rows
expect 'a bad row' 2 err='bad\.rows:[0-9]+: tile: m1 is not' -- info --rows bad.rows
expect 'no rows file' 2 err='absent\.rows: No such file' -- info --rows absent.rows
trials=$(grep -c '"outcome"' my.rows.*.state)
expect 'tune goes on' 0 out="^resumed  $trials trials" -- tune b1h1s17d64 --trials 54 "${quick[@]}" -o my.rows --resume
check 'one row still' test "$(grep -c '^id' my.rows)" = 1
expect 'a record that is replaced' 0 err='^note: the record of an earlier search is replaced' -- tune b1h1s17d64 --trials 1 "${quick[@]}" -o my.rows
expect 'not on from another seed' 3 err='search\.seed: is 0' -- tune b1h1s17d64 --trials 54 "${quick[@]}" -o my.rows --resume --seed 1
FAKE_CUDA_WRONG=-DWARPS=4 expect 'tune finds wrong answers' 1 out='trial .*WRONG: ' -- tune b1h1s17d64 --trials 12 "${quick[@]}" -o wrong.rows
expect 'no time, no row' 0 out='^row +none written' -- tune b1h1s17d64 --budget 0 -o none.rows
check 'no file either' test ! -e none.rows
finish
