#!/usr/bin/env bash
# test_moe.sh: the verbs on mixtures of experts: explained, run, verified, timed, compared; unknown words are named.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

line=moe:t9e8k2h16i12,f32,ids,weights,counts
shape='d["results"][0]["problem"] == {"operation": "moe", "tokens": 9, "hidden": 16, "inner": 12, "experts": 8, "experts_per_token": 2, "dtype": "f32", "dtype_y": "f32", "activation": "swiglu", "routing": "softmax", "spec": "'$line'"}'

expect 'explain' 0 out='^chosen +moe_cpu_portable ' -- explain $line --isa portable --json explain.json
check 'explain json' json explain.json "$shape"' and d["results"][0]["kernel"] == "moe_cpu_portable"'
check 'no kernel of attention is listed' test "$(grep -c 'fwd_\|decode_\|merge_' .out)" -eq 0

expect 'run' 0 out="^problem +$line\$" -- run $line --isa portable --trace --json run.json
check 'run json' json run.json "$shape"' and d["results"][0]["kernel"] == d["results"][0]["launch"]["kernel"] == "moe_cpu_portable" and d["results"][0]["median_ns"] > 0'
check 'six operations a weight and token' json run.json 'd["results"][0]["flops"] == 6 * 9 * 2 * 16 * 12'
expect 'four without a gate' 0 -- run moe:t9e8k2h16i12,act=relu2 --json ungated.json
check 'in json' json ungated.json 'd["results"][0]["flops"] == 4 * 9 * 2 * 16 * 12'
expect 'run of nothing' 0 -- run moe:t0e8k2h16i12

expect 'verify' 0 out='^5 passed, 0 failed$' -- verify $line moe:t1e1k1h1i1,bf16 moe:t20e8k3h33i17,fp16,act=geglu,gate=interleaved,transposed,b1,b2,mask \
    moe:t20e16k4h8i8,route=sigmoid,correction,groups=4:2,scale=2.5,data=ties,ids moe:t20e8k2h8i8,route=given,data=holes,range=2:3,counts --json verify.json
check 'verify json' json verify.json "$shape"' and all(r["outcome"] == "pass" and r["error_y"]["kernel"] <= r["error_y"]["bar"] for r in d["results"])'
check 'ids and counts have no error' json verify.json 'all(d["results"][0]["error_" + n]["kernel"] == d["results"][0]["error_" + n]["bar"] == 0 for n in ("ids", "counts"))'
check 'every row is judged, and the counts' json verify.json 'd["results"][0]["rows_checked"] == d["results"][0]["rows_total"] == 9 + 1'
expect 'flags apply' 0 out='moe:t3e8k2h16i12,f32' -- verify moe:t3e8k2h16i12 --dtype f32
expect 'and so does --with' 0 out='moe:t3e8k2h16i12,f32,act=silu' -- verify moe:t3e8k2h16i12 --with act=silu,f32
expect 'the suite' 0 out='^[0-9]+ passed, 0 failed$' -- verify --suite moe_edge --isa portable
check 'is all of mixtures' test "$(grep -c '^moe:' .out)" -eq "$(grep -c '^moe:' "$root/suites/moe_edge.txt")"
check 'a suite of timing' grep -q '^moe:t4096e128k8h2048i768,bf16$' "$root/suites/moe.txt"

quick=(--seconds 0 --min-samples 5 --max-samples 7 --isa portable)
expect 'bench' 0 out="$line +moe_cpu_portable" -- bench $line "${quick[@]}" --json a.json --csv a.csv
check 'bench json' json a.json "$shape"' and d["results"][0]["timed"] and 5 <= len(d["results"][0]["samples_ns"]) <= 7'
expect 'bench again, beside another' 0 -- bench $line b1h1s8d8 "${quick[@]}" --json b.json
attest compare a.json b.json >compared.txt 2>&1
check 'compare matches by lines' grep -qE "^$line +moe_cpu_portable .* (FASTER|SAME|SLOWER|AMBIGUOUS)\$" compared.txt

expect 'more experts than there are' 1 out='experts_per_token=9 is above experts=8' -- verify moe:t3e8k9h16i12
expect 'too many' 1 out='experts=5000 is above 4096' -- verify moe:t3e5000k2h16i12
expect 'an invalid gate' 1 out='gate=1 is set, but activation=4 has no gate' -- verify moe:t3e8k2h16i12,act=relu2,gate=apart
expect 'a correction of softmax' 1 out='ATT_MOE_CORRECTION, which only ATT_MOE_SIGMOID has' -- verify moe:t3e8k2h16i12,correction
expect 'groups of softmax' 1 out='only ATT_MOE_SIGMOID has groups' -- verify moe:t3e8k2h16i12,groups=4:2
expect 'an invalid modifier' 2 err="unknown modifier 'transposd'; did you mean 'transposed'\\?" -- bench moe:t3e8k2h16i12,transposd
expect 'a modifier of attention' 2 err="unknown modifier 'causal'" -- verify moe:t3e8k2h16i12,causal
expect 'an invalid activation' 2 err='act=tanh is none of: swiglu, geglu' -- run moe:t3e8k2h16i12,act=tanh
expect 'half of two numbers' 2 err='groups=4 is not two numbers, as in groups=8:4' -- run moe:t3e8k2h16i12,groups=4
expect 'nothing after the prefix' 2 err="an empty modifier in 'moe:'" -- run moe:
expect 'plan has tiles of attention alone' 2 err='tiles are planned for attention only, not for moe' -- plan moe:t3e8k2h16i12 --device h200
expect 'a kernel of attention' 3 out='moe:t3e8k2h16i12' -- verify moe:t3e8k2h16i12 --kernel fwd_cpu_portable
check 'the help has its words' grep -qF 'moe:t4096e128k8h2048i768,bf16' <(attest help verify)
finish
