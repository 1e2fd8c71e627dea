#!/usr/bin/env bash
# run.sh: run commands, count their tests, and close with `N passed, N failed, N skipped`.
#
#   tests/run.sh [-v] [-j JOBS] COMMAND...
#
# Each COMMAND is one word list, e.g. "build/tests/unit/test_dtype" or "make test-cli". Its tests are counted from its
# last line of the form `N passed, N failed[, N skipped]`, or else from cmocka's totals. A command without counts is one
# test, which is skipped if its last line begins with `skipped: `; each such line before the last is one more skipped
# test. A command that counts its tests, and ran none, is one skipped test, and a `skipped: ` line names it. A non-zero
# exit without a counted failure is one failure. Lines that begin with `skipped: ` are always shown, other output if the
# command fails. With -v all output is shown, while the command runs if it runs alone. With -j, JOBS commands run at
# once, except those after a word `alone`, which run one by one when the others are done. A command's line says how
# long it ran, and how long it had a processor, which other programs on the machine change little. Exits with 0 only if
# nothing failed.
set -uo pipefail

verbose=false
jobs=1
while [[ ${1:-} == -* ]]; do
    case $1 in
    -v) verbose=true ;;
    -j) jobs=$2 && shift ;;
    *) echo "run.sh: $1?" >&2 && exit 2 ;;
    esac
    shift
done

export ATTEST_ROWS= # the user who runs the tests may have set it

logs=$(mktemp -d)
trap 'jobs -p | xargs -r kill; rm -rf "$logs"' EXIT
total_passed=0
total_failed=0
total_skipped=0
summary=

count() { # count LOG PATTERN: the number captured by the last line that matches, or 0
    local number
    number=$(sed -nE "s/$2/\1/p" "$1" | tail -n 1)
    echo "${number:-0}"
}

tally() { # tally LOG STATUS: set `passed`, `failed`, `skipped` and `nothing` (ran), and add them up
    local p='([0-9]+) passed' f='([0-9]+) failed' s='([0-9]+) skipped'
    if grep -qE "^$p, $f(, $s)?$" "$1"; then
        passed=$(count "$1" "^$p, [0-9]+ failed(, [0-9]+ skipped)?$")
        failed=$(count "$1" "^[0-9]+ passed, $f(, [0-9]+ skipped)?$")
        # The last line counts: it has no third number if nothing is skipped.
        skipped=$(grep -E "^$p, $f(, $s)?$" "$1" | tail -n 1 | grep -oE '[0-9]+ skipped' || echo 0)
        skipped=${skipped% *}
    elif grep -qE '^\[  (PASSED|FAILED)  \] [0-9]+ test\(s\)' "$1"; then
        passed=$(count "$1" '^\[  PASSED  \] ([0-9]+) test\(s\).*')
        failed=$(count "$1" '^\[  FAILED  \] ([0-9]+) test\(s\).*')
        skipped=$(count "$1" '^\[  SKIPPED \] ([0-9]+) test\(s\).*')
    else
        failed=0
        skipped=$(grep -c '^skipped: ' "$1")
        passed=0
        [[ $2 -ne 0 || $(tail -n 1 "$1") == 'skipped: '* ]] || passed=1
    fi
    [[ $2 -eq 0 ]] || failed=$((failed > 0 ? failed : 1))
    nothing=false
    if ((passed + failed + skipped == 0)); then
        nothing=true
        skipped=1
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
}

processor_time() { # processor_time FILE: sets `used`, the thousandths of a second that commands of this shell had a processor
    local user system minutes thousandths
    times >"$1"
    { read -r _ && read -r user system; } <"$1"
    used=0
    for user in "$user" "$system"; do # as in 1m2.345s
        minutes=${user%m*} thousandths=${user#*m}
        used=$((used + 60000 * minutes + 10#${thousandths//[!0-9]/}))
    done
}

run() { # run NUMBER COMMAND: its log, then (last) its status, seconds, and thousandths of a second of a processor
    local words status used before started=$SECONDS
    read -ra words <<<"$2"
    processor_time "$logs/$1.times"
    before=$used
    if $verbose && ((at_once == 1)); then
        : >"$logs/$1.shown"
        echo "== ${2##* }"
        "${words[@]}" 2>&1 | tee "$logs/$1"
        status=${PIPESTATUS[0]}
    else
        "${words[@]}" >"$logs/$1" 2>&1
        status=$?
    fi
    processor_time "$logs/$1.times"
    echo "$status $((SECONDS - started)) $((used - before))" >"$logs/$1.end"
}

report() { # report NUMBER COMMAND: its result
    local log=$logs/$1 status seconds used times
    read -r status seconds used <"$log.end"
    tally "$log" "$status"
    printf -v times '%4d s %4d.%d s of a processor' "$seconds" $((used / 1000)) $((used / 100 % 10))
    if $verbose; then
        [[ -e $log.shown ]] || { echo "== ${2##* }" && cat "$log"; }
        ! $nothing || echo "skipped: ${2##*/}: no test ran"
        summary+=$(printf '%-20s %5d passed %4d failed %4d skipped %s' "${2##* }" "$passed" "$failed" "$skipped" "$times")$'\n'
        return
    fi
    if ((failed > 0)); then
        grep -vE '^\[ (RUN     |      OK) \]' "$log"
    else
        grep '^skipped: ' "$log"
        ! $nothing || echo "skipped: ${2##*/}: no test ran"
    fi
    printf '%-36s %4d passed %4d failed %4d skipped %s\n' "${2##*/}" "$passed" "$failed" "$skipped" "$times"
}

# Reports are printed in the order of the commands, each as soon as the earlier ones are done.
at_once=$jobs
begun=0
running=0
commands=("$@")
begin_some() { # start commands, up to the number that may run at once
    while ((running < at_once && begun < ${#commands[@]})); do
        if [[ ${commands[begun]} == alone ]]; then
            ((running == 0)) || return
            at_once=1
        elif ((jobs == 1)); then
            run "$begun" "${commands[begun]}"
        else
            run "$begun" "${commands[begun]}" &
            running=$((running + 1))
        fi
        begun=$((begun + 1))
        ((jobs > 1)) || return
    done
}
for i in "${!commands[@]}"; do
    [[ ${commands[i]} != alone ]] || continue
    until [[ -s $logs/$i.end ]]; do
        begin_some
        if ((running > 0)); then
            wait -n
            running=$((running - 1))
        elif [[ ! -s $logs/$i.end ]]; then
            echo '255 0 0' >"$logs/$i.end" # killed before it wrote its status
        fi
    done
    report "$i" "${commands[i]}"
done

printf '%s' "$summary"
echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
((total_failed == 0))
