/* shape.h: the resources of an SM that a block of a kernel takes, from its row only. These
 * formulas are only here: launches and `attest plan` both use them. */
#ifndef ATT_CUDA_SHAPE_H
#define ATT_CUDA_SHAPE_H

#include <stdint.h>

#include "cuda/row.h"

/* The dynamic shared memory of a block in bytes, by the formula of a source's operation. Also
 * part of the build's own tool (scripts/cuda_rows.c), and therefore separate from the
 * families. */
typedef struct att_cuda_block {
    const char *source; /* kernels/<source>.cu; NULL ends the table */
    int (*bytes)(const att_cuda_kernel *kernel);
} att_cuda_block;

#define ATT_OPERATION(name) extern const att_cuda_block att_##name##_blocks[];
#include "kernels/operations.def"

/* Threads per block. */
uint32_t att_cuda_kernel_threads(const att_cuda_kernel *kernel);

/* Dynamic shared memory per block in bytes. */
uint32_t att_cuda_kernel_shared(const att_cuda_kernel *kernel);

#endif
