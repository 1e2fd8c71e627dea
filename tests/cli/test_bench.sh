#!/usr/bin/env bash
# test_bench.sh: timing, baselines, comparisons and self-checks, on the CPU and on a fake GPU.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

# A GPU that computes on the host; a launch takes 200 us of its own clock, plus or minus one per cent.
fakes=$BUILD/tests/fake_cuda
use_images
export ATTEST_LIBCUDA=$fakes/libfake_cuda.so ATTEST_LIBNVRTC=$fakes/libfake_nvrtc.so FAKE_CUDA_COMPUTES=1
export ATTEST_LIBNVML=$fakes/libfake_nvml.so XDG_CACHE_HOME=$scratch/cache
tiny=('b1h1s16d64' 'b1h1s8d64,causal' --seconds 0)
steady=(--min-samples 24 --max-samples 24)

# The document.
expect 'bench on a GPU' 0 out='^b1h1s16d64,fp16 +(decode_sm90|fwd_sm90_small)_.* (200|199)\.' -- bench "${tiny[@]}" "${steady[@]}" --json warm.json
check 'schema' json warm.json 'd["schema"] == "attest-bench-2" and d["machine"]["driver"] == "580.12.34" and d["device_seconds"] > 0'
check 'every sample has its round, process and readings' json warm.json \
    'all(len(r["samples_ns"]) == len(r["process"]) == len(r["round"]) == len(r["clocks_mhz"]) == len(r["power_w"]) == len(r["temperature_c"]) == 24 for r in d["results"])'
check 'what was timed, and how' json warm.json \
    'all(r["mode"] == "warm" and r["timer"] == "graph" and r["subject"] == "attest" and r["input_sets"] == 4 for r in d["results"])'
check 'outliers and losses are counted' json warm.json \
    'all(r["outliers"]["above"] >= 0 and r["discarded"]["count"] == 0 for r in d["results"])'
for timer in events latency; do
    expect "--timer $timer" 0 -- bench "${tiny[@]}" --max-samples 20 --timer "$timer" --json "$timer.json"
    check "$timer, the document" json "$timer.json" "all(r['timer'] == '$timer' for r in d['results'])"
done
expect '--cold' 0 -- bench "${tiny[@]}" --max-samples 20 --cold --json cold.json
check 'cold, the document' json cold.json 'all(r["mode"] == "cold" and r["calls_per_sample"] == 1 and r["input_sets"] == 1 for r in d["results"])'
expect 'cold on the CPU' 0 -- bench b1h1s8d8 --device cpu --seconds 0 --min-samples 3 --cold
FAKE_NVML_THROTTLE=4 expect 'throttled samples are thrown away' 0 out='samples were thrown away: the GPU throttled \(temperature\)' -- \
    bench "${tiny[@]}" --json throttled.json
check 'and counted' json throttled.json 'all(r["discarded"]["count"] > 0 and r["discarded"]["reasons"] == "temperature" and len(r["samples_ns"]) >= 20 for r in d["results"])'
FAKE_NVML_THROTTLE=1 expect 'a GPU that throttles all the time has no result' 1 out='samples were thrown away' -- bench "${tiny[@]}"

# Curves.
row=()
for s in 8 16 24 32 40 48 56 64; do row+=("b1h1s${s}d64"); done
quick=(--seconds 0 --min-samples 3 --max-samples 4)
expect 'problems that grow make a curve' 0 out='^0 cliffs on 1 curve$' -- bench "${row[@]}" "${quick[@]}"
check 'the longest bar is the fastest one' grep -qE '^ +[0-9.]+  #{50}  b1h1s64d64,fp16$' .out
expect 'fewer make none' 0 -- bench "${row[@]:1}" "${quick[@]}"
check 'no curve' bash -c '! grep -q curve .out'

# Processes.
expect '--processes' 0 -- bench "${tiny[@]}" --max-samples 20 --processes 3 --json processes.json
check 'samples of three' json processes.json 'all(r["process"] == [0] * 20 + [1] * 20 + [2] * 20 and len(r["power_w"]) == 60 for r in d["results"])'
check 'and how many' json processes.json 'd["options"]["processes"] == 3'
expect 'a process as it is started' 0 out='"attest-bench-2"' -- bench "${tiny[@]}" --max-samples 20 --as-process 1 --csv x.csv --save never
check 'it writes nothing else' bash -c '! test -e x.csv && ! test -e baselines'
expect 'too many processes' 2 err='at most 64' -- bench "${tiny[@]}" --processes 65

