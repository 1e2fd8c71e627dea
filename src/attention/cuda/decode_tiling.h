/* decode_tiling.h: the keys of a few rows shared by the blocks of a cluster, which merge what they made of them: one launch. */
#ifndef ATT_CUDA_DECODE_TILING_H
#define ATT_CUDA_DECODE_TILING_H

#include "attention/cuda/tiling.h"

/* What keeps the kernel from the problem, or NULL; *field is then the field at fault. */
const char *att_cuda_decode_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                    const char **field);

/* Set parts and shape of `tiling`, whose function, parameters and grid of `tiles` blocks are set: a cluster, or, where `combines`
 * says that a second kernel could merge them and that ends sooner, parts without one. Errors: ATT_E_CUDA. */
att_status att_cuda_decode_tiling(att_cuda_tiling *tiling, const att_cuda_kernel *kernel,
                                  const att_cuda_limits *limits, const att_problem *p,
                                  int64_t tiles, bool combines);

#endif
