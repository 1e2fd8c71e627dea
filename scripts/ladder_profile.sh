#!/usr/bin/env bash
# ladder_profile.sh: what Nsight Compute sees of every rung of the ladder, at b2h8s512d64, fp16.
#
#   BUILD=build scripts/ladder_profile.sh >evidence/h200/ladder_profile.csv
#
# A line a launch and metric: rung,launch,"kernel","metric","unit","value". Its times are not
# benchmarks: caches are flushed, and a counter may take a launch of its own.
set -euo pipefail

build=${BUILD:-build}
shape=b2h8s512d64,fp16
stalls=(long_scoreboard short_scoreboard barrier wait math_pipe_throttle mio_throttle lg_throttle)
metrics=gpu__time_duration.sum,launch__registers_per_thread
for unit in sm__throughput gpu__dram_throughput lts__throughput; do
    metrics+=,$unit.avg.pct_of_peak_sustained_elapsed
done
for unit in sm__pipe_tensor_cycles_active sm__pipe_fma_cycles_active sm__warps_active; do
    metrics+=,$unit.avg.pct_of_peak_sustained_active
done
metrics+=,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum
for stall in "${stalls[@]}"; do
    metrics+=,smsp__average_warps_issue_stalled_${stall}_per_issue_active.ratio
done

echo 'rung,launch,kernel,metric,unit,value'
for kernel in naive_sm80 tiled_sm80_d128 vector_sm80_d64 unfused_sm80 mma_sm80_f16_d64 mma_async_sm80_f16_d64 \
    'fwd_sm80_f16_d64*'; do
    # Five launches are one run of `unfused`.
    ncu --clock-control none --launch-count 5 --metrics "$metrics" --csv "$build/attest" run --shape "$shape" --device cuda --allow-slow \
        --kernel "$kernel" |
        awk -v rung="${kernel%%_sm80*}" '
            { sub(/^"/, ""); sub(/"$/, ""); fields = split($0, field, "\",\"") }
            field[1] == "ID" { for (i = 1; i <= fields; i++) at[field[i]] = i; next }
            fields > 10 { printf "%s,%s,\"%s\",\"%s\",\"%s\",\"%s\"\n", rung, field[1], field[at["Kernel Name"]],
                          field[at["Metric Name"]], field[at["Metric Unit"]], field[at["Metric Value"]] }'
done
