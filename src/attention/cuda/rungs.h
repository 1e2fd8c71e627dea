/* rungs.h: the steps of the ladder below the production kernels: the problems each accepts, its
 * grid and its run. */
#ifndef ATT_CUDA_RUNGS_H
#define ATT_CUDA_RUNGS_H

#include "attention/cuda/tiling.h"
#include "core/plan.h"

/* What a rung requires of a problem, att_family.asks: the LIMITS of its source. */
enum {
    ATT_ASKS_PLAIN_SCORES = 1u << 0, /* no softcap, ALiBi, bias, sinks or pages */
    ATT_ASKS_VECTORS = 1u << 1,      /* 16 bytes at a time, O of the type of Q */
    ATT_ASKS_CUBLAS = 1u << 2
};

/* Why the rung cannot serve a problem, apart from the dtype and the head dimensions of its row,
 * or NULL; *field is then the field at fault. */
const char *att_cuda_rung_refusal(unsigned asks, const att_cuda_kernel *kernel,
                                  const att_problem *p, const char **field);

/* att_family.cut and .run. With a grid of 0 blocks nothing is launched. */
att_status att_cuda_rung_cut(void *state, size_t *workspace, const att_context *ctx,
                             const att_kernel_row *row, const void *problem);
att_status att_cuda_rung_run(const att_plan *plan, const void *args, void *workspace,
                             void *stream);

#endif
