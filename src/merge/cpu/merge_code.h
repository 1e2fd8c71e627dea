/* merge_code.h: the CPU kernels of merge: one function per instruction set. */
#ifndef ATT_MERGE_CPU_CODE_H
#define ATT_MERGE_CPU_CODE_H

#include "core/kernel_row.h"
#include "merge/merge.h"

/* att_cpu_kernel.code of the family att_family_cpu_merge. */
typedef struct att_merge_code {
    /* Merge rows [begin, end) of batch * heads * seq. */
    void (*rows)(const att_merge_problem *p, const att_merge_args *a, int64_t begin,
                 int64_t end);
} att_merge_code;

#endif
