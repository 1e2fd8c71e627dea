/* hopper_bias.h: an additive bias, as the copy engine loads it for the Hopper rows that have
 * one. */
#ifndef ATT_CUDA_HOPPER_BIAS_H
#define ATT_CUDA_HOPPER_BIAS_H

#include "attest.h"
#include "cuda/row.h"
#include "cuda/tensor_maps.h"
#include "kernels/fwd_sm90_params.h"

/* Why a row with ATT_FEATURE_BIAS does not serve the problem; NULL if it does, or has no
 * bias. */
const char *att_cuda_hopper_bias_refusal(const att_cuda_kernel *kernel, const att_problem *p);

/* The map and the sizes of p's bias for the tiles of `kernel`. Errors: ATT_E_CUDA. */
att_status att_cuda_hopper_bias_encode(att_fwd_bias *out, const att_cuda_driver *cu,
                                       const att_cuda_kernel *kernel, const att_problem *p);

/* Set the address of a run's bias. Errors: ATT_E_ARG if it is not aligned to 16 bytes,
 * ATT_E_CUDA. */
att_status att_cuda_hopper_bias_point(att_fwd_bias *bias, const att_cuda_driver *cu,
                                      const void *address, const char *kernel);

#endif
