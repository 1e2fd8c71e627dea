#!/usr/bin/env bash
# test_terminal.sh: untrusted text never reaches a terminal with its control codes.
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
finish
