#!/usr/bin/env bash
# test_usage.sh: mistakes in the command are named, with a suggestion, and exit with 2; no argv crashes.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

expect 'no verb' 2 err='usage: attest VERB' --
check 'in short' test "$(wc -l <.err)" -le 35
for verb in $(attest help | sed -n '/^verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    check "no verb: $verb" grep -qE "^  $verb +[a-z]" .err
done
check 'three examples' test "$(sed -n '/^Examples:/,/^$/p' .err | grep -c '^  attest ')" -eq 3
expect 'where shapes are described' 2 err="'attest help shapes'" --
expect 'unknown verb' 2 err="no verb 'verfy'; did you mean 'verify'" -- verfy
expect 'misspelt topic of help' 2 err="no verb 'shape'; did you mean 'shapes'" -- help shape
expect 'help on completions' 0 out='source <\(attest completions bash\)' -- help completions
expect 'help on help' 0 out='^verbs:' -- help help
expect 'far-off verb' 2 err="no verb 'xyzzy'; see 'attest help'" -- xyzzy
expect 'unknown flag' 2 err='no option --sede; did you mean --seed' -- info --sede 3
expect 'far-off flag' 2 err="no option --frobnicate; see 'attest help run'" -- run --frobnicate
expect 'unknown letter' 2 err='no option -z' -- run -z
expect 'flag of another verb' 2 err='--trace is not an option of this verb' -- bench --trace
expect 'missing value at the end' 2 err='--sq needs a value: N' -- run --sq
expect 'missing value before a flag' 2 err='--json needs a value: FILE' -- info --json --seed 1
expect 'value where there is none' 2 err='--trace takes no value' -- run --trace=1 b1h1s1d8
expect 'empty value' 2 err='--seed has an empty value' -- info --seed=
expect 'argument to info' 2 err="takes no arguments, but was given 'x'" -- info x
expect 'explain without a shape' 2 err='expected a shape' -- explain
expect 'run without a shape' 2 err='expected a shape' -- run

expect 'threads 0' 2 err='--threads 0: expected a whole number' -- info --threads 0
expect 'threads x' 2 err='--threads two: expected a whole number' -- info --threads two
expect 'threads overflow' 2 err='a whole number' -- info --threads 99999999999999999999
expect 'seed -1' 2 err='--seed -1: expected a whole number' -- info --seed -1
expect 'seconds nan' 2 err='--seconds nan: expected seconds' -- bench b1h1s1d8 --seconds nan
expect 'min above max' 2 err='--min-samples 9 is more than --max-samples 3' -- \
    bench b1h1s1d8 --min-samples 9 --max-samples 3
expect 'unknown isa' 2 err='--isa sse2: expected portable, avx2' -- info --isa sse2
other=neon
[[ $(uname -m) != aarch64 ]] || other=avx2
expect "an isa of another processor" 3 err="isa=$other: this processor's highest instruction set is " -- run b1h1s1d8 --isa $other
expect 'two isas for run' 2 err='--isa takes one' -- run b1h1s1d8 --isa portable,portable
expect 'unknown device' 2 err='--device tpu: expected cpu, cuda' -- info --device tpu
expect 'device cuda:x' 2 err='--device cuda:x' -- info --device cuda:x
expect 'both documents on stdout' 2 err='cannot both write to stdout' -- \
    bench b1h1s1d8 --json - --csv -

expect 'heads' 2 err='heads_q=6 is not a multiple of heads_kv=4' -- run --hq 6 --hkv 4
expect 'heads, compact' 2 err='heads_q=6 is not a multiple of heads_kv=4' -- \
    explain b1h6hkv4s8d64
expect 'no heads' 2 err='heads_q=0, heads_kv=0: there must be at least one of each' -- run --hq 0
expect 'no key heads' 2 err='heads_q=4, heads_kv=0' -- explain b1h4hkv0s8d64
expect 'flag with a bad number' 2 err='--hq: .*eight' -- run --hq eight
expect 'flag with a bad word' 2 err='--dtype: .*fp8.*bf16' -- run --dtype fp8
expect 'causal alignment' 2 err='causal=top-left or causal=bottom-right' -- \
    run b1h1s4sk5d64 --causal
expect 'window alignment' 2 err='align must be top-left or bottom-right for a window where rows and keys differ in number: seq_q=4, seq_k=5' -- run b1h1s4sk5d64 --window 2,2
expect 'a misspelt kernel' 2 err='kernel=fwd_cpu_portble: there is no such kernel for this device; did you mean fwd_cpu_portable\?' -- \
    explain b1h1s1d8 --device cpu --kernel fwd_cpu_portble
expect 'a kernel like none' 2 err='kernel=zebra: there is no such kernel for this device$' -- explain b1h1s1d8 --device cpu --kernel zebra
expect 'one of a thing' 0 out='^chosen .* 1 task, keys in 1 part, 1 thread, workspace' -- explain b1h1s1d8 --threads 1
expect 'unknown alignment' 2 err='--causal: .*middle' -- run b1h1s4d64 --causal=middle
expect 'bad window' 2 err='--window: .*left' -- run b1h1s4d64 --window left
expect 'unknown modifier' 2 err="'casual'; did you mean 'causal'" -- run b1h1s4d64,casual
expect 'a misspelt operation' 2 err="backwards:b1h1s4d64: there is no operation 'backwards:'; did you mean 'backward:'" -- run backwards:b1h1s4d64
expect 'an unknown operation' 2 err="there is no operation 'conv:'; there are backward: merge: moe:$" -- verify conv:b1h1s4d64
expect 'an operation, and another mistake' 2 err="moe:t4,oops: unknown modifier 'oops'$" -- run moe:t4,oops
expect 'unknown shape key' 2 err="unknown shape key 'q'" -- verify q7
expect 'empty shape' 2 err='.' -- run ''
expect 'a size past 64 bits' 2 err='.' -- run b99999999999999999999h1s1d64
expect 'a product past 64 bits' 2 err='.' -- run b4000000000h4000000000s4000000000d64
expect 'a batch past 2^40' 2 err='batch=77777777777777777 is above 2\^40' -- plan --device h200 b77777777777777777h1s1d64
expect 'more sequences than can be filled' 3 err='batch=7777777777 is too large' -- run b7777777777h1s1d8,bcast=b
# Nothing to compute takes no time, however large the batch.
for verb in run verify explain 'plan --device h200'; do
    # shellcheck disable=SC2086 # a verb and its options
    check "an empty problem of a huge batch, $verb" timeout 30 attest $verb b100000000000h1s0sk0d8
done
check 'plan of a huge batch' timeout 60 attest plan --device h200 b7777777777h1s512d64
expect 'nan scale' 2 err='scale' -- run b1h1s4d64 --scale nan
expect 'negative softcap' 2 err='softcap' -- run b1h1s4d64 --softcap -1
expect 'unknown suite' 2 err='nosuch' -- verify --suite nosuch
expect 'misspelt suite' 2 err="no suite 'sed'; did you mean 'seed'\? There are backward, .*, sweep$" -- verify --suite sed
expect 'far-off suite' 2 err="no suite 'xyzzyxyzzy'; there are backward, .*, sweep, or the path of a file" -- bench --suite xyzzyxyzzy
expect 'the suites' 0 out='^seed +8  eight problems for a first look' -- suites --json suites.json
check 'the suites, as a document' json suites.json 'd["suites"][0]["name"] == "backward" and [s for s in d["suites"] if s["name"] == "seed"][0]["problems"] == 8 and len(d["suites"]) >= 14'
expect 'suites takes no arguments' 2 err="takes no arguments, but was given 'seed'" -- suites seed
printf 'b1h1s4d64\nb1h1s4d64,oops\n' >broken.txt
expect 'broken suite' 2 err='broken.txt:2|broken.txt.*line 2' -- verify --suite ./broken.txt
: >empty.txt
expect 'empty suite' 2 err='.' -- verify --suite ./empty.txt

expect 'd 257' 3 err='d_qk=257' -- run b1h1s1d257
expect 'no cuda' 3 err='cuda' -- run --device cuda b1h1s1d64
expect 'no cuda:1' 3 err='cuda' -- info --device cuda:1
expect 'json into nowhere' 3 err='/no/such/x.json' -- info --json /no/such/x.json
expect 'csv into nowhere' 3 err='/no/such/x.csv' -- bench b1h1s1d8 --csv /no/such/x.csv
check 'stdout full' bash -c 'attest info >/dev/full; (($? == 3))'
check 'json to a full device' bash -c 'attest info --json /dev/full; (($? == 3))'
expect 'rows that are not there, on a CPU' 2 err='/no/such/rows: No such file' -- run b1h1s1d8 --rows /no/such/rows
export ATTEST_ROWS=/no/such/rows
expect 'ATTEST_ROWS that is not there, on a CPU' 2 err='ATTEST_ROWS: /no/such/rows: No such file' -- run b1h1s1d8
export ATTEST_ROWS=
export ATTEST_ISA=sse9
expect 'unknown ATTEST_ISA' 2 err='ATTEST_ISA' -- info
unset ATTEST_ISA

# Random words, flags and bytes in any order: exit codes 0 to 3, never a signal.
# shellcheck disable=SC2054 # commas belong to the words
words=(info run explain verify bench doctor plan certify report demo ablate tune help -- - --shape --suite -b -d -o --hq --json --seed '=' ''
    b1h1s1d8 b1h1s1d8,causal --causal --causal=x --window -1 --isa auto --threads 1 1 -1 0 1e99 nan
    $'\xff\xfe' --q --k --v /dev/null /dev/zero . --with lse --csv --max-samples --seconds 0 "$(printf 'x%.0s' {1..5000})")
RANDOM=7
crashes=0
for _ in {1..300}; do
    arguments=()
    for ((i = RANDOM % 7; i >= 0; i--)); do
        arguments+=("${words[RANDOM % ${#words[@]}]}")
    done
    case ${arguments[0]} in verify | bench | demo) arguments+=(b1h1s1d8 --seconds 0 --max-samples 1 --min-samples 1) ;; esac
    timeout 60 attest "${arguments[@]}" >/dev/null 2>&1 </dev/null
    status=$?
    if ((status > 3)); then
        crashes=$((crashes + 1))
        printf 'exit %d:' "$status"
        printf ' %q' "${arguments[@]}"
        echo
    fi
done
check 'random arguments never crash' test "$crashes" -eq 0
finish
