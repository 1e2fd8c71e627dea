/* gpu_plan.h: a problem planned for one row on the fake GPU, whichever row the selector would
 * choose. */
#ifndef TESTS_SUPPORT_GPU_PLAN_H
#define TESTS_SUPPORT_GPU_PLAN_H

#include "attention/cuda/tiling.h"

typedef struct gpu_plan {
    const att_kernel_row *row;
    att_cuda_tiling tiling;
    size_t workspace; /* bytes */
} gpu_plan;

/* Plan `p` for `row` on the GPU `device`, as its family does. `row` must live as long as the
 * plan. */
att_status gpu_plan_cut(gpu_plan *out, int device, const att_kernel_row *row,
                        const att_problem *p);

/* Run it; the arguments are not checked. */
att_status gpu_plan_run(const gpu_plan *plan, const att_args *args, void *workspace,
                        void *stream);

/* The registry row called `id`; the test fails if there is none. */
const att_kernel_row *gpu_row_named(const char *id);

/* The family of the kernels compiled from kernels/<source>.cu. */
const att_family *gpu_family_of(const char *source);

/* A row of the family of kernel->source, as it could be in the registry; `kernel` must live as
 * long as the row. */
att_kernel_row gpu_row_of(const att_cuda_kernel *kernel);

#endif
