#!/usr/bin/env bash
# test_terminal.sh: untrusted text never reaches a terminal with its control codes; tables fit the terminal, and verdicts
# have their colours there and nowhere else.
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/common.sh"

evil=$'\e]0;title\a\e[31m'

# clean NAME STATUS ARGUMENT...: exits with STATUS, prints something, and without control codes except line feeds and
# tabs.
clean() {
    local name=$1 status=$2
    shift 2
    attest "$@" >.out 2>.err </dev/null
    local actual=$?
    if ((actual != status)); then
        fail "$name" "exited $actual, not $status: $(tr -d '\000-\010\013-\037' <.err | head -c 600)"
    elif ! [[ -s .out || -s .err ]]; then
        fail "$name" 'printed nothing'
    elif cat .out .err | LC_ALL=C grep -q $'[\001-\010\013-\037\177]'; then
        fail "$name" "$(cat .out .err | cat -v | head -c 600)"
    else
        pass
    fi
}

clean 'a verb' 2 "$evil"
clean 'help of a verb' 2 help "$evil"
clean 'an option' 2 info "--$evil"
clean 'a value' 2 info --seed "$evil"
clean 'a shape' 2 run "b1h1s1d8,$evil"
clean 'a suite' 2 verify --suite "$evil"
clean 'a device' 2 plan b1h1s8d64 --device "$evil"
clean 'a file that is not there' 2 compare "$evil.json" b.json
clean 'a file to write' 3 info --json "/no/$evil/x.json"
clean 'a plug-in that is not there' 2 verify b1h1s8d8 --peer "./$evil.so"
clean 'a variable' 2 info --isa "$evil"
printf 'b1h1s8d8\n%s\n' "$evil" >"$evil.txt"
clean 'a line of a suite, and its name' 2 verify --suite "./$evil.txt"

# Result files.
attest bench b1h1s8d8 b1h1s9d8 --seconds 0 --min-samples 3 --max-samples 3 --json good.json >/dev/null 2>&1
python3 - "$evil" <<'PYTHON'
import json, sys
d = json.load(open("good.json"))
for r in d["results"]:
    r["kernel"] += sys.argv[1]
    r["outcome"] = sys.argv[1] + "\u009b31m"
d["machine"]["processor"] = sys.argv[1]
json.dump(d, open("evil.json", "w"))
d["machine"]["processor"] = "other " + sys.argv[1]
json.dump(d, open("evil_b.json", "w"))
d["schema"] = sys.argv[1]
json.dump(d, open("evil_c.json", "w"))
PYTHON
clean 'names in two results' 1 compare evil.json evil.json --csv -
check 'the names are still readable' grep -qF '?]0;title??[31m' .out
clean 'a machine in a result' 2 compare evil.json evil_b.json
clean 'a schema' 2 compare evil.json evil_c.json
clean 'a report of it' 0 report evil.json

# Arrays.
if python=$(numpy_python); then
    "$python" - "$evil" <<'PYTHON'
import numpy, sys
for name in "qkv":
    numpy.save(name + sys.argv[1] + ".npy", numpy.ones((1, 4, 1, 8), "float32"))
PYTHON
    clean 'file names of arrays' 0 run --q "q$evil.npy" --k "k$evil.npy" --v "v$evil.npy" -o "o$evil.npy"
else
    skip 'array files: no NumPy'
fi

# A plug-in's own words.
check 'a plug-in is built' "${CC:-cc}" -shared -fPIC -I"$root/include" -DBAD_TERMINAL -o evil.so "$root/tests/peers/bad_peer.c"
clean 'what a plug-in says' 1 verify b1h1s8d8,f32 --peer ./evil.so
check 'and it cannot pass for a line of ours' bash -c '! grep -q "^99 passed" .out'

