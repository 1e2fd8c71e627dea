#!/usr/bin/env bash
# ladder.sh: put the measurements into docs/ladder.md and the headers of the rungs, or check that they are up to date.
#
#   ladder.sh TABLE_PROGRAM          rewrite docs/ladder.md between its markers, and the rungs' lines MEASURED
#   ladder.sh --check TABLE_PROGRAM  fail if that would change anything
set -euo pipefail
cd "$(dirname "$0")/.."

check=
if [[ ${1-} == --check ]]; then
    check=1
    shift
fi
table=$1
evidence=evidence/h200
files=("$evidence/ladder.json" "$evidence/ladder_profile.csv")
new=$(mktemp)
trap 'rm -f "$new"' EXIT

settle() { # settle FILE: $new takes its place, or must be the same
    if [[ -z $check ]]; then
        cmp -s "$new" "$1" || cat "$new" >"$1"
    elif ! diff -u "$1" "$new"; then
        echo "ladder: $1 does not hold what $evidence says; run make ladder" >&2
        exit 1
    fi
}

{
    sed '/^<!-- tables begin/q' docs/ladder.md
    echo
    "$table" "${files[@]}"
    echo
    sed -n '/^<!-- tables end/,$p' docs/ladder.md
} >"$new"
settle docs/ladder.md

"$table" --headers "${files[@]}" | while read -r rung measured; do
    [[ $rung != fwd ]] || continue
    sed "s|^ \* MEASURED .*| * MEASURED $measured: $evidence/ladder.json|" "kernels/$rung.cu" >"$new"
    grep -q '^ \* MEASURED ' "$new" || {
        echo "ladder: kernels/$rung.cu has no line MEASURED" >&2
        exit 1
    }
    settle "kernels/$rung.cu"
done
[[ -z $check ]] || echo "ladder: docs/ladder.md and the headers of the rungs hold what $evidence says"
