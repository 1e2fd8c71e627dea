#!/usr/bin/env bash
# test_verbs.sh: every verb works, in text, JSON and CSV; the help and the manual are correct.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

# shellcheck disable=SC2317 # reached through `check`
json() { # json FILE EXPRESSION: true of the document `d`, which must be strict JSON
    python3 - "$1" "$2" <<'PYTHON'
import json, sys
def refuse(name):
    raise ValueError("not JSON: " + name)
d = json.load(open(sys.argv[1]), parse_constant=refuse)
sys.exit(0 if eval(sys.argv[2]) else "false of the document: " + sys.argv[2])
PYTHON
}

expect 'version' 0 out="^attest $(sed -n 's/.*ATT_VERSION_STRING "\(.*\)"/\1/p' \
    "$root/include/attest.h") " -- --version
expect 'help' 0 out='^usage: attest VERB' -- help
expect '--help' 0 out='^usage: attest VERB' -- --help
expect 'help of a verb' 0 out='--cu-seqlens-q FILE' -- help run
expect 'VERB --help' 0 out='^usage: attest verify' -- verify --help
expect 'help has the words of merge' 0 out='merge:n4b2h8s512d64,bf16 .* nolse' -- help verify
expect 'help of shapes' 0 out='^A SHAPE is letters with numbers' -- help shapes
cp .out shapes.txt
attest help >whole.txt
check 'which the whole help has too' python3 -c 'import sys; sys.exit(open("shapes.txt").read() not in open("whole.txt").read())'
expect 'help of no verb' 2 err='no verb' -- help nosuch

expect 'info' 0 out='^fwd_cpu_portable +1 +attention +portable ' -- info --json info.json
expect 'info of every kernel' 0 out='^fwd_cpu_portable .* yes' -- info --all
expect 'also of those that cannot run here' 0 out='^naive_sm80 .* no ' -- info --all
check 'info json' json info.json 'd["schema"] == "attest-info-1" and any(k["available"] for k in d["kernels"])'
expect 'info at a lower isa' 0 out='portable in use' -- info --isa portable

expect 'run' 0 out='^kernel +fwd_cpu_portable$' -- run b2h2s33d16,causal --isa portable --json run.json
check 'run json names the launch' json run.json 'd["results"][0]["launch"]["grid"][0] >= 1'
check 'run json' json run.json 'd["results"][0]["kernel"] == "fwd_cpu_portable" and d["results"][0]["median_ns"] > 0'
expect 'run, long flags' 0 out='^problem +b2h8hkv2s16sk24d64,bf16,causal=bottom-right' -- \
    run -b 2 --hq 8 --hkv 2 --sq 16 --sk 24 -d 64 --dtype bf16 --causal=bottom-right
expect 'run, = and joined values' 0 out='^problem +b3h1s5d8,f32' -- run -b3 --sq=5 -d=8 --dtype=f32
expect 'run --trace' 0 out='^launch .* tasks' -- run b1h2s16d8 --trace
expect 'run of nothing' 0 out='GFLOP/s|nothing to compute' -- run b0h2s16d8

expect 'explain' 0 out='^chosen' -- explain b1h8s64d64 b1h8s1sk512d64 --json explain.json
check 'explain json' json explain.json 'len(d["results"]) == 2 and all(r["kernel"] for r in d["results"])'
expect 'explain what nothing serves' 3 out='d_qk=300' -- explain b1h1s1d300

expect 'verify' 0 out='^3 passed, 0 failed$' -- \
    verify b1h2s17d24,f32,lse b2h2s9d8,bf16,varlen b1h2s40d16,fp16,causal --json verify.json
check 'verify json' json verify.json 'd["schema"] == "attest-verify-1" and [r["outcome"] for r in d["results"]] == ["pass"] * 3 and all(r["error_o"]["kernel"] <= r["error_o"]["bar"] for r in d["results"])'
seq 1 12 | sed 's/.*/b1h2s&d24,f32,lse/' >twelve.txt
expect 'verify several at once' 0 out='^12 passed, 0 failed$' -- verify --suite ./twelve.txt --rows-seed 1 --jobs 5 --json five.json
expect 'and one by one' 0 -- verify --suite ./twelve.txt --rows-seed 1 --json one.json
check 'the same numbers in the same order' json five.json '[(r["problem"], r["error_o"], r["error_lse"]) for r in d["results"]] == [(r["problem"], r["error_o"], r["error_lse"]) for r in __import__("json").load(open("one.json"))["results"]]'
expect 'too many at once' 2 err='--jobs 65: at most 64' -- verify b1h2s9d8 --jobs 65
expect 'verify on two instruction sets' 0 out='fwd_cpu_avx2|refused|^2 passed' -- \
    verify b1h2s17d24 --isa portable,auto
