/* backward_steps.h: the additional kernels of a backward run: bwd_delta before the main one;
 * after it, if requested, bwd_sums for the gradients of sinks and slopes, and bwd_bias for that
 * of a bias. */
#ifndef ATT_BACKWARD_STEPS_H
#define ATT_BACKWARD_STEPS_H

#include "core/plan.h"
#include "cuda/launch.h"
#include "kernels/bwd_params.h"

/* Offsets of the parts of the workspace. */
typedef struct att_backward_places {
    size_t terms, d_q_sums, turns, next_work, sink_sums, alibi_sums;
} att_backward_places;

/* A problem cut for one kernel on one device: the plan state of every GPU family of
 * backward. */
typedef struct att_backward_tiling {
    const att_cuda_function *main, *delta, *sums, *bias; /* sums, bias: NULL if not requested */
    att_cuda_shape main_shape, delta_shape, sums_shape, bias_shape;
    att_bwd_params params; /* except the pointers */
    att_backward_places places;
} att_backward_tiling;

/* The first row of `family` that a context may use for the problem, or NULL. */
const att_cuda_kernel *att_backward_step_of(const att_family *family, const att_problem *p,
                                            bool allow_unattested);

/* Load the code of the steps and allocate *workspace for the arrays: `columns` numbers of dQ
 * per row of a tile of `tile_rows` rows, `turn_count` counters per tile, and `alibi_parts` sums
 * per tile of `tile_keys` keys. */
typedef struct att_backward_cut {
    int tile_rows, tile_keys, columns, turn_count, alibi_parts;
} att_backward_cut;
att_status att_backward_steps_cut(att_backward_tiling *t, size_t *workspace,
                                  const att_context *ctx, const att_problem *p,
                                  const att_backward_cut *cut);

/* (Batch, head) pairs whose key tiles the blocks of bwd_sm80 draw in turn, on a GPU that holds
 * `slots` blocks. */
int64_t att_backward_section(const att_cuda_limits *gpu, const att_problem *p, int64_t slots,
                             int64_t key_tiles);

/* The parameters of a run: tensors and workspace. */
void att_backward_point(att_bwd_params *params, const att_backward_tiling *t,
                        const att_args *args, void *workspace);

att_status att_backward_launch_ahead(const att_backward_tiling *t, const att_bwd_params *params,
                                     void *stream);
att_status att_backward_launch_behind(const att_backward_tiling *t,
                                      const att_bwd_params *params, void *stream);

extern const att_family att_family_bwd_delta, att_family_bwd_sums, att_family_bwd_bias;

#endif
