/* bwd_hopper.h: planning and launching bwd_sm90 and bwd_sm90_wide, with the kernels before and
 * after them. */
#ifndef ATT_BACKWARD_BWD_HOPPER_H
#define ATT_BACKWARD_BWD_HOPPER_H

#include "backward/cuda/backward_steps.h"
#include "kernels/bwd_sm90_params.h"

/* A problem cut for one row on one device: the plan state. */
typedef struct att_backward_hopper {
    att_backward_tiling tiling;
    const att_cuda_function *finish;
    att_cuda_shape finish_shape;
    att_bwd_sm90_params params; /* except `bwd` and the pointers */
} att_backward_hopper;

/* att_family.serves, .cut, .run and .describe. */
bool att_backward_hopper_serves(const att_kernel_row *row, const att_limits *limits,
                                const void *problem, att_refusal *refusal);
att_status att_backward_hopper_cut(void *state, size_t *workspace, const att_context *ctx,
                                   const att_kernel_row *row, const void *problem);
att_status att_backward_hopper_run(const att_plan *plan, const void *args, void *workspace,
                                   void *stream);
void att_backward_hopper_describe(const att_plan *plan, char *text, size_t n);

/* Is `finish` of the family that computes dQ from the sums of `row`'s family? */
bool att_backward_hopper_finishes(const att_kernel_row *finish, const att_kernel_row *row);

/* The kernel that computes dQ from the sums of `row`, or NULL. */
const att_cuda_kernel *att_backward_hopper_finish(const att_kernel_row *row,
                                                  bool allow_unattested);

/* Units whose key tiles are interleaved, and sets of key tiles with separate sums of dQ, on a
 * GPU with `sms` SMs. */
int64_t att_backward_hopper_section(const att_cuda_kernel *kernel, const att_problem *p,
                                    int sms);
int att_backward_hopper_sets(const att_cuda_kernel *kernel, const att_problem *p, int sms);

#endif
