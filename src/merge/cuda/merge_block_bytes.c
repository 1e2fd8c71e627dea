/* merge_block_bytes.c: shared memory of a block of the merge kernel: none, it has its parts in registers. */
#include <stddef.h>

#include "cuda/shape.h"

const att_cuda_block att_merge_blocks[] = {{NULL, NULL}};
