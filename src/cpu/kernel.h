/* kernel.h: what every CPU kernel offers, and the list of those built in. */
#ifndef ATT_CPU_KERNEL_H
#define ATT_CPU_KERNEL_H

#include "cpu/job.h"

typedef struct att_cpu_kernel {
    const char *id;
    int64_t row_step; /* a task's rows are a multiple of this */
    int64_t row_most; /* and at most this */
    /* Scratch bytes a thread needs for tasks of `rows` rows. */
    size_t (*scratch)(const att_problem *p, int64_t rows);
    /* Compute one task. Task 0 writes its own id into the launch record. */
    void (*run)(const att_cpu_job *job, int64_t task, void *scratch);
    /* Merge the splits of one task's rows and finish them. */
    void (*combine)(const att_cpu_job *job, int64_t task);
} att_cpu_kernel;

#define ATT_CPU_KERNEL(id, isa, family, summary) extern const att_cpu_kernel id;
#include "kernels/kernels.def"

#endif
