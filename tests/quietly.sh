# quietly.sh: sourced by the tests that run commands in a folder of their own: $scratch, which goes when they end.
# shellcheck shell=bash
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "$(basename "$0" .sh): $*" >&2
    exit 1
}

quietly() { # run a command; show what it said only if it fails
    "$@" >"$scratch/log" 2>&1 || {
        cat "$scratch/log" >&2
        fail "failed: $*"
    }
}
