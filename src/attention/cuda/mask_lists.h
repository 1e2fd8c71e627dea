/* mask_lists.h: planning and launching fwd_mask, which reads a boolean mask before an attention
 * kernel with ATT_FEATURE_MASK. */
#ifndef ATT_CUDA_MASK_LISTS_H
#define ATT_CUDA_MASK_LISTS_H

#include "attention/cuda/tiling.h"

/* The kernel that reads masks, or NULL; one without evidence only if that is allowed. */
const att_cuda_kernel *att_cuda_mask_reader(bool allow_unattested);

/* Plan the launch before `kernel`: t->params, t->hopper.pack and .top_rows must be set.
 * *workspace grows by the size of the lists, which begin at its old end.
 * Errors: ATT_E_UNSUPPORTED, ATT_E_CUDA, ATT_E_MEMORY. */
att_status att_cuda_mask_cut(att_cuda_tiling *t, size_t *workspace, const att_context *ctx,
                             const att_cuda_kernel *kernel, const att_problem *p);

/* The addresses of a run's lists in its workspace. */
void att_cuda_mask_point(att_fwd_mask *lists, const att_cuda_mask_plan *plan, void *workspace);

/* Launch fwd_mask for `h`, which must be complete. It also sets *next_tile to 0. */
att_status att_cuda_mask_launch(const att_cuda_mask_plan *plan,
                                const att_fwd_sm90_feature_params *h, void *stream);

#endif
