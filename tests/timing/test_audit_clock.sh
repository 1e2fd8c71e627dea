#!/usr/bin/env bash
# test_audit_clock.sh: attest audit catches every saboteur on this machine's own clock.
# shellcheck source=tests/timing/attempts.sh
source "$(dirname "$0")/attempts.sh"

expect_in_three 'attention' 0 out='^27 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused; 8 left out$' -- \
    audit --device cpu --json audit.json
check 'some are caught only when they are timed' json audit.json \
    '{r["name"] for r in d["results"] if r["stage"] == "bench" and not r["honest"]} >= {"cached by pointer", "cached by contents", "keeps what is there", "right for a while", "handicapped rival", "impatient", "every other call", "blunt when finished", "fifth sight", "changed heads only", "updates its sums"}'
expect_in_three 'merge' 0 out='^23 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused; 12 left out$' -- \
    audit merge:n4b2h8s128d64,bf16 --device cpu --threads 1
expect_in_three 'gradients' 0 out='^27 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused; 8 left out$' -- \
    audit backward:b1h4hkv2s48sk80d64,fp16,causal=bottom-right --device cpu --threads 1
expect_in_three 'experts' 0 out='^27 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused; 8 left out$' -- \
    audit moe:t96e8k3h64i48,fp16,ids,weights,counts --device cpu --threads 1
finish
