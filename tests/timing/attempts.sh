# attempts.sh: what the tests on the real clock share; sourced by each of them.
#
# Another program on the same cores can hide a cheat that shows only in its times, or make an honest subject look like one.
# The tests check that the harness can tell: each has three attempts, and the last one counts.
# shellcheck shell=bash
# shellcheck source=tests/cli/common.sh
source "$(dirname "$0")/../cli/common.sh"

expect_in_three() { # expect_in_three NAME STATUS ... -- ARGUMENT...: as `expect`
    local try before=$failed
    for try in 1 2; do
        expect "$@" >/dev/null
        ((failed > before)) || return
        failed=$before
        sleep "$try"
    done
    expect "$@"
}
