#!/usr/bin/env bash
# kernel_budgets.sh: the resources that the compiler gave every kernel, one line per kernel and architecture.
#
#   scripts/kernel_budgets.sh NVCC_VERSION REPORT... >kernels/budgets.txt
#
# A REPORT is the output of `ptxas -v`, kept beside the code as ID.ARCHITECTURE.ptxas. Spills are those of the kernel
# and of every function that it calls.
set -euo pipefail

version=$1
shift
echo "# What the compiler gave every kernel; made by \`make budgets\`, checked by \`make test-budgets\`."
echo "# nvcc $version"
printf '%-34s %-7s %9s %13s %11s %5s\n' '# kernel' target registers static_shared spill_bytes stack
for report in "$@"; do
    awk '
        FNR == 1 {
            name = FILENAME
            sub(/.*\//, "", name)
            sub(/\.ptxas$/, "", name)
            id = architecture = name
            sub(/\.[^.]*$/, "", id)
            sub(/.*\./, "", architecture)
        }
        /bytes stack frame/ {
            spills += $5 + $9
            if (entry)
                stack = $1
            entry = 0
        }
        /Function properties for/ { entry = $NF == id }
        /: Used [0-9]+ registers/ {
            registers = $5
            for (i = 1; i < NF; i++) {
                if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
                if ($(i + 1) == "bytes" && $(i + 2) == "cumulative") stack = $i
            }
        }
        END {
            if (registers == "") {
                print FILENAME ": is not a report of " id >"/dev/stderr"
                exit 1
            }
            printf "%-34s %-7s %9d %13d %11d %5d\n", id, architecture, registers, shared, spills, stack
        }' "$report"
done | LC_ALL=C sort
