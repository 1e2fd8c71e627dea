#!/usr/bin/env bash
# budgets.sh: the built kernels use the resources of kernels/budgets.txt, and production kernels do not spill.
#
#   tests/budgets.sh NVCC_VERSION REPORT...
#
# Checks the build, then plants one violation of each kind in a copy of the reports and demands that it is found.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -lt 2 ]]; then
    echo 'skipped: resource budgets of the kernels: there is no nvcc here'
    exit 0
fi
version=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Production kernels, all except the rungs of the ladder, one id per line.
production() {
    awk -F'[(,]' '/^ATT_CUDA_KERNEL\(/ {
        gsub(/[ \t]/, "")
        if ($5 != "RUNG")
            print $2
    }' kernels/kernels.def
}

# complaints FOLDER: what is wrong with the reports there
complaints() {
    local actual
    actual=$(scripts/kernel_budgets.sh "$version" "$1"/*.ptxas)
    diff kernels/budgets.txt <(echo "$actual") |
        sed -n -e 's/^< \([^#]\)/budgeted \1/p' -e 's/^> \([^#]\)/built    \1/p' -e 's/^< # nvcc/budgets were made by nvcc/p'
    awk 'NR == FNR { production[$1] = 1; next }
         !/^#/ && $1 in production && $5 > 0 { print $1, $2, "spills", $5, "bytes" }' \
        <(production) <(echo "$actual")
}

fail() {
    echo "budgets: $*" >&2
    exit 1
}

mkdir "$scratch/reports"
cp "$@" "$scratch/reports"
found=$(complaints "$scratch/reports")
if [[ -n $found ]]; then
    echo "$found" >&2
    fail "the kernels do not match kernels/budgets.txt; if the change is intended, \`make budgets\` rewrites the file"
fi

plants=0
plant() { # plant REPORT EDIT COMPLAINT: EDIT, by sed, must bring COMPLAINT
    local report=$scratch/reports/$1.ptxas
    cp "$report" "$scratch/kept"
    sed -i -E "$2" "$report"
    found=$(complaints "$scratch/reports")
    [[ $found == *"$3"* ]] || fail "planted $2 in $1, wanted the complaint '$3', got '$found'"
    mv "$scratch/kept" "$report"
    plants=$((plants + 1))
}

victim=$(awk 'NR == FNR { on_80[$1] = on_80[$1] || $2 == "sm_80"; next } on_80[$1] { print $1; exit }' kernels/budgets.txt <(production)).sm_80
plant "$victim" 's/Used [0-9]+ registers/Used 17 registers/' "built    ${victim%.sm_80}"
plant "$victim" '0,/0 bytes spill stores/s//8 bytes spill stores/' 'spills 8 bytes'
plant "$victim" 's/used 1 barriers/used 1 barriers, 512 bytes smem/' "built    ${victim%.sm_80}"
plant "$victim" '0,/[0-9]+ bytes stack frame/s//40 bytes stack frame/' "built    ${victim%.sm_80}"
mv "$scratch/reports/$victim.ptxas" "$scratch"
[[ $(complaints "$scratch/reports") == "budgeted ${victim%.sm_80}"* ]] || fail "a kernel that is gone is not missed"

echo "budgets: $# kernels as budgeted, $(production | wc -l) in production spill nothing; $((plants + 1)) planted violations found"
