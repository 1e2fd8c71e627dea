/* hopper.h: planning and launching fwd_sm90: one block an SM, which takes tile after tile, and whose producer has
 * the copy engine bring Q, K and V by tensor maps that are encoded once a plan. */
#ifndef ATT_CUDA_HOPPER_H
#define ATT_CUDA_HOPPER_H

#include "cuda/tiling.h"

/* What keeps the kernel from the problem, beyond dtype, head dimensions and rows aligned to 16 bytes, or NULL; *field is then
 * the field at fault. */
const char *att_cuda_hopper_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                    const char **field);

/* Set shape, workspace and the Hopper parameters of `tiling`, whose function and parameters are set. A grid of 0 blocks is
 * nothing to launch. Errors: ATT_E_UNSUPPORTED, ATT_E_CUDA, ATT_E_MEMORY. */
att_status att_cuda_hopper_tiling(att_cuda_tiling *tiling, att_cuda_device *device,
                                  const att_cuda_kernel *kernel, const att_problem *p);

/* Put the kernel on the stream. `params` is that of the tiling, with its pointers. */
att_status att_cuda_hopper_run(const att_cuda_tiling *tiling, const att_fwd_params *params,
                               void *workspace, void *stream);

#endif
