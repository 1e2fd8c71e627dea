/* conditions_cuda.h: the problems that the GPU kernels accept, by family: att_family.serves and
 * .estimate. */
#ifndef ATT_ATTENTION_CONDITIONS_CUDA_H
#define ATT_ATTENTION_CONDITIONS_CUDA_H

#include "core/family.h"

#define ATT_SERVES(name)                                                                       \
    bool att_cuda_serves_##name(const att_kernel_row *row, const att_limits *limits,           \
                                const void *problem, att_refusal *refusal)
ATT_SERVES(hopper);
ATT_SERVES(blocks);
ATT_SERVES(decode);
ATT_SERVES(cluster);
ATT_SERVES(shares);
ATT_SERVES(rung);
ATT_SERVES(nothing);
#undef ATT_SERVES

/* For fwd_sm80: a ranking of small and large tiles, not a time. */
double att_cuda_blocks_estimate(const att_kernel_row *row, const att_limits *limits,
                                const void *problem);

#endif
