/* family.h: how a row is planned and launched. */
#ifndef ATT_CUDA_FAMILY_H
#define ATT_CUDA_FAMILY_H

#include "cuda/row.h"

typedef enum att_cuda_family {
    ATT_CUDA_BLOCKS, /* a block a tile of rows, the keys split where that fills the GPU (tiling.c) */
    ATT_CUDA_RUNG, /* a step of the ladder (rungs.c) */
    ATT_CUDA_CLUSTER, /* a cluster of blocks a tile of rows, which share the keys (decode_tiling.c) */
    ATT_CUDA_HOPPER /* blocks that stay, fed by the copy engine through tensor maps (hopper.c) */
} att_cuda_family;

att_cuda_family att_cuda_family_of(const att_cuda_kernel *kernel);

#endif