printf '# two problems\nb1h1s4d8\n\nb1h1s5d8,f32\n' >mine.txt
expect 'verify a suite file' 0 out='^2 passed, 0 failed$' -- verify --suite ./mine.txt
expect 'flags apply to suites' 0 out='b1h1s4d8,bf16' -- verify --suite ./mine.txt --dtype bf16
expect '--with' 0 out='b1h1s4d8,f32,lse' -- verify b1h1s4d8 --with lse,f32
expect 'verify what the library refuses' 3 out='^refused b1h1s1d300' -- verify b1h1s1d300
mkdir folder && cp mine.txt folder/own.txt
export ATTEST_SUITES=$scratch/folder
expect 'ATTEST_SUITES' 0 out='^2 passed' -- verify --suite own
unset ATTEST_SUITES

quick=(--seconds 0 --min-samples 5 --max-samples 7)
expect 'bench' 0 out='b1h2s64d16,fp16 .*\[.*\].* GFLOP|\[[0-9.]+, [0-9.]+\]' -- \
    bench b1h2s64d16 b1h1s32d8,f32 "${quick[@]}" --json bench.json --csv bench.csv
check 'bench json' json bench.json 'd["schema"] == "attest-bench-2" and d["machine"]["processor"] and d["compiler"]'
check 'bench keeps raw samples' json bench.json 'all(5 <= len(r["samples_ns"]) <= 7 and r["timed"] for r in d["results"])'
check 'bench median is of the samples' json bench.json 'all(r["median_ns"] == __import__("statistics").median(r["samples_ns"]) and r["low_ns"] <= r["median_ns"] <= r["high_ns"] for r in d["results"])'
check 'bench counts 4 B H S^2 D' json bench.json 'd["results"][0]["flops"] == 4 * 2 * 64 * 64 * 16'
check 'bench names the kernel that ran' json bench.json 'all(r["kernel"] == r["launch"]["kernel"] == r["verify"]["kernel"] for r in d["results"])'
check 'bench csv' test "$(wc -l <bench.csv)" -eq 3
expect 'bench counts what the mask shows' 0 -- bench b1h1s64d8,causal "${quick[@]}" --json causal.json
check 'causal flops' json causal.json 'd["results"][0]["flops"] == 4 * 8 * 64 * 65 / 2'
expect 'bench of two instruction sets' 0 -- \
    bench b1h2s64d16 "${quick[@]}" --isa portable,auto --json two.json
check 'both were timed' json two.json 'len(d["results"]) == 2 and d["results"][0]["isa"] == "portable"'
expect 'bench of nothing' 0 -- bench b0h2s16d8 b2h1s0d8 "${quick[@]}" --json nothing.json
check 'nothing took some time' json nothing.json 'all(r["timed"] and r["gflops"] == 0 for r in d["results"])'
expect 'bench does not time what is refused' 3 out='refused' -- bench b1h1s1d300 --json refused.json
check 'refused json' json refused.json 'not d["results"][0]["timed"] and "samples_ns" not in d["results"][0]'
expect 'csv on stdout' 0 out='^"b1h1s8d8,fp16",' err='passed' -- bench b1h1s8d8 "${quick[@]}" --csv -
expect 'json on stdout alone' 0 err='passed' -- bench b1h1s8d8 "${quick[@]}" --json -
cp .out stdout.json
check 'stdout is one document' json stdout.json 'd["schema"] == "attest-bench-2"'
expect 'nan in an answer is null in json' 0 -- verify b1h2s20d8,f32,data=nan-visible --json nan.json
check 'no nan' json nan.json 'True'
expect 'a failed run leaves the old document' 3 -- run b1h1s1d300 --json verify.json
check 'the old document' json verify.json '"results" in d'
check 'no temporary files' bash -c '! ls -A | grep -E "\.(json|csv)\.......$"'

# A wrong oracle makes every right answer wrong: exp() and expf(), which the oracle and the plain reference take from
# the libm that attest loads, are replaced; the kernels have their own.
cat >wrong.c <<'C'
double exp(double x);
float expf(float x);
double exp(double x) { return x == 0.0 ? 1.0 : 0.5; }
float expf(float x) { return x == 0.0f ? 1.0f : 0.5f; }
C
check 'the wrong exp is built' "${CC:-cc}" -shared -fPIC -fno-builtin -o wrong.so wrong.c
export LD_PRELOAD=$scratch/wrong.so
expect 'verify finds a wrong answer' 1 out='^0 passed, 1 failed$' -- \
    verify b1h2s16d8,f32,lse --seed 5 --threads 1
