#!/usr/bin/env bash
# test_judge.sh: attest compared with its rivals, from kept evidence and from raw samples.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

evidence=$root/evidence

expect 'no file' 2 err='expected a file of results' -- judge
expect 'an unknown goal' 2 err="--goals: 'best' is not among flash hopper cpu features" -- judge x --goals best
expect 'a file that is not there' 2 err='nowhere.json: No such file' -- judge nowhere.json

# Evidence of the scripts before attest.bench, with goals by device.
attest bench b1h1s1d8 --seconds 0 --min-samples 1 --max-samples 1 --json alone.json >/dev/null
expect 'no rival' 0 out='^nothing to judge: no rival was timed;' -- judge alone.json
expect 'a GPU' 0 out='^decode, geometric mean against flash: 1\.509 .*: holds$' -- judge "$evidence/h200/gpu_vs_torch.json"
expect 'a missed goal' 1 out='^bf16, geometric mean against PyTorch: 1\.454 .*: MISSED$' -- judge "$evidence/epyc-avx512/cpu_vs_torch.json"
expect 'no goal' 0 -- judge "$evidence/epyc-avx512/cpu_vs_torch.json" --goals none
expect 'the newest of a problem' 0 out='^f32, geometric mean against PyTorch: 1\.364' -- judge "$evidence"/xeon-amx/cpu_vs_torch*.json --json judged.json
check 'no problem twice' json judged.json 'd["schema"] == "attest-judge-1" and len({(r["problem"], r["variant"], r["subject"]) for r in d["standing"]["rows"]}) == len(d["standing"]["rows"])'
check 'the same numbers twice' bash -c "cmp <(attest judge '$evidence/h200/gpu_vs_torch.json') <(attest judge '$evidence/h200/gpu_vs_torch.json')"

expect 'calls from Python' 0 out='^import attest: 22\.9 ms .*: holds$' -- judge "$evidence/epyc-avx512/python_calls.json" --json calls.json
check 'goals of calls' json calls.json 'd["standing"]["holds"] and len(d["standing"]["goals"]) == 7'
echo '{"schema": "attest-python-calls-2"}' >none.json
expect 'no calls' 2 err='none.json: has no calls' -- judge none.json

sed '0,/"problem": "/s//&\\u001b[31m/' "$evidence/epyc-avx512/python_calls.json" >colours.json
check 'a name has colours' grep -q '\\u001b' colours.json
expect 'it is judged' 0 -- judge colours.json --json colourless.json
check 'what controls a terminal is cleaned' json colourless.json '"\x1b" not in "".join([g["at"] for g in d["standing"]["goals"]])'
echo '{"schema": "attest-python-calls-2", "schema": "attest-python-calls-2"}' >twice.json
expect 'a key that occurs twice' 2 err='twice.json:1: duplicate' -- judge twice.json

# Raw samples: derived numbers are computed, and equal those of `attest bench`.
attest bench b1h1s8d16,f32 --device cpu --seconds 0 --min-samples 8 --json full.json >/dev/null 2>&1
python3 - <<'EOF'
import json
document = json.load(open("full.json"))
for result in document["results"]:
    for key in ("median_ns", "low_ns", "high_ns", "spread_percent", "gflops"):
        del result[key]
json.dump(document, open("raw.json", "w"))
EOF
# So few samples may leave a verdict open; only the median is checked.
check 'raw samples are compared' bash -c 'attest compare full.json raw.json --json compared.json >/dev/null; (($? <= 1))'
check 'the same median' json compared.json 'abs(d["comparison"]["rows"][0]["median_a_ns"] / d["comparison"]["rows"][0]["median_b_ns"] - 1) < 1e-9'
expect 'raw samples are judged' 0 out='^b1h1s8d16,f32' -- judge raw.json --goals none
sed 's/"samples_ns": \[[^]]*\]/"samples_ns": []/' raw.json >empty.json
expect 'no samples' 2 err='results\[0\].samples_ns: expected at least one sample' -- judge empty.json
finish
