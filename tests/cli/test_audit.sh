#!/usr/bin/env bash
# test_audit.sh: attest audit catches every saboteur, and says so where it cannot.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

expect 'every saboteur is caught' 0 out='^26 saboteurs caught, 0 missed; 2 honest subjects passed, 0 accused$' -- \
    audit --device cpu --threads 1 --json audit.json
check 'the document' json audit.json \
    'd["schema"] == "attest-audit-1" and len(d["results"]) == 28 and {r["outcome"] for r in d["results"]} == {"caught", "passed"}'
check 'the check that caught it' json audit.json \
    'all(r["check"] and r["stage"] in ("verify", "bench") for r in d["results"] if not r["honest"])'
check 'some are caught only when they are timed' json audit.json \
    '{r["name"] for r in d["results"] if r["stage"] == "bench" and not r["honest"]} >= {"cached by pointer", "cached by contents", "keeps what is there", "right for a while", "handicapped rival", "impatient", "every other call", "blunt when finished", "fifth sight", "changed heads only"}'
expect 'no arguments' 2 err='takes no arguments' -- audit b1h1s8d8
expect 'no GPU' 3 -- audit --device cuda
finish
