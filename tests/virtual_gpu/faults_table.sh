#!/usr/bin/env bash
# faults_table.sh: the planted faults of faults.txt and what caught them (evidence/virtual/faults.txt), as Markdown.
set -euo pipefail
cd "$(dirname "$0")/../.."

# shellcheck source=tests/virtual_gpu/faults_list.sh
source tests/virtual_gpu/faults_list.sh
results=evidence/virtual/faults.txt
read_faults tests/virtual_gpu/faults.txt
declare -A check seen by_kind by_kind_caught by_check sources
while IFS=$'\t' read -r name _ kernels virtual first _ seeds _; do
    [[ $name != '#'* ]] || continue
    check[$name]=$first
    seen[$name]=$seeds
    sources["kernels $kernels, virtual GPU $virtual"]=yes
done <"$results"

planted=0
caught=0
for name in "${names[@]}"; do
    [[ -z ${equivalent[$name]:-} ]] || continue
    is=${kind[$name]}
    planted=$((planted + 1))
    by_kind[$is]=$((${by_kind[$is]:-0} + 1))
    [[ ${seen[$name]:-0} != 0* ]] || continue
    caught=$((caught + 1))
    by_kind_caught[$is]=$((${by_kind_caught[$is]:-0} + 1))
    by_check[${check[$name]}]=$((${by_check[${check[$name]}]:-0} + 1))
done

printf -v percent "%d.%d" $((1000 * caught / planted / 10)) $((1000 * caught / planted % 10))
echo "**$caught of $planted planted faults are caught** ($percent %). Digests of the sources: $(printf "%s\n" "${!sources[@]}" | sort | paste -sd ";" | sed "s/;/; /g")."
echo
echo '| kind | planted | caught |'
echo '|---|---|---|'
for is in synchronisation addressing masks numbers; do
    echo "| $is | ${by_kind[$is]:-0} | ${by_kind_caught[$is]:-0} |"
done
echo
echo '| check | caught first by it |'
echo '|---|---|'
for is in "${!by_check[@]}"; do
    echo "${by_check[$is]} $is"
done | sort -k 1,1nr -k 2 | sed -E 's/^([0-9]+) (.*)/| \2 | \1 |/'

if ((${#missed[@]} + ${#equivalent[@]} > 0)); then
    echo
    echo '| not caught | kernel | why |'
    echo '|---|---|---|'
    for name in "${names[@]}"; do
        [[ -z ${missed[$name]:-} ]] || echo "| \`$name\` | \`${kernel[$name]}\` | ${missed[$name]} |"
        [[ -z ${equivalent[$name]:-} ]] || echo "| \`$name\` (equivalent, not counted) | \`${kernel[$name]}\` | ${equivalent[$name]} |"
    done
fi

echo
echo '| fault | kind | kernel | file | caught by | seeds |'
echo '|---|---|---|---|---|---|'
for name in "${names[@]}"; do
    echo "| $name | ${kind[$name]} | \`${kernel[$name]}\` | ${file[$name]} | ${check[$name]:-?} | ${seen[$name]:-?} |"
done
