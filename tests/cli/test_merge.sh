#!/usr/bin/env bash
# test_merge.sh: the verbs on merge problems: explained, run, verified, timed, compared; unknown words are named.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

shape='d["results"][0]["problem"] == {"operation": "merge", "parts": 3, "batch": 2, "heads": 4, "seq": 9, "d": 16, "dtype": "bf16", "dtype_o": "f32", "spec": "merge:n3b2h4s9d16,bf16,o=f32"}'

expect 'explain' 0 out='^chosen +merge_cpu_portable ' -- explain merge:n3b2h4s9d16,bf16,o=f32 --isa portable --json explain.json
check 'explain json' json explain.json "$shape"' and d["results"][0]["kernel"] == "merge_cpu_portable"'
check 'no kernel of attention is listed' test "$(grep -c 'fwd_\|decode_' .out)" -eq 0
expect 'explain of both operations' 0 -- explain merge:n2b1h1s4d8 b1h1s4d8 --isa portable --json both.json
check 'each by its own kernel' json both.json '[r["kernel"].split("_")[0] for r in d["results"]] in (["merge", "fwd"], ["merge", "decode"])'

expect 'run' 0 out='^problem +merge:n3b2h4s9d16,bf16,o=f32$' -- run merge:n3b2h4s9d16,bf16,o=f32 --isa portable --trace --json run.json
check 'run json' json run.json "$shape"' and d["results"][0]["kernel"] == d["results"][0]["launch"]["kernel"] == "merge_cpu_portable" and d["results"][0]["median_ns"] > 0'
check 'two operations an element of a part' json run.json 'd["results"][0]["flops"] == 2 * 3 * 2 * 4 * 9 * 16'
expect 'run of nothing' 0 -- run merge:n3b0h4s9d16

expect 'verify' 0 out='^4 passed, 0 failed$' -- verify merge:n3b2h4s9d16,bf16,o=f32 merge:n1b1h1s1d1,f32,nolse merge:n5b1h2s7d40,data=empty \
    merge:n128b1h2s3d65,fp16,layout=bhsd,pad=2,offset=1 --json verify.json
check 'verify json' json verify.json "$shape"' and d["schema"] == "attest-verify-1" and all(r["outcome"] == "pass" and r["error_o"]["kernel"] <= r["error_o"]["bar"] for r in d["results"])'
check 'every row is judged' json verify.json 'd["results"][0]["rows_checked"] == d["results"][0]["rows_total"] == 2 * 4 * 9'
check 'the log-sums too, where they are asked for' json verify.json 'd["results"][0]["error_lse"]["bar"] > 0 and d["results"][1]["error_lse"]["bar"] == 0'
expect 'flags apply' 0 out='merge:n2b3h1s4d8,bf16' -- verify merge:n2b1h1s4d8 -b 3 --dtype bf16
expect 'and so does --with' 0 out='merge:n2b1h1s4d8,f32,nolse' -- verify merge:n2b1h1s4d8 --with nolse,f32
expect 'the suite' 0 out='^[0-9]+ passed, 0 failed$' -- verify --suite merge --isa portable
check 'is all of merges' test "$(grep -c '^merge:' .out)" -eq "$(grep -c '^merge:' "$root/suites/merge.txt")"

quick=(--seconds 0 --min-samples 5 --max-samples 7 --isa portable)
expect 'bench' 0 out='merge:n3b2h4s9d16,bf16,o=f32 +merge_cpu_portable' -- bench merge:n3b2h4s9d16,bf16,o=f32 "${quick[@]}" --json a.json --csv a.csv
check 'bench json' json a.json "$shape"' and d["results"][0]["timed"] and 5 <= len(d["results"][0]["samples_ns"]) <= 7'
check 'bench csv' grep -q '^"merge:n3b2h4s9d16,bf16,o=f32",portable,' a.csv
expect 'bench again, beside another' 0 -- bench merge:n3b2h4s9d16,bf16,o=f32 b1h1s8d8 "${quick[@]}" --json b.json
attest compare a.json b.json >compared.txt 2>&1
check 'compare matches merges by their lines' grep -qE '^merge:n3b2h4s9d16,bf16,o=f32 +merge_cpu_portable .* (FASTER|SAME|SLOWER|AMBIGUOUS)$' compared.txt
check 'and tells what is only in one' grep -q '^not compared: 0 only in A, 1 only in B$' compared.txt

expect 'no parts' 2 err="merge:n0b1h1s4d8: n=0 is not a whole number of 1 or more" -- explain merge:n0b1h1s4d8
expect 'too many parts' 2 err='merge:n200b1h1s4d8: n200: at most 128 parts' -- explain merge:n200b1h1s4d8
expect 'no columns' 2 err='d=0 is not a whole number of 1 or more' -- verify merge:n2b1h1s4d0
expect 'an invalid modifier' 2 err="unknown modifier 'nolsee'; did you mean 'nolse'\\?" -- bench merge:n2b1h1s4d8,nolsee
expect 'a modifier of attention' 2 err="unknown modifier 'causal'" -- verify merge:n2b1h1s4d8,causal
expect 'and as a flag' 2 err="--causal: unknown modifier 'causal'" -- verify merge:n2b1h1s4d8 --causal
expect 'a shape key of attention' 2 err="unknown shape key 'hkv'" -- verify merge:n2b1h2hkv1s4d8
expect 'parts of attention' 2 err="unknown shape key 'n'" -- verify n2b1h1s4d8
expect 'invalid data' 2 err='data=onehot is none of: normal, empty, equal, inf, nan, huge' -- run merge:n2b1h1s4d8,data=onehot
expect 'an invalid type' 2 err='o=int8 is none of' -- run merge:n2b1h1s4d8,o=int8
expect 'nothing after the prefix' 2 err="an empty modifier in 'merge:'" -- run merge:
expect 'plan has tiles of attention alone' 2 err='tiles are planned for attention only, not for merge' -- plan merge:n2b1h1s4d8 --device h200
expect 'a kernel of attention' 3 out='merge:n2b1h1s4d8' -- verify merge:n2b1h1s4d8 --kernel fwd_cpu_portable
finish