again=$(sed -n 's/^ *again: .*attest //p' .out)
read -ra words <<<"$again"
expect 'the printed command shows it again' 1 out='^FAIL b1h2s16d8,f32,lse$' -- "${words[@]}"
check 'it names seed and threads' grep -q -- '--threads 1 --seed 5' <<<"$again"
expect 'bench does not time a wrong answer' 1 out='FAIL' -- \
    bench b1h2s16d8,f32 "${quick[@]}" --json wrong.json
unset LD_PRELOAD
check 'wrong answers have no times' json wrong.json 'not d["results"][0]["timed"]'

# Every example of the help runs; those of audit run in test_audit.sh, alone on the machine. They name small arrays that
# are made here.
python=$(numpy_python) || { fail 'examples' 'no Python with NumPy'; finish; }
"$python" -c '
import numpy
for name in "qkv":
    numpy.save(name + ".npy", numpy.random.default_rng(1).standard_normal((1, 16, 2, 8)).astype("float32"))'
ln -s "$root/evidence" evidence
examples=$(for verb in info run explain verify bench doctor plan report demo; do attest help "$verb"; done |
    sed -n '/^Examples:/,/^$/s/^  attest //p' | sort -u)
check 'there are examples' test "$(wc -l <<<"$examples")" -ge 12
while read -ra words; do
    case ${words[0]} in
    bench | demo) words+=(--seconds 0 --min-samples 1) ;; # the same command, in less time
    esac
    expect "example: ${words[*]}" 0 -- "${words[@]}"
    [[ ${words[0]} != demo ]] || cp .out demo.txt
done <<<"$examples"
# So do the commands at the end of the demonstration.
check 'demo proposes commands' grep -q '^What to try next:' demo.txt
while read -r _ words; do
    read -ra words <<<"${words%%  *}"
    [[ ${words[*]} == *'suite edge'* ]] || expect "next: ${words[*]}" 0 -- "${words[@]}"
done < <(sed -n '/^What to try next:/,$s/^  .*attest /attest /p' demo.txt)

# A pipe gets no control bytes; a terminal gets a bar, without colour if NO_COLOR is set.
attest verify b1h8s1024d64 b1h8s1024d64,f32 >pipe.out 2>pipe.err
check 'no bar in a pipe' bash -c '! cat pipe.out pipe.err | grep -q $'"'[\r\033]'"
on_terminal() { # on_terminal FILE: a verify whose stderr is a terminal
    TERM=xterm script -qec "attest verify b1h2s64d16 b1h2s65d16 >/dev/null" /dev/null >"$1" </dev/null
}
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    on_terminal color.out
    check 'a bar on a terminal' grep -q 'verifying 0/2' color.out
    check 'with colour' grep -q $'\033\\[36m' color.out
    NO_COLOR=1 on_terminal plain.out
    check 'NO_COLOR' bash -c "grep -q 'verifying 0/2' plain.out && ! grep -q \$'\\033\\\\[36m' plain.out"
else
    skip 'the progress bar: no pseudo-terminal can be made here'
fi

# The manual is well formed and has every option and verb.
page=$root/man/attest.1
if command -v groff >/dev/null; then
    groff -mandoc -ww -Tutf8 -z "$page" >man.log 2>&1
    check 'the manual has no warnings' test ! -s man.log
    groff -mandoc -Tascii -P-cbou "$page" >man.txt 2>/dev/null
    for word in 'merge:n4b2h8s512d64,bf16' nolse 'the parts hold: normal; empty' 'The suite merge'; do
        check "manual, merge: $word" grep -qF -- "$word" man.txt
    done
    for verb in info run explain verify bench compare judge doctor plan profile certify report demo; do
        check "manual: $verb" grep -q "^ *attest $verb" man.txt
        for option in $(attest help "$verb" | sed -nE 's/^ +(-., )?--([a-z-]+).*/\2/p'); do
            check "manual: --$option" grep -q -- "--$option" man.txt
        done
    done
else
    skip 'the manual: there is no groff here'
fi
# Expected and unexpected refusals.
printf 'b1h1s8d257\nb1h2s40d32,f32\n' >refusing.txt
echo '*d257* # above what any kernel takes' >expected.txt
expect 'a refusal' 3 out='^1 passed, 0 failed, 1 refused$' -- verify --suite ./refusing.txt --device cpu
expect 'a refusal that is expected' 0 out='^1 passed, 0 failed, 1 refused$' -- verify --suite ./refusing.txt --device cpu --refusals expected.txt
expect 'a refusal that is not' 1 out='is refused, which --refusals does not list' -- verify --suite ./refusing.txt --device cpu --refusals /dev/null
echo '*' >expected.txt
expect 'a list that is out of date' 1 out='is served, though --refusals lists it' -- verify --suite ./refusing.txt --device cpu --refusals expected.txt
expect 'no such list' 2 err='--refusals absent: No such file' -- verify --suite ./refusing.txt --device cpu --refusals absent

finish
