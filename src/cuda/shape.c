/* shape.c: threads and shared memory of a block. */
#include "cuda/shape.h"

#include <string.h>

enum { WARP = 32 };

static const att_cuda_block *const tables[] = {
#define ATT_OPERATION(name) att_##name##_blocks,
#include "kernels/operations.def"
};

uint32_t att_cuda_kernel_threads(const att_cuda_kernel *kernel) {
    return (uint32_t)(WARP * kernel->warps);
}

uint32_t att_cuda_kernel_shared(const att_cuda_kernel *kernel) {
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const att_cuda_block *block = tables[i]; block->source; block++)
            if (strcmp(block->source, kernel->source) == 0)
                return (uint32_t)block->bytes(kernel);
    return 0;
}
