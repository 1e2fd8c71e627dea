/* moe_block_bytes.c: shared memory of the blocks of moe kernels. */
#include <stddef.h>

#include "cuda/shape.h"

const att_cuda_block att_moe_blocks[] = {{NULL, NULL}};
