#!/usr/bin/env bash
# test_audit.sh: attest audit catches every saboteur, and says so if it cannot.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

# On a simulated clock: what the machine does meanwhile does not matter. tests/timing/test_audit_clock.sh uses the real one.
PATH=$BUILD/tests/simulated:$path
expect 'every saboteur is caught' 0 out='^27 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused; 8 left out$' -- \
    audit --device cpu --json audit.json
check 'the document' json audit.json \
    'd["schema"] == "attest-audit-1" and len(d["results"]) == 37 and {r["outcome"] for r in d["results"]} == {"caught", "passed", "left out"}'
check 'the check that caught it' json audit.json \
    'all(r["check"] and r["stage"] in ("verify", "bench") for r in d["results"] if r["outcome"] == "caught")'
check 'some are caught only when they are timed' json audit.json \
    '{r["name"] for r in d["results"] if r["stage"] == "bench" and not r["honest"]} >= {"cached by pointer", "cached by contents", "keeps what is there", "right for a while", "handicapped rival", "impatient", "every other call", "blunt when finished", "fifth sight", "changed heads only", "updates its sums"}'
expect 'a problem of another operation' 0 out='^23 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused; 12 left out$' -- \
    audit merge:n4b2h8s128d64,bf16 --device cpu --threads 1 --json merge.json
check 'those of one operation alone are listed' json merge.json \
    '{r["name"] for r in d["results"] if r["outcome"] == "left out"} == {"wrong alignment", "mean of V", "changed heads only", "updates its sums", "stale K and V", "V of another head", "a tile left out", "other bits", "expert skipped", "not renormalised", "last expert dropped", "stale routing"}'
check 'and were not played' json merge.json \
    'all(r["problem"] is None and r["stage"] is None and r["check"].endswith(" only") for r in d["results"] if r["outcome"] == "left out")'
check 'the others were, on merges' json merge.json \
    'all(r["problem"]["spec"].startswith("merge:") for r in d["results"] if r["outcome"] != "left out")'
expect 'gradients' 0 out='^27 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused; 8 left out$' -- \
    audit backward:b1h4hkv2s48sk80d64,fp16,causal=bottom-right --device cpu --threads 1
expect 'experts' 0 out='^27 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused; 8 left out$' -- \
    audit moe:t96e8k3h64i48,fp16,ids,weights,counts --device cpu --threads 1
expect 'a problem in which a saboteur has nothing to spoil' 0 out='^wrong alignment .* left out .* has no effect on this problem' -- \
    audit b1h2s24d32,fp16,causal --device cpu --threads 1
expect 'an example of the help' 0 -- audit merge:n4b2h8s512d64,bf16 --device cpu
check 'it is one' grep -qF 'attest audit merge:n4b2h8s512d64,bf16 --device cpu' <(attest help audit)
expect 'two problems' 2 err='takes one shape' -- audit b1h1s8d8 b1h1s9d8
expect 'an invalid word' 2 err="merge:n2s4d8,padd=1: .*did you mean 'pad'" -- audit merge:n2s4d8,padd=1
expect 'nothing to compute' 3 err='merge:n2b0h1s4d8: there is nothing to compute' -- audit merge:n2b0h1s4d8 --device cpu
expect 'no GPU' 3 -- audit --device cuda
finish
