/* profile_metrics.c: the metrics that matter, and whether a GPU has them. */
#include <string.h>

#include "lab/profile/profile.h"

#define ELAPSED     ".avg.pct_of_peak_sustained_elapsed"
#define ACTIVE      ".avg.pct_of_peak_sustained_active"
#define STALL(what) "smsp__average_warps_issue_stalled_" what "_per_issue_active.ratio"

const lab_metric_row lab_metric_rows[LAB_METRICS] = {
    [LAB_METRIC_TIME] = {"time_ns", "time under the profiler", "gpu__time_duration.sum",
                         LAB_KIND_TIME},
    [LAB_METRIC_SM] = {"sm_percent", "busiest unit of the SMs", "sm__throughput" ELAPSED,
                       LAB_KIND_SHARE},
    [LAB_METRIC_TENSOR] = {"tensor_percent", "tensor pipe",
                           "sm__pipe_tensor_cycles_active" ACTIVE, LAB_KIND_SHARE},
    [LAB_METRIC_FMA] = {"fma_percent", "FMA pipe", "sm__pipe_fma_cycles_active" ACTIVE,
                        LAB_KIND_SHARE},
    [LAB_METRIC_DRAM] = {"dram_percent", "DRAM", "gpu__dram_throughput" ELAPSED,
                         LAB_KIND_SHARE},
    [LAB_METRIC_L2] = {"l2_percent", "L2", "lts__throughput" ELAPSED, LAB_KIND_SHARE},
    [LAB_METRIC_WARPS] = {"occupancy_percent", "occupancy", "sm__warps_active" ACTIVE,
                          LAB_KIND_SHARE},
    [LAB_METRIC_READ] = {"dram_read_bytes", "DRAM read", "dram__bytes_read.sum",
                         LAB_KIND_BYTES},
    [LAB_METRIC_WRITTEN] = {"dram_written_bytes", "DRAM written", "dram__bytes_write.sum",
                            LAB_KIND_BYTES},
    [LAB_METRIC_REGISTERS] = {"registers", "registers per thread",
                              "launch__registers_per_thread", LAB_KIND_COUNT},
    [LAB_METRIC_SHARED] = {"shared_bytes", "shared memory per block, dynamic",
                           "launch__shared_mem_per_block_dynamic", LAB_KIND_BYTES},
    [LAB_METRIC_WAVES] = {"waves", "waves of blocks", "launch__waves_per_multiprocessor",
                          LAB_KIND_RATIO},
    [LAB_METRIC_BY_REGISTERS] = {"blocks_by_registers", "blocks per SM by registers",
                                 "launch__occupancy_limit_registers", LAB_KIND_COUNT},
    [LAB_METRIC_BY_SHARED] = {"blocks_by_shared", "blocks per SM by shared memory",
                              "launch__occupancy_limit_shared_mem", LAB_KIND_COUNT},
    [LAB_METRIC_BY_WARPS] = {"blocks_by_warps", "blocks per SM by warps",
                             "launch__occupancy_limit_warps", LAB_KIND_COUNT},
    [LAB_METRIC_BY_BLOCKS] = {"blocks_by_blocks", "blocks per SM by their number",
                              "launch__occupancy_limit_blocks", LAB_KIND_COUNT},
    [LAB_METRIC_SPILLS] = {"spill_requests", "spills, requests",
                           "derived__local_spilling_requests", LAB_KIND_COUNT},
    [LAB_METRIC_CONFLICTS] = {"bank_conflicts", "bank conflicts in shared memory",
                              "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
                              LAB_KIND_COUNT},
    [LAB_METRIC_HMMA] = {"hmma_instructions", "mma instructions",
                         "sm__inst_executed_pipe_tensor_op_hmma.sum", LAB_KIND_COUNT},
    [LAB_METRIC_GMMA] = {"gmma_instructions", "wgmma instructions",
                         "sm__inst_executed_pipe_tensor_op_gmma.sum", LAB_KIND_COUNT},
    [LAB_METRIC_STALL_LONG_SCOREBOARD] = {"stall_long_scoreboard", "global memory",
                                          STALL("long_scoreboard"), LAB_KIND_RATIO},
    [LAB_METRIC_STALL_SHORT_SCOREBOARD] = {"stall_short_scoreboard", "shared memory",
                                           STALL("short_scoreboard"), LAB_KIND_RATIO},
    [LAB_METRIC_STALL_BARRIER] = {"stall_barrier", "barriers", STALL("barrier"),
                                  LAB_KIND_RATIO},
    [LAB_METRIC_STALL_WAIT] = {"stall_wait", "instructions that depend on each other",
                               STALL("wait"), LAB_KIND_RATIO},
    [LAB_METRIC_STALL_MATH] = {"stall_math_pipe_throttle", "the arithmetic pipes",
                               STALL("math_pipe_throttle"), LAB_KIND_RATIO},
    [LAB_METRIC_STALL_MIO] = {"stall_mio_throttle", "the queue to shared memory",
                              STALL("mio_throttle"), LAB_KIND_RATIO},
    [LAB_METRIC_STALL_LG] = {"stall_lg_throttle", "the queue to global memory",
                             STALL("lg_throttle"), LAB_KIND_RATIO},
};

static bool is_of_launch(const char *name) {
    return strncmp(name, "launch__", 8) == 0 || strncmp(name, "derived__", 9) == 0;
}

/* A line of the list begins with the name without its suffix. */
bool lab_metric_listed(lab_metric metric, const char *list) {
    const char *name = lab_metric_rows[metric].name;
    const size_t length = strcspn(name, ".");
    if (is_of_launch(name))
        return true;
    for (const char *line = list; line; line = strchr(line, '\n')) {
        line += strspn(line, "\n");
        if (strcspn(line, " \t\r\n,") == length && strncmp(line, name, length) == 0)
            return true;
        if (!*line)
            break;
    }
    return false;
}
