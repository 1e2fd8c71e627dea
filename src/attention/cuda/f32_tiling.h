/* f32_tiling.h: how fwd_sm80_f32 cuts the work, from times measured on an H200. */
#ifndef ATT_ATTENTION_CUDA_F32_TILING_H
#define ATT_ATTENTION_CUDA_F32_TILING_H

#include "attest.h"
#include "core/family.h"

/* att_family.estimate: a ranking of small and large tiles, not a time. */
double att_cuda_f32_estimate(const att_kernel_row *row, const att_limits *limits,
                             const void *problem);

/* The fastest number of parts of the keys for `blocks` tiles of rows, of which an SM holds
 * `resident`. */
int att_cuda_f32_splits(const att_cuda_kernel *kernel, const att_problem *p, int64_t blocks,
                        int sms, int resident);

#endif
