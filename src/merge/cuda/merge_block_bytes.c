/* merge_block_bytes.c: shared memory per block of the merge kernel: none, parts are in
 * registers. */
#include <stddef.h>

#include "cuda/shape.h"

const att_cuda_block att_merge_blocks[] = {{NULL, NULL}};