# Baselines.
expect '--save' 0 -- bench "${tiny[@]}" "${steady[@]}" --save first
check 'the baseline' json baselines/first.json 'len(d["results"]) == 2'
expect 'the same again holds' 0 out='^0 FASTER, 2 SAME, 0 SLOWER, 0 AMBIGUOUS; minimum effect 5\.00 %' -- \
    bench "${tiny[@]}" "${steady[@]}" --baseline first --json again.json
check 'the verdicts are in the document' json again.json 'd["comparison"]["tally"]["SAME"] == 2 and d["comparison"]["holds"]'
python3 - <<'PYTHON'
import json
d = json.load(open("baselines/first.json"))
def save(name, change):
    copy = json.loads(json.dumps(d))
    change(copy)
    json.dump(copy, open(name, "w"))
def scale(factor):
    def change(c):
        for r in c["results"]:
            r["samples_ns"] = [factor * x for x in r["samples_ns"]]
            r["median_ns"] *= factor
    return change
save("quick.json", scale(0.9))
save("slow.json", scale(1.1))
save("few.json", lambda c: [r.update(samples_ns=r["samples_ns"][:3], process=[0] * 3, round=[0, 1, 2]) for r in c["results"]])
save("other_device.json", lambda c: c["machine"]["gpu"].update(name="Other GPU"))
save("other_kernel.json", lambda c: [r.update(kernel="other") for r in c["results"]])
save("old.json", lambda c: (c.update(schema="attest-bench-1"), [r.pop("process") for r in c["results"]], [r.pop("round") for r in c["results"]]))
PYTHON
expect 'a regression is found' 1 out='2 SLOWER' -- bench "${tiny[@]}" "${steady[@]}" --baseline quick.json
expect 'another device is refused before anything is timed' 2 err='unlike things: device is "Other GPU" in A and "Fake GPU 0" in B' -- \
    bench "${tiny[@]}" --baseline other_device.json
expect 'no such baseline' 2 err='baselines/none\.json' -- bench "${tiny[@]}" --baseline none

expect 'processes say what differs for nothing' 0 out='2 SAME, .*minimum effect 1\.00 %' -- compare processes.json processes.json

# Compare.
expect 'compare: the same' 0 out='2 SAME' -- compare first warm.json
expect 'compare: faster' 0 out='^b1h1s16d64,fp16 .* FASTER$' -- compare first quick.json --csv compare.csv
check 'the csv' grep -qE '^"b1h1s16d64,fp16",.*,FASTER$' compare.csv
expect 'compare: slower' 1 out='\+10\.00 % .* SLOWER$' -- compare first slow.json --json compare.json
check 'compare json' json compare.json 'd["schema"] == "attest-compare-1" and d["comparison"]["tally"]["SLOWER"] == 2 and d["comparison"]["rows"][0]["verdict"]["p_different"] < 0.01'
check 'compare json has the machines' json compare.json 'd["machine"]["gpu"]["name"] == "Fake GPU 0" and d["machines"]["a"] == d["machines"]["b"] == d["machine"]'
expect 'compare: a larger minimum effect' 0 out='2 SAME' -- compare first slow.json --min-effect 15
expect 'compare: too few samples' 1 out='2 AMBIGUOUS' -- compare few.json few.json
expect 'compare: the old schema' 0 out='2 SAME' -- compare old.json warm.json
expect 'compare: unlike kernels' 2 err='kernel is "(decode_sm90|fwd_sm90_small)_.*" in A and "other" in B' -- compare first other_kernel.json
expect 'compare: kernels on purpose' 0 out='-> other ' -- compare first other_kernel.json --allow kernel
expect 'compare: unlike modes' 2 err='mode is "warm" in A and "cold" in B' -- compare warm.json cold.json
expect 'compare: devices' 2 err='--allow device' -- compare first other_device.json
expect 'compare: one file' 2 err='expected two result files' -- compare first
expect 'compare: not a result' 2 err='schema: is' -- compare first compare.json
expect 'compare: an unknown field' 2 err="'colour' is not among" -- compare a b --allow colour

