/* moe_code.h: the interface of every CPU kernel of moe. */
#ifndef ATT_MOE_CPU_CODE_H
#define ATT_MOE_CPU_CODE_H

#include "core/kernel_row.h"
#include "moe/cpu/moe_job.h"

/* att_cpu_kernel.code of the family att_family_cpu_moe. */
typedef struct att_moe_code {
    bool transposes; /* supports ATT_MOE_TRANSPOSED */
    bool pairs;      /* multiplies bfloat16 directly; the others multiply float32 */
    int64_t align;   /* an expert's first position is a multiple of this */
    int64_t block_least, block_most; /* columns per task: a power of two between these */
    /* Scratch bytes per thread for tasks of such blocks, and bytes per position of h. */
    size_t (*scratch)(const att_moe_problem *p, const att_moe_cut *cut);
    size_t (*h_bytes)(const att_moe_problem *p);
    /* Compute block `task % inner_blocks` of h of active expert `task / inner_blocks`. */
    void (*first)(const att_moe_job *job, int64_t task, void *scratch);
    /* Compute block `task` of y. Task 0 writes its own id into the launch record. */
    void (*second)(const att_moe_job *job, int64_t task, void *scratch);
} att_moe_code;

#endif
