# quietly.sh: sourced by tests that run commands in their own folder, $scratch, which is removed at the end.
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
