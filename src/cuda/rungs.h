/* rungs.h: the steps of the ladder below the production kernels: what each asks of a problem, its grid and its run. */
#ifndef ATT_CUDA_RUNGS_H
#define ATT_CUDA_RUNGS_H

#include "cuda/tiling.h"

/* What keeps the rung from a problem, beyond the dtype and the head dimensions of its row, or NULL; *field is then the field
 * at fault. */
const char *att_cuda_rung_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                  const char **field);

/* Set the shape, the row blocks and the workspace of `tiling`, whose function and other parameters are set. A grid of 0
 * blocks is nothing to launch. Errors: ATT_E_UNSUPPORTED, ATT_E_CUDA, ATT_E_MEMORY. */
att_status att_cuda_rung_tiling(att_cuda_tiling *tiling, att_cuda_device *device,
                                const att_cuda_kernel *kernel, const att_problem *p);

/* Put the rung on the stream. `params` is that of the tiling, with its pointers. */
att_status att_cuda_rung_run(const att_cuda_tiling *tiling, const att_fwd_params *params,
                             void *workspace, void *stream);

#endif
