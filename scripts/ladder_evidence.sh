#!/usr/bin/env bash
# ladder_evidence.sh: makes the evidence of the ladder, on a machine with a GPU. Compiles nothing.
#
#   BUILD=build scripts/ladder_evidence.sh FOLDER [VARIANTS]
#
# Writes FOLDER/ladder_verify.txt (every rung over the suites), ladder.json (times of the seed suite) and
# ladder_profile.csv (the metrics of Nsight Compute; its reports are kept beside it). With VARIANTS, the build folder of
# scripts/ladder_variants.sh, also ladder_variants.json. `make ladder` then puts them into the documents.
set -uo pipefail

build=${BUILD:-build}
folder=$1
shape_options=(--suite seed --device cuda --allow-slow --seconds 0.1 --min-samples 40 --max-samples 40)
mkdir -p "$folder"
failed=0

kernels_of() { # kernels_of ID...: as options
    printf -- '--kernel\n%s\n' "$@"
}

for rung in naive_sm80 'tiled_sm80*' 'vector_sm80*' unfused_sm80 'mma_sm80*' 'mma_async_sm80*'; do
    for suite in seed quick edge gpu; do
        printed=$(timeout 100 "$build/attest" verify --suite "$suite" --device cuda --allow-slow --kernel "$rung" 2>&1)
        status=$?
        # 3: nothing failed, and something is outside the rung's limits.
        ((status == 0 || status == 3)) || grep -A 1 '^FAIL ' <<<"$printed" >&2
        # 124: it was stopped, so what it had printed is not a verdict.
        ((status != 124)) || printed='not finished in 100 s'
        printf '%-16s %-6s %s\n' "$rung" "$suite" "$(tail -n 1 <<<"$printed")"
    done
done | tee "$folder/ladder_verify.txt"
! grep -v ' 0 failed' "$folder/ladder_verify.txt" || failed=1

mapfile -t rungs < <(kernels_of naive_sm80 tiled_sm80_d128 vector_sm80_d64 unfused_sm80 mma_sm80_f16_d64 \
    mma_async_sm80_f16_d64 'fwd_sm80_f16_d64*')
"$build/attest" bench "${shape_options[@]}" "${rungs[@]}" --json "$folder/ladder.json" || failed=1
if [[ -n ${2-} ]]; then
    mapfile -t variants < <(kernels_of {mma_sm80_f16_d64{,_n32,_m128w8},mma_async_sm80_f16_d64{,_s3,_n32,_n128,_m128w8}})
    "$2/attest" bench "${shape_options[@]}" "${variants[@]}" --json "$folder/ladder_variants.json" || failed=1
fi
# The metrics of Nsight Compute for every rung: rung,launch,kernel,metric,unit,value.
echo 'rung,launch,kernel,metric,unit,value' >"$folder/ladder_profile.csv"
for kernel in naive_sm80 tiled_sm80_d128 vector_sm80_d64 unfused_sm80 mma_sm80_f16_d64 mma_async_sm80_f16_d64 'fwd_sm80_f16_d64*'; do
    "$build/attest" profile b2h8s512d64,fp16 --device cuda --allow-slow --kernel "$kernel" -o "$folder/ladder_${kernel%%_sm80*}" --csv "$folder/profile.new" || failed=1
    tail -n +2 "$folder/profile.new" | sed "s/^/${kernel%%_sm80*},/" >>"$folder/ladder_profile.csv"
    rm -f "$folder/profile.new"
done
exit $failed
