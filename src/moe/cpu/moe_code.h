/* moe_code.h: what every CPU kernel of moe offers. */
#ifndef ATT_MOE_CPU_CODE_H
#define ATT_MOE_CPU_CODE_H

#include "core/kernel_row.h"
#include "moe/cpu/moe_job.h"

/* att_cpu_kernel.code of the family att_family_cpu_moe. */
typedef struct att_moe_code {
    bool transposes; /* takes ATT_MOE_TRANSPOSED */
    bool pairs;      /* multiplies bfloat16 as it is; the others multiply float32 */
    int64_t align;   /* an expert's first position is a multiple of this */
    int64_t block_least, block_most; /* columns of a task: a power of two between these */
    /* Scratch bytes a thread needs for tasks of such blocks, and bytes of a position of h. */
    size_t (*scratch)(const att_moe_problem *p, const att_moe_cut *cut);
    size_t (*h_bytes)(const att_moe_problem *p);
    /* Block `task % inner_blocks` of h, of active expert `task / inner_blocks`. */
    void (*first)(const att_moe_job *job, int64_t task, void *scratch);
    /* Block `task` of y. Task 0 writes its own id into the launch record. */
    void (*second)(const att_moe_job *job, int64_t task, void *scratch);
} att_moe_code;

#endif
