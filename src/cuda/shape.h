/* shape.h: what a block of a kernel takes of an SM, from its row alone. The one place for these formulas:
 * launches and `attest plan` both ask here. */
#ifndef ATT_CUDA_SHAPE_H
#define ATT_CUDA_SHAPE_H

#include <stdint.h>

#include "cuda/row.h"

/* Threads of a block. */
uint32_t att_cuda_kernel_threads(const att_cuda_kernel *kernel);

/* Dynamic shared memory of a block in bytes. */
uint32_t att_cuda_kernel_shared(const att_cuda_kernel *kernel);

#endif
