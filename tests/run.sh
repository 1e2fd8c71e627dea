#!/usr/bin/env bash
# run.sh: run commands one after another, count their tests, and close with `N passed, N failed`.
#
#   tests/run.sh [-v] COMMAND...
#
# Each COMMAND is one word list, e.g. "build/tests/unit/test_dtype" or "make test-cli". Its tests are counted
# from its last line of the form `N passed, N failed`, else from the totals that cmocka prints; one that counts
# nothing is one test. A non-zero exit without a counted failure is one failure. What a command prints
# is shown when it fails; with -v, as it runs; lines that begin with `skipped: `, always. Exits 0 only if
# nothing failed.
set -uo pipefail

verbose=false
if [[ ${1:-} == -v ]]; then
    verbose=true
    shift
fi

export ATTEST_ROWS= # whoever runs the tests may have rows of their own

log=$(mktemp)
trap 'rm -f "$log"' EXIT
total_passed=0
total_failed=0
summary=

count() { # count PATTERN: the number captured by the last line that matches, or 0
    local number
    number=$(sed -nE "s/$1/\1/p" "$log" | tail -n 1)
    echo "${number:-0}"
}

tally() { # tally STATUS: set `passed` and `failed` from the log and the exit status
    local closing='^([0-9]+) passed, ([0-9]+) failed$'
    if grep -qE "$closing" "$log"; then
        passed=$(count '^([0-9]+) passed, [0-9]+ failed$')
        failed=$(count '^[0-9]+ passed, ([0-9]+) failed$')
    else
        passed=$(count '^\[  PASSED  \] ([0-9]+) test\(s\).*')
        failed=$(count '^\[  FAILED  \] ([0-9]+) test\(s\).*')
    fi
    if [[ $1 -ne 0 ]]; then
        failed=$((failed > 0 ? failed : 1))
    elif ((passed + failed == 0)); then
        passed=1
    fi
}

for command in "$@"; do
    read -ra words <<<"$command"
    started=$SECONDS
    if $verbose; then
        echo "== ${command##* }"
        "${words[@]}" 2>&1 | tee "$log"
        status=${PIPESTATUS[0]}
    else
        "${words[@]}" >"$log" 2>&1
        status=$?
    fi
    tally "$status"
    if ! $verbose; then
        if ((failed > 0)); then
            grep -vE '^\[ (RUN     |      OK) \]' "$log"
        else
            grep '^skipped: ' "$log"
        fi
        printf '%-36s %4d passed %4d failed %4d s\n' "${command##*/}" "$passed" "$failed" \
            $((SECONDS - started))
    else
        summary+=$(printf '%-20s %5d passed %4d failed %5d s' "${command##* }" "$passed" "$failed" \
            $((SECONDS - started)))$'\n'
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
done

printf '%s' "$summary"
echo "$total_passed passed, $total_failed failed"
((total_failed == 0))
