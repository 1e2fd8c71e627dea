#!/usr/bin/env bash
# ladder.sh: put the tables that were measured into docs/ladder.md, or check that they are there.
#
#   ladder.sh TABLE_PROGRAM          rewrite docs/ladder.md between its two markers
#   ladder.sh --check TABLE_PROGRAM  fail where that would change it
set -euo pipefail
cd "$(dirname "$0")/.."

check=
if [[ ${1-} == --check ]]; then
    check=1
    shift
fi
page=docs/ladder.md
evidence=evidence/h200
new=$(mktemp)
trap 'rm -f "$new"' EXIT
{
    sed '/^<!-- tables begin/q' "$page"
    echo
    "$1" "$evidence/ladder.json" "$evidence/ladder_profile.csv"
    echo
    sed -n '/^<!-- tables end/,$p' "$page"
} >"$new"
if [[ -n $check ]]; then
    diff -u "$page" "$new" || {
        echo "ladder: $page does not hold what $evidence says; run make ladder" >&2
        exit 1
    }
    echo "ladder: the tables of $page are those of $evidence"
else
    cp "$new" "$page"
fi
