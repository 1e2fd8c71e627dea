#!/usr/bin/env bash
# test_setup.sh: everything that scripts/setup.sh fetches with pip is pinned to one version with one digest.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
}

# A toolkit without a disassembler, and a Python that records how it is called.
mkdir "$scratch/bin"
printf '#!/bin/sh\n' >"$scratch/bin/nvcc"
# shellcheck disable=SC2016 # expanded when it is called
printf '#!/bin/sh\n[ "$2" != pip ] || echo "$@" >>"%s/calls"\n' "$scratch" >"$scratch/bin/python3"
chmod +x "$scratch"/bin/*
: >"$scratch/calls"

PATH=$scratch/bin:$PATH BUILD=$scratch/build scripts/setup.sh test >/dev/null 2>&1
check 'pip is called once per list' test "$(grep -c ' install ' "$scratch/calls")" -eq 2
for list in nvdisasm wheel_tools; do
    check "by the list $list" grep -q -- " -r scripts/$list.txt$" "$scratch/calls"
    check "$list has one version and digest per package" test "$(grep -v '^#' "scripts/$list.txt" |
        grep -vcE '^[a-z0-9-]+==[0-9.]+( --hash=sha256:[0-9a-f]{64})+$')" -eq 0
done
check 'with digests' test "$(grep ' install ' "$scratch/calls" | grep -vc -- ' --require-hashes ')" -eq 0
check 'for what is named with them alone' test "$(grep ' install ' "$scratch/calls" | grep -vc -- ' --no-deps ')" -eq 0
check 'no other script or rule has pip fetch anything' test -z \
    "$(grep -rnE 'pip3? (install|download) [^.]' Makefile mk scripts tests .ci | grep -v -e '--no-index' |
        grep -vE '^(scripts/setup.sh|tests/test_setup.sh):')"

echo "$passed passed, $failed failed, 0 skipped"
((failed == 0))
