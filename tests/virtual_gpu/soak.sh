#!/usr/bin/env bash
# soak.sh: kernel rows on the virtual GPU, with one seed after the other, until the time is up.
#
#   BUILD=build tests/virtual_gpu/soak.sh SECONDS SEED ROW...
#
# Prints failures with the seed that reproduces them, and ends with `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

end=$((SECONDS + $1))
first=$2
shift 2
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

worker() { # worker NUMBER COUNT ROW...: every COUNT-th row, from NUMBER on, seed after seed
    local number=$1 count=$2 seed turn passed=0 failed=0
    shift 2
    local -a rows=("$@")
    for ((turn = number; SECONDS < end; turn += count)); do
        seed=$((first + turn / ${#rows[@]}))
        if timeout $((end - SECONDS + 120)) tests/virtual_gpu/row.sh "$seed" "${rows[turn % ${#rows[@]}]}" >"$logs/$number" 2>&1; then
            passed=$((passed + $(sed -nE 's/^([0-9]+) passed, 0 failed$/\1/p' "$logs/$number" | tail -n 1)))
        else
            failed=$((failed + 1))
            echo "FAILED: tests/virtual_gpu/row.sh $seed ${rows[turn % ${#rows[@]}]}"
            grep -A 4 '^virtual GPU: ' "$logs/$number" | head -n 20
        fi
    done
    echo "$passed $failed" >"$logs/$number.count"
}

jobs=$(nproc)
for ((i = 0; i < jobs; i++)); do
    worker "$i" "$jobs" "$@" &
done
wait
cat "$logs"/*.count | awk '{ passed += $1; failed += $2 } END { print passed " passed, " failed " failed"; exit failed > 0 }'
