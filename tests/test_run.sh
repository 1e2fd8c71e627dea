#!/usr/bin/env bash
# test_run.sh: tests/run.sh counts what its commands report, with skipped tests separate from passed ones.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# says NAME STATUS LINE...: a command $scratch/NAME that prints the lines and exits with STATUS
says() {
    local name=$1 status=$2
    shift 2
    { printf '#!/bin/sh\n'; printf "echo '%s'\n" "$@"; echo "exit $status"; } >"$scratch/$name"
    chmod +x "$scratch/$name"
}

# expect WHAT STATUS CLOSING [-v] [-j N] NAME...: run.sh over these commands exits with STATUS and ends with CLOSING
expect() {
    local what=$1 status=$2 closing=$3 word
    local -a words=()
    shift 3
    for word in "$@"; do
        case $word in
        -* | [0-9]* | alone) words+=("$word") ;;
        *) words+=("$scratch/$word") ;;
        esac
    done
    tests/run.sh "${words[@]}" >"$scratch/.out" 2>&1
    local actual=$?
    if [[ $actual -ne $status || $(tail -n 1 "$scratch/.out") != "$closing" ]]; then
        echo "FAILED $what: exited $actual, not $status, and closed with '$(tail -n 1 "$scratch/.out")', not '$closing'"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

shows() { # shows WHAT PATTERN: what run.sh printed last has such a line
    if grep -qE -- "$2" "$scratch/.out"; then
        passed=$((passed + 1))
    else
        echo "FAILED $1: no line '$2' in: $(cat "$scratch/.out")"
        failed=$((failed + 1))
    fi
}

says silent 0 ''
says broken 4 'something is wrong'
says two 0 'FAILED x' '3 passed, 0 failed'
says three 0 '1 passed, 0 failed' 'skipped: the moon is not here' '5 passed, 0 failed, 1 skipped'
says bad 1 '5 passed, 2 failed, 1 skipped'
says absent 0 'skipped: there is no compiler here'
says partly 0 'skipped: there is no disassembler here' 'all the rest holds'
says both 0 'skipped: no hammer' 'skipped: no nail'
says dies 1 'skipped: no hammer'
says units 0 'skipped: only root can' '[==========] Running 3 test(s).' '[  PASSED  ] 2 test(s).' \
    '[  SKIPPED ] 1 test(s), listed below:' '[  SKIPPED ] test_x'
says ruined 1 '[  PASSED  ] 2 test(s).' '[  SKIPPED ] 1 test(s), listed below:' '[  FAILED  ] 3 test(s), listed below:'
says none 0 '[  PASSED  ] 0 test(s).' '[  SKIPPED ] 4 test(s), listed below:'
says unmatched 0 '[==========] Running 0 test(s).' '[  PASSED  ] 0 test(s).'
says empty 0 '0 passed, 0 failed, 0 skipped'
says crashed 1 '0 passed, 0 failed, 0 skipped'

expect 'nothing counted is one test' 0 '1 passed, 0 failed, 0 skipped' silent
expect 'a failure is one' 1 '0 passed, 1 failed, 0 skipped' broken
expect 'a closing line of two numbers' 0 '3 passed, 0 failed, 0 skipped' two
expect 'a closing line of three' 0 '5 passed, 0 failed, 1 skipped' three
shows 'what was skipped' '^skipped: the moon is not here$'
shows 'a line for the command' '^three +5 passed +0 failed +1 skipped +[0-9]+ s +0\.[0-9] s of a processor$'
expect 'counted failures' 1 '5 passed, 2 failed, 1 skipped' bad
expect 'what only says that it is skipped has not passed' 0 '0 passed, 0 failed, 1 skipped' absent
expect 'a part that is skipped' 0 '1 passed, 0 failed, 1 skipped' partly
expect 'two parts and nothing else' 0 '0 passed, 0 failed, 2 skipped' both
expect 'a failure is no skip' 1 '0 passed, 1 failed, 1 skipped' dies
expect 'totals of cmocka' 0 '2 passed, 0 failed, 1 skipped' units
expect 'totals of cmocka, with failures' 1 '2 passed, 3 failed, 1 skipped' ruined
expect 'totals of cmocka, nothing but skips' 0 '0 passed, 0 failed, 4 skipped' none
expect 'a filter that matches no test' 0 '0 passed, 0 failed, 1 skipped' unmatched
shows 'which command ran none' '^skipped: unmatched: no test ran$'
expect 'a closing line of zeros' 0 '0 passed, 0 failed, 1 skipped' empty
expect 'the same with -v' 0 '0 passed, 0 failed, 1 skipped' -v empty
shows 'which command ran none, with -v' '^skipped: empty: no test ran$'
expect 'zeros and a failure' 1 '0 passed, 1 failed, 0 skipped' crashed
expect 'sums' 1 '12 passed, 3 failed, 4 skipped' silent two bad units partly dies
expect 'sums, two at once and one alone' 1 '12 passed, 3 failed, 4 skipped' -j 2 silent two bad units partly alone dies
expect 'with -v' 0 '7 passed, 0 failed, 2 skipped' -v three units
shows 'a summary' '^.*units +2 passed +0 failed +1 skipped +[0-9]+ s +[0-9]+\.[0-9] s of a processor$'
expect 'with -v, two at once and one alone' 1 '12 passed, 2 failed, 3 skipped' -v -j 2 three units alone bad
shows 'a heading for each' '^== .*/units$'
shows 'what each prints' '^skipped: only root can$'
shows 'what runs alone' '^5 passed, 2 failed, 1 skipped$'

# Time that passes and time of a processor differ: one command sleeps, the other computes until it has had 0.3 seconds.
printf '#!/bin/sh\nsleep 1\n' >"$scratch/sleeps"
cat >"$scratch/computes" <<'END'
#!/bin/bash
until [[ $time == 0m0.[3-9]* || $time == 0m[1-9]* ]]; do
    for ((i = 0; i < 10000; i++)); do :; done
    times >"$0.times"
    read -r time _ <"$0.times"
done
END
chmod +x "$scratch/sleeps" "$scratch/computes"
for jobs in 1 2; do
    expect "times, $jobs at once" 0 '2 passed, 0 failed, 0 skipped' -j "$jobs" computes sleeps
    shows "a command that computes, $jobs at once" '^computes .* [0-9]+ s +(0\.[3-9]|[1-9][0-9]*\.[0-9]) s of a processor$'
    shows "a command that sleeps, $jobs at once" '^sleeps .* [1-9][0-9]* s +0\.[0-2] s of a processor$'
done

# Nested runs.
printf '#!/bin/sh\nexec tests/run.sh -j 2 %s %s\n' "$scratch/three" "$scratch/absent" >"$scratch/nested"
chmod +x "$scratch/nested"
expect 'a run within a run' 0 '10 passed, 0 failed, 4 skipped' -v nested nested
says cheat 0 'it takes 5 passed, 0 failed, 9 skipped' ' 4 passed, 0 failed'
expect 'only whole lines count' 0 '1 passed, 0 failed, 0 skipped' cheat

# The scripts and programs that end a run themselves print all three numbers.
printf '%s\n' "source $PWD/tests/cli/common.sh" 'pass' 'skip "no hammer"' 'finish' >"$scratch/cli.sh"
printf '#!/bin/sh\nexec bash %s\n' "$scratch/cli.sh" >"$scratch/cli"
chmod +x "$scratch/cli"
expect 'tests of the program' 0 '1 passed, 0 failed, 1 skipped' cli

echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
