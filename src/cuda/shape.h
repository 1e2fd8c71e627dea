/* shape.h: what a block of a kernel takes of an SM, from its row alone. The one place for these formulas:
 * launches and `attest plan` both ask here. */
#ifndef ATT_CUDA_SHAPE_H
#define ATT_CUDA_SHAPE_H

#include <stdint.h>

#include "cuda/row.h"

/* The shared memory of a block, in dynamic bytes, as the operation of a source counts it. Also part of the build's own tool
 * (scripts/cuda_rows.c), and so apart from the families. */
typedef struct att_cuda_block {
    const char *source; /* kernels/<source>.cu; NULL ends the table */
    int (*bytes)(const att_cuda_kernel *kernel);
} att_cuda_block;

#define ATT_OPERATION(name) extern const att_cuda_block att_##name##_blocks[];
#include "kernels/operations.def"

/* Threads of a block. */
uint32_t att_cuda_kernel_threads(const att_cuda_kernel *kernel);

/* Dynamic shared memory of a block in bytes. */
uint32_t att_cuda_kernel_shared(const att_cuda_kernel *kernel);

#endif
