#!/usr/bin/env bash
# faults.sh: plants the faults of faults.txt in a copy of the kernels, one at a time, and checks that the virtual GPU
# catches them.
#
#   BUILD=build tests/virtual_gpu/faults.sh            all of them; writes evidence/virtual/faults.txt
#   BUILD=build tests/virtual_gpu/faults.sh NAME...    these; writes their lines there
#   BUILD=build tests/virtual_gpu/faults.sh --quick    those that faults.txt marks as quick, with one seed; writes nothing
#   BUILD=build tests/virtual_gpu/faults.sh --sound    no fault at all, on every problem and with every seed that
#                                                      catches one: what `make test` must run so that each fault
#                                                      turns it red
#   tests/virtual_gpu/faults.sh --check                whether every fault can be planted and has a result
#
# A fault proves nothing if the kernel also fails without it: the unmodified kernel must pass the same problems with the
# same seeds first. Ends with `N passed, N failed`: passed is a fault that was caught, or that is known to be missed or
# to change nothing.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

# shellcheck source=tests/virtual_gpu/faults_list.sh
source tests/virtual_gpu/faults_list.sh
build=${BUILD:-build}
results=evidence/virtual/faults.txt
seeds=(1 2 3)
limit=120 # seconds of processor time of a run: how busy the machine is does not count
passed=0
failed=0

complain() {
    failed=$((failed + 1))
    echo "FAILED $1"
}

# ------------------------------------------------------------ planting

clear_fault() { # clear_fault NAME
    cp "kernels/${file[$1]}" "$work/kernels/${file[$1]}"
}

