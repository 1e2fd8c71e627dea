/* occupancy.h: how many blocks of a kernel an SM holds at once. */
#ifndef ATT_CUDA_OCCUPANCY_H
#define ATT_CUDA_OCCUPANCY_H

#include "cuda/launch.h"

/* The resources of an SM that a block uses. */
typedef enum att_cuda_resource {
    ATT_RESOURCE_NONE,
    ATT_RESOURCE_SHARED, /* shared memory */
    ATT_RESOURCE_REGISTERS,
    ATT_RESOURCE_WARPS,
    ATT_RESOURCE_BLOCKS,
    ATT_RESOURCE_COUNT
} att_cuda_resource;

/* Blocks of `threads` threads, with `registers` registers each and `shared` bytes, static and
 * dynamic, that an SM holds, or 0 if it cannot hold one; *limited is the limiting resource. */
int att_cuda_resident_blocks(const att_cuda_limits *limits, int threads, int registers,
                             uint32_t shared, att_cuda_resource *limited);

/* The same for a kernel with a shape. At least 1 for a kernel that fits at all. */
int att_cuda_blocks_per_sm(const att_cuda_limits *limits, const att_cuda_code *code,
                           const att_cuda_shape *shape);

#endif
