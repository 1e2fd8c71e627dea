/* occupancy.h: how many blocks of a kernel an SM holds at once. */
#ifndef ATT_CUDA_OCCUPANCY_H
#define ATT_CUDA_OCCUPANCY_H

#include "cuda/launch.h"

/* At least 1, for a kernel that fits at all. */
int att_cuda_blocks_per_sm(const att_cuda_limits *limits, const att_cuda_code *code,
                           const att_cuda_shape *shape);

#endif
