#!/usr/bin/env bash
# row.sh: one kernel row on the virtual GPU, on the problems of problems.txt that are for it.
#
#   BUILD=build tests/virtual_gpu/row.sh SEED ROW
#
# Prints the output of `attest verify`, and ends with `N passed, N failed`. A row that supports nothing fails.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

build=${BUILD:-build}
cuda=${CUDA_OUT:-$build/cuda}
row=$2
flags=$(<"$cuda/$row.flags") || exit 1
# rows.mk has the rows of kernels.def in a form that make reads: $(eval $(call cuda_row,ID,SOURCE,COMPUTE CAPABILITIES))
IFS=, read -r _ _ source targets < <(grep ",$row," "$cuda/rows.mk")
targets=${targets%%)*}

flag() { # flag NAME [FLAGS]: its value in these flags, or in this row's; empty: there is none
    local from=${2-$flags}
    [[ $from != *-D"$1"=* ]] || { from=${from#*-D"$1"=} && echo "${from%% *}"; }
}

kind_of() { # kind_of FLAGS: what the rows that share lines have in common, apart from source and targets
    local type
    type=$(flag DTYPE "$1")
    echo "$(flag ROLE "$1") $(flag FEATURES "$1") ${type#B}"
}

dims() { # dims D_QK D_V: as a problem has them
    local words=d$1
    (($1 == $2)) || words+=dv$2
    echo "$words"
}

d_qk=$(flag D_QK)
d_v=$(flag D_V)
large=$(dims "$d_qk" "$d_v")
small=$(dims $((d_qk - 8)) $((d_v - 8)))
role=$(flag ROLE)
# A row with features compiled in uses only the lines with these: it refuses problems without them.
case $(flag FEATURES) in
1) role=ALIBI ;;
2) role=SOFTCAP ;;
4) role=BIAS ;;
8) role=MASK ;;
16) role=PAGES ;;
esac
kernels=(--kernel "$row")
case $(flag DTYPE) in
F16) type=fp16 ;;
BF16) type=bf16 ;;
*) type=f32 ;;
esac
case $role,$source in
*,merge) kinds=merge ;;
*,moe_sm90*) # the same of Hopper
    kinds=moe-sm90
    kernels=(--kernel "moe_sm90_${type/fp/f}_m$(flag TILE_M)*")
    ;;
*,moe_few*) # those for few tokens
    kinds=moe-few
    kernels=(--kernel "moe_few_${type/fp/f}_m$(flag TILE_M)*")
    ;;
*,moe_*) # products of both sizes of a tile; what goes before and after them through the smaller
    kinds=moe
    [[ $role != STEP || $type != f32 ]] || kinds=moe-$source type=bf16
    tile=$(flag TILE_M)
    kernels=(--kernel "moe_sm80_${type/fp/f}_m$((tile > 1 ? tile : 16))*")
    ;;
DECODE,fwd_decode_shares) kinds=SHARES ;;
PAGES,fwd_decode_shares) kinds=PAGES_SHARES ;;
STEP,fwd_decode_join) # it joins parts of both types
    kinds=SHARES
    kernels=(--kernel "decode_sm90_bf16_d64_shares_m8*")
    large=d64 small=d56 type=bf16
    ;;
STEP,*) # through the main kernels whose runs it is a step of
    kinds=backward-$source
    [[ $type != f32 ]] || type=bf16
    kernels=(--kernel "bwd_sm80_${type/fp/f}_d${d_qk}_*")
    [[ $source != *sm90* ]] || kernels=(--kernel "${source%finish}${type/fp/f}_d${d_qk}_*")
    if [[ $source == *wide* && $(flag TILE_N) == 128 ]]; then # its tile is for fewer columns of V
        kernels=(--kernel "bwd_sm90_wide_${type/fp/f}_d192v128_m64n128*")
        large=d192dv128 small=d184dv120
    fi
    ;;
*,bwd_*) kinds="backward backward-$role" ;;
MASK,fwd_mask) # it reads for the rows of masks
    kinds=MASK
    kernels=(--kernel "fwd_sm90_bf16_d64_mask*")
    large=d64 small=d56 type=bf16
    ;;
COMBINE,*)
    kinds=COMBINE
    kernels=(--kernel "fwd_sm80_f16_d${d_qk}_general*" --kernel "fwd_sm80_bf16_d${d_qk}_general*")
    export ATTEST_VIRTUAL_SMS=8
    ;;
ALIBI,* | SOFTCAP,* | BIAS,* | MASK,* | PAGES,*) kinds=$role ;;
SPLIT,*)
    kinds="any $role"
    export ATTEST_VIRTUAL_SMS=8
    ;;
*) kinds="any $role" ;;
esac

# Rows of one source and role differ only in type, head dimension and tile: up to four of them share the lines in turns, except the
# first. A row that is not for the newest GPU differs from one that is only in the tile: it uses every second of its lines.
alike=0 mine=0 kind=$(kind_of "$flags")
while IFS=, read -r _ other other_source other_targets; do
    [[ $other_source,${other_targets%%)*} == "$source,$targets" ]] || continue
    [[ $(kind_of "$(<"$cuda/$other.flags")") == "$kind" ]] || continue
    [[ $other != "$row" ]] || mine=$alike
    alike=$((alike + 1))
done < <(grep cuda_row, "$cuda/rows.mk")
every=$((alike < 4 ? alike : 4))
[[ $targets == *90* ]] || every=$((2 * every))
problems=()
turn=0
while read -r kind problem; do
    [[ " $kinds " == *" $kind "* ]] || continue
    turn=$((turn + 1))
    ((turn == 1 || turn % every == mine % every)) || continue
    problem=${problem//'{D}'/$large}
    problem=${problem//'{d}'/$small}
    problems+=("${problem//'{T}'/$type}")
done < <(grep -v '^#' tests/virtual_gpu/problems.txt)

export ATTEST_VIRTUAL_SEED=$1
export FAKE_CUDA_CC=${targets##* } # the newest GPU that the row is for
if [[ $role == COMBINE ]]; then # a test of nothing where the keys are in one part
    plan=$("$build/attest" explain --device virtual "${kernels[@]:0:2}" "${problems[0]}")
    [[ $plan =~ keys\ in\ [1-9][0-9]*\ parts ]] || { echo "${problems[0]}: the keys are not in parts" && exit 1; }
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0
verify() { # verify ARGUMENT...: adds to `passed` and `failed`; 3: some were refused
    local status
    "$build/attest" verify --device virtual --allow-slow "${kernels[@]}" "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    [[ $(<"$log") =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed ]] &&
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
    [[ $status == [03] ]] || ((failed > 0)) || failed=1
}
# The first problem is computed twice, with equal results; the others once, each with its own schedule.
verify "${problems[0]}"
((${#problems[@]} == 1)) || verify --repeats 1 "${problems[@]:1}"
((passed > 0)) || failed=1
echo "$passed passed, $failed failed"
((failed == 0))
