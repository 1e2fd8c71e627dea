/* kernel.h: the interface of every CPU kernel of attention. */
#ifndef ATT_ATTENTION_CPU_KERNEL_H
#define ATT_ATTENTION_CPU_KERNEL_H

#include "attention/cpu/job.h"
#include "core/kernel_row.h"

/* att_cpu_kernel.code of the families att_family_cpu_fwd and att_family_cpu_decode. */
typedef struct att_cpu_code {
    int64_t row_step; /* a task's rows are a multiple of this */
    int64_t row_most; /* and at most this */
    /* Scratch bytes per thread for tasks of `rows` rows. */
    size_t (*scratch)(const att_problem *p, int64_t rows);
    /* Compute one task. Task 0 writes its own id into the launch record. */
    void (*run)(const att_cpu_job *job, int64_t task, void *scratch);
    /* Merge the splits of one task's rows and finish them. */
    void (*combine)(const att_cpu_job *job, int64_t task);
} att_cpu_code;

enum { ATT_CPU_D_MAX = 256 }; /* the largest head dimension of the CPU kernels */

#endif