# Rivals of one run are judged round by round.
expect 'rivals' 0 out='^b1h1s16d64,fp16 +naive_sm80 +fwd_sm80_[a-z0-9_]+ +[-+].* SAME$' -- \
    bench b1h1s16d64 --seconds 0 "${steady[@]}" --allow-slow --kernel 'fwd_sm80*' --kernel naive_sm80 --json rivals.json
check 'rivals, the document' json rivals.json '"against_first" not in d["results"][0] and d["results"][1]["against_first"]["verdict"] == "SAME"'

# Ctrl-C keeps the measurements so far.
endless=(b1h1s64d64 b1h1s65d64 --device cpu --seconds 600 --max-samples 100000000 --precision 0 --json part.json --csv part.csv --save part)
check 'interrupted: exit 130' test "$(python3 "$tests_folder/interrupt.py" 1 2 60 bench "${endless[@]}")" = 130
check 'it says so' grep -q 'interrupted: 2 of 2 cases were measured, and are kept in part.json; no baseline is saved' int.err
check 'and shows them' grep -qE '^b1h1s65d64,fp16 +fwd_cpu' int.out
check 'and keeps the samples' json part.json 'd["interrupted"] and len(d["results"]) == 2 and all(r["timed"] and len(r["samples_ns"]) > 1 for r in d["results"])'
check 'also as rows' test "$(wc -l <part.csv)" -eq 3
check 'but no baseline' test ! -e baselines/part.json
expect 'what was kept can be compared' 0 out='2 SAME' -- compare part.json part.json
rm -f part.json
check 'interrupted twice: it stops at once' test "$(python3 "$tests_folder/interrupt.py" 2 1 60 bench b1h16s8192d128 "${endless[@]}")" = -2
check 'and leaves nothing' bash -c '! ls part.json*'
check 'a whole run does not mention it' json warm.json '"interrupted" not in d'

# The self-checks of the measurement.
expect '--aa' 0 out='^4 of 4 verdicts are SAME' -- bench "${tiny[@]}" "${steady[@]}" --aa --trials 2 --save checked
check 'it leaves a baseline with a minimum effect' json baselines/checked.json \
    '0.005 <= d["minimum_effect"] < 0.01 and len(d["results"]) == 2 and len(d["self_check"]["pairs"]) == 4 and d["self_check"]["pairs"][3]["b"]["samples_ns"]'
expect '--aa that does not hold' 1 out='AMBIGUOUS' -- bench "${tiny[@]}" --min-samples 3 --max-samples 3 --aa
expect '--inject' 0 out='^4 of 4 verdicts are SLOWER' -- bench "${tiny[@]}" "${steady[@]}" --inject 3 --trials 2 --json inject.json
check 'by calls that were made' json inject.json 'd["self_check"]["pairs"][0]["b"]["extra_calls"] >= 1 and "extra_calls" not in d["self_check"]["pairs"][0]["a"]'
expect '--inject of nothing to find' 1 out='^0 of 2 verdicts are SLOWER' -- bench "${tiny[@]}" "${steady[@]}" --inject 3 --min-effect 20
expect 'self-checks exclude each other' 2 err='one self-check at a time' -- bench --aa --inject 3
expect 'self-checks and baselines' 2 err='cannot be combined with --baseline' -- bench --aa --baseline first
expect 'self-checks and kernels' 2 err='at most one --kernel' -- bench --aa --kernel a --kernel b
expect 'inject and cold' 2 err='many calls' -- bench --inject 3 --cold
expect 'trials without a self-check' 2 err='--trials is for' -- bench --trials 3
expect 'no such timer' 2 err='graph, events or latency' -- bench --timer sundial
expect 'no such precision' 2 err='a percentage from 0' -- bench --precision much
expect 'a save into nowhere' 3 err='/no/such' -- bench "${tiny[@]}" --save /no/such/x.json
finish
