/* plan.h: a frozen choice. */
#ifndef ATT_API_PLAN_H
#define ATT_API_PLAN_H

#include "api/context.h"
#include "api/problem.h"
#include "cuda/tiling.h"

struct att_plan {
    att_context *ctx;
    att_problem problem;
    att_extents extents;
    const att_kernel_row *kernel;
    att_cpu_tiling tiling; /* on the CPU */
    att_cuda_tiling cuda;  /* on a GPU */
    size_t workspace;
};

#endif