# Tables and colours on a terminal of 80 columns.
on_terminal() { # on_terminal ARGUMENT...: stdout is the terminal, and goes to .drawn; without colours to .plain
    TERM=${terminal:-xterm} python3 "$tests_folder/terminal.py" 80 out "$@" >.drawn
    local status=$?
    sed $'s/\e\\[[0-9;]*m//g' .drawn >.plain
    return $status
}
cat >wrong.c <<'C'
double exp(double x);
float expf(float x);
double exp(double x) { return x == 0.0 ? 1.0 : 0.5; }
float expf(float x) { return x == 0.0f ? 1.0f : 0.5f; }
C
check 'a wrong exp for the oracle is built' "${CC:-cc}" -shared -fPIC -fno-builtin -o wrong.so wrong.c
green=$'\e[32m' red=$'\e[1;31m' yellow=$'\e[33m' none=$'\e[0m'

# shellcheck disable=SC2317 # reached through `check`
fits() { # fits: no line of the table, which ends at the first empty line, is wider than the terminal
    test "$(sed '/^$/,$d; /^must: /d' .plain | LC_ALL=C.UTF-8 wc -L)" -le 80
}
wide=b1h4s128sk96d64,causal=bottom-right,window=16:0,softcap=30,lse
check 'verify on a terminal' on_terminal verify $wide b1h1s8d8,f32 --device cpu
check 'its table fits' fits
check 'a problem that is too long goes on below' grep -qx 'softcap=30,lse' .plain
check 'a pass is green' grep -qF "${green}pass$none" .drawn
check 'and so are no failures' grep -qF "${green}0 failed$none" .drawn
on_terminal verify b1h1s1d300
check 'a refusal is yellow' grep -qF "${yellow}refused$none b1h1s1d300" .drawn
LD_PRELOAD=$scratch/wrong.so on_terminal verify b1h2s16d8,f32 --device cpu
check 'a failure is red' grep -qF "${red}FAIL$none b1h2s16d8" .drawn
on_terminal judge "$root/evidence/h200/gpu_vs_torch.json"
check 'the table of judge fits' fits
check 'faster is green' grep -qF "${green}FASTER$none" .drawn
check 'slower is red' grep -qF "${red}SLOWER$none" .drawn
for results in python_calls training; do
    on_terminal judge "$root/evidence/h200/$results.json"
    check "the table of $results fits" fits
done
on_terminal compare good.json good.json
check 'the table of compare fits' fits
check 'compare has the same rows elsewhere' bash -c 'attest compare good.json good.json | grep -q "^b1h1s8d8,.*AMBIGUOUS$\|^b1h1s8d8,.*SAME$"'
on_terminal plan b4h16s4096d128,bf16,causal --device h200 --all
check 'the tables of plan fit' test "$(grep -E '^(kernel|tile|fwd_|m[0-9]+n)' .plain | wc -L)" -le 80
on_terminal info --all
check 'the table of info --all fits' test "$(grep -E '^ *(kernel|evidence|fwd_|decode_)' .plain | wc -L)" -le 80
on_terminal doctor --device cpu
check "doctor's levels are coloured" grep -qE "^${green//[/\\[}ok${none//[/\\[} +" .drawn
on_terminal certify --check --evidence "$root/evidence"
check 'no failed statement is green' grep -qF "${green}0 failed$none" .drawn

on_terminal verify b1h8s8d8,f32 --device cpu --json -
check 'a document on a terminal has no colours' python3 -c 'import json; json.load(open(".drawn"))'
terminal=dumb on_terminal verify b1h1s8d8,f32 --device cpu
check 'a dumb terminal has no colours' cmp .drawn .plain
NO_COLOR=1 on_terminal verify b1h1s8d8,f32 --device cpu
check 'NO_COLOR: neither has this one' cmp .drawn .plain
attest judge "$root/evidence/h200/gpu_vs_torch.json" >.out
check 'a pipe gets whole lines' grep -qE '^b[^ ]+ +fwd_[^ ]+ .*PyTorch.* (FASTER|SLOWER)$' .out
check 'and no colours' bash -c "! grep -q \$'\e' .out"
finish
