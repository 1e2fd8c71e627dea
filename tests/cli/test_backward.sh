#!/usr/bin/env bash
# test_backward.sh: the verbs on problems of gradients: explained, run, verified, timed, compared; unknown words are
# named.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

line=backward:b2h4hkv2s9d16,bf16,causal,alibi,grad=f32,dalibi
shape='d["results"][0]["problem"] == {"operation": "backward", "batch": 2, "heads_q": 4, "heads_kv": 2, "seq_q": 9, "seq_k": 9, "d_qk": 16, "d_v": 16, "dtype": "bf16", "dtype_o": "bf16", "dtype_grad": "f32", "spec": "'$line'"}'

expect 'explain' 0 out='^chosen +bwd_cpu_portable ' -- explain "$line" --isa portable --json explain.json
check 'explain json' json explain.json "$shape"' and d["results"][0]["kernel"] == "bwd_cpu_portable"'
check 'no kernel of attention is listed' test "$(grep -c 'fwd_\|decode_' .out)" -eq 0

expect 'run' 0 out="^problem +$line\$" -- run "$line" --isa portable --trace --json run.json
check 'run json' json run.json "$shape"' and d["results"][0]["kernel"] == d["results"][0]["launch"]["kernel"] == "bwd_cpu_portable" and d["results"][0]["median_ns"] > 0'
check 'five products a pair' json run.json 'd["results"][0]["flops"] == 2 * 5 * 16 * 2 * 4 * 45'
expect 'run of nothing' 0 -- run backward:b0h4s9d16

expect 'verify' 0 out='^5 passed, 0 failed$' -- verify "$line" backward:b1h1s1d1,f32 backward:b2h4s7sk5d8,fp16,bias=f32:1h1k,sinks,dbias,dsinks \
    backward:b3h2s20d8,bf16,varlen,layout=packed,pad=2 backward:b2h2s5sk9d8,f32,causal=top-left,data=nan-masked --json verify.json
check 'verify json' json verify.json "$shape"' and all(r["outcome"] == "pass" and r[e]["kernel"] <= r[e]["bar"] for r in d["results"] for e in ("error_d_q", "error_d_k", "error_d_v"))'
check 'rows of every gradient are judged' json verify.json 'd["results"][0]["rows_checked"] == d["results"][0]["rows_total"] == 2 * 4 * 9 + 2 * 2 * 9 + 4'
check 'those that are asked for' json verify.json '[[r["error_d_" + n]["bar"] > 0 for n in ("bias", "sinks", "alibi")] for r in d["results"][:3]] == [[False, False, True], [False] * 3, [True, True, False]]'
expect 'flags apply' 0 out='backward:b3h1s4d8,bf16,causal' -- verify backward:b1h1s4d8 -b 3 --dtype bf16 --causal
expect 'and so does --with' 0 out='backward:b1h1s4d8,f32,sinks,dsinks,do=tiny' -- verify backward:b1h1s4d8 --with do=tiny,dsinks,sinks,f32
expect 'large: O and LSE by the library' 0 out='^1 passed, 0 failed$' -- verify backward:b1h4s600d64,f32,causal
check 'a suite of timing' grep -q '^backward:b1h16s16384d128,bf16,causal$' "$root/suites/backward.txt"

quick=(--seconds 0 --min-samples 5 --max-samples 7 --isa portable)
expect 'bench' 0 out="$line +bwd_cpu_portable" -- bench "$line" "${quick[@]}" --json a.json --csv a.csv
check 'bench json' json a.json "$shape"' and d["results"][0]["timed"] and 5 <= len(d["results"][0]["samples_ns"]) <= 7'
check 'bench csv' grep -q "^\"$line\",portable," a.csv
expect 'bench again, beside another' 0 -- bench "$line" b1h1s8d8 "${quick[@]}" --json b.json
attest compare a.json b.json >compared.txt 2>&1
check 'compare matches by their lines' grep -qE "^$line +bwd_cpu_portable .* (FASTER|SAME|SLOWER|AMBIGUOUS)\$" compared.txt
check 'and tells what is only in one' grep -q '^not compared: 0 only in A, 1 only in B$' compared.txt

expect 'pages' 1 out='features has ATT_PAGED: gradients of K and V in pages are not computed' -- verify backward:b1h1s4sk32d8,paged=16
expect 'a gradient of nothing' 1 out='gradients has ATT_D_BIAS, features has no ATT_BIAS' -- verify backward:b1h1s4d8,dbias
expect 'of a boolean mask' 1 out='gradients has ATT_D_BIAS, but the bias is a boolean mask' -- verify backward:b1h1s4d8,bias=bool,dbias
expect 'a type of gradients' 1 out='dtype_grad=.* is neither dtype=.* nor f32' -- verify backward:b1h1s4d8,bf16,grad=fp16
expect 'an invalid modifier' 2 err="unknown modifier 'dalibbi'; did you mean 'dalibi'\\?" -- bench backward:b1h1s4d8,dalibbi
expect 'an invalid modifier of attention' 2 err="unknown modifier 'causall'; did you mean 'causal'\\?" -- verify backward:b1h1s4d8,causall
expect 'a modifier of gradients' 2 err="unknown modifier 'dbias'" -- verify b1h1s4d8,bias,dbias
expect 'invalid data' 2 err='do=small is none of: normal, tiny, huge, zero' -- run backward:b1h1s4d8,do=small
expect 'nothing after the prefix' 2 err="an empty modifier in 'backward:'" -- run backward:
expect 'plan has tiles of attention alone' 2 err='tiles are planned for attention only, not for backward' -- plan backward:b1h1s4d8 --device h200
expect 'the type rules out every kernel of a GPU' 3 out='dtype: is for f16, not f32: .*bwd_sm80' -- explain backward:b1h1s4d8,f32 --device h200
check 'and it is the only reason' test "$(grep -c 'runs before' .out)" -eq 0
expect 'a kernel of attention' 3 out='backward:b1h1s4d8' -- verify backward:b1h1s4d8 --kernel fwd_cpu_portable
finish