plant() { # plant NAME: false where its text is not there as often as it should be
    local text rest=0 count=0 before after
    text=$(<"kernels/${file[$1]}") || return
    while
        after=${text:rest}
        before=${after%%"${find[$1]}"*}
        ((${#before} < ${#after}))
    do
        count=$((count + 1))
        rest=$((rest + ${#before} + ${#find[$1]}))
    done
    if ((count != times[$1])); then
        complain "$1: its text is $count times in kernels/${file[$1]}, not ${times[$1]}: correct faults.txt"
        return 1
    fi
    printf '%s\n' "${text//"${find[$1]}"/"${put[$1]:-}"}" >"$work/kernels/${file[$1]}"
}

# ------------------------------------------------------------ running

run() { # run NAME SEED [planted]: sets `check`, "" where nothing is wrong. Without a fault, with the code that `make test-virtual` has compiled
    local log=$work/log status
    local -a list settings=("ATTEST_VIRTUAL_SEED=$2" "ATTEST_VIRTUAL_SMS=${sms[$1]}")
    [[ ${3:-} != planted ]] || settings+=("ATTEST_VIRTUAL_SOURCES=$work" "ATTEST_VIRTUAL_CACHE=$work/cache")
    read -ra list <<<"${problems[$1]}"
    (
        ulimit -t "$limit"
        exec env "${settings[@]}" timeout "$((20 * limit))" "$build/attest" verify --device virtual --allow-slow --allow-unattested --repeats 1 \
            --kernel "${kernel[$1]}" "${list[@]}"
    ) >"$log" 2>&1
    status=$?
    check=$(sed -nE 's/^virtual GPU: ([^:]+): .*/\1/p' "$log" | head -n 1)
    [[ -z $check ]] || return 0
    case $status in
    0) ;;
    1) check=numbers ;; # O or LSE is not what the oracle has, or memory beside them was written
    3) check=compiler ;; # or the problem is not for the kernel
    124 | 137 | 152) check=hang ;;
    *) check="status $status" ;;
    esac
}

is_caught() { # is_caught CHECK
    [[ -n $1 && $1 != compiler && $1 != hang && $1 != status* ]]
}

declare -A sound=()
check_sound() { # check_sound NAME: without the fault all is well
    local key="${kernel[$1]} ${problems[$1]} ${sms[$1]}" seed
    [[ -z ${sound[$key]:-} ]] || return "${sound[$key]}"
    sound[$key]=0
    for seed in "${seeds[@]}"; do
        run "$1" "$seed"
        [[ -z $check ]] && continue
        complain "${kernel[$1]} on ${problems[$1]}, seed $seed, without any fault: $check"
        sound[$key]=1
        break
    done
    return "${sound[$key]}"
}

try_fault() { # try_fault NAME: sets `outcome`, its line of the results
    local begin=$EPOCHREALTIME seed first='-' first_seed='-' caught=0 tried=0
    plant "$1" || return
    for seed in "${seeds[@]}"; do
        run "$1" "$seed" planted
        tried=$((tried + 1))
        if is_caught "$check"; then
            ((caught++)) || { first=$check && first_seed=$seed; }
            # A result that does not depend on the schedule is wrong with every seed.
            [[ $check != numbers || ${kind[$1]} == synchronisation ]] || break
        elif [[ $caught == 0 && -n $check ]]; then
            first=$check
        fi
    done
    clear_fault "$1"
    rm -rf "$work/cache"
    printf -v outcome '%s\t%s\t%s\t%s\t%s\t%s\t%d of %d\t%.1f' "$1" "${digest[$1]}" "$kernels" "$virtual" "$first" "$first_seed" "$caught" "$tried" \
        "$(awk "BEGIN { print $EPOCHREALTIME - $begin }")"
    judge_fault "$1" "$caught" "$first"
}

judge_fault() { # judge_fault NAME CAUGHT CHECK: as faults.txt says?
    if [[ -n ${missed[$1]:-}${equivalent[$1]:-} ]] && (($2 > 0)); then
        complain "$1 is called missed or equivalent, and was caught: $3"
    elif [[ -n ${missed[$1]:-}${equivalent[$1]:-} ]] || (($2 > 0)); then
        passed=$((passed + 1))
    else
        complain "$1: nothing caught it ($3)"
    fi
}

try_all() { # try_all NAME...: the lines go to $work/results
    local name
    for name in "$@"; do
        check_sound "$name" || continue
        try_fault "$name" || continue
        echo "$outcome" >>"$work/results"
        echo "${outcome//$'\t'/  }"
    done
}

# ------------------------------------------------------------ results

declare -A known=() # the lines that the last run left
read_results() {
    local name rest
    [[ -f $results ]] || return 0
    while IFS=$'\t' read -r name rest; do
        [[ $name == '#'* ]] || known[$name]=$name$'\t'$rest
    done <"$results"
}

write_results() { # those of $work/results, and of the others what was known
    local name rest
    while IFS=$'\t' read -r name rest; do
        known[$name]=$name$'\t'$rest
    done <"$work/results"
    mkdir -p "$(dirname "$results")"
    {
        echo '# What make virtual-faults found: name; digests of the fault, of the kernels, of the virtual GPU; the check that caught it, its first seed, how many seeds caught it; seconds'
        for name in "${names[@]}"; do
            [[ -z ${known[$name]:-} ]] || echo "${known[$name]}"
        done
    } >"$results"
}

check_results() { # every fault has a result of its own text, and there are no others
    local name of_fault of_kernels of_virtual stale=0
    for name in "${names[@]}"; do
        IFS=$'\t' read -r _ of_fault of_kernels of_virtual _ <<<"${known[$name]:-}"
        if [[ $of_fault == "${digest[$name]}" ]]; then
            passed=$((passed + 1))
            [[ $of_kernels == "$kernels" && $of_virtual == "$virtual" ]] || stale=$((stale + 1))
        else
            complain "$name: $results has no result of this fault; make virtual-faults FAULTS=$name"
        fi
    done
    for name in "${!known[@]}"; do
        [[ -n ${kind[$name]:-} ]] || complain "$name: $results has a result of it, faults.txt has no such fault"
    done
    ((stale == 0)) || echo "stale: $stale results are of other kernels, or of another virtual GPU, than the tree's; make virtual-faults"
}

check_all_sound() {
    local name key first
    local -A last=() of=()
    for name in "${names[@]}"; do
        IFS=$'\t' read -r _ _ _ _ _ first _ <<<"${known[$name]:-}"
        [[ $first =~ ^[0-9]+$ ]] || continue # nothing catches it
        key="${kernel[$name]} ${problems[$name]} ${sms[$name]}"
        of[$key]=$name
        ((${last[$key]:-0} >= first)) || last[$key]=$first
    done
    for key in "${!of[@]}"; do
        read -ra seeds <<<"$(seq -s ' ' "${last[$key]}")"
        check_sound "${of[$key]}" && passed=$((passed + 1))
    done
}

check_planting() {
    local name
    for name in "${names[@]}"; do
        plant "$name" && clear_fault "$name"
    done
}

# ------------------------------------------------------------

read_faults tests/virtual_gpu/faults.txt || exit 1
mkdir -p "$build"
work=$(mktemp -d "$(cd "$build" && pwd)/faults.XXXXXX")
trap 'rm -rf "$work"' EXIT
: >"$work/results"
mkdir "$work/faults"
digest_faults "$work/faults"
kernels=$(kernels_digest)
virtual=$(virtual_digest)
cp -R kernels "$work/kernels" # to plant in
read_results
case ${1:-} in
--check)
    check_planting
    check_results
    ;;
--sound) check_all_sound ;;
--quick)
    seeds=(1)
    chosen=()
    for name in "${names[@]}"; do
        [[ -z ${quick[$name]:-} ]] || chosen+=("$name")
    done
    try_all "${chosen[@]}"
    ;;
*)
    (($#)) || set -- "${names[@]}"
    for name in "$@"; do
        [[ -n ${kind[$name]:-} ]] || { complain "faults.txt has no '$name'" && exit 1; }
    done
    try_all "$@"
    write_results
    ;;
esac
echo "$passed passed, $failed failed"
((failed == 0))
