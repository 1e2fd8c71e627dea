/* cublas.h: cuBLAS, loaded at run time, for the rung of the ladder that uses it. */
#ifndef ATT_CUDA_CUBLAS_H
#define ATT_CUDA_CUBLAS_H

#include <stdbool.h>

#include "cuda/device.h"

typedef struct att_cublas att_cublas;

/* Bytes of scratch that a product may use, aligned to ATT_CUBLAS_ALIGN. */
enum { ATT_CUBLAS_SCRATCH = 32 << 20, ATT_CUBLAS_ALIGN = 256 };

/* Is cuBLAS available? The environment variable ATTEST_LIBCUBLAS names another library file.
 * Thread: safe. */
bool att_cublas_found(void);

/* cuBLAS on `device`, opened once for the life of the process. Not for a run: it allocates.
 * Thread: safe. Errors: ATT_E_UNSUPPORTED (no cuBLAS), ATT_E_CUDA, ATT_E_MEMORY. */
att_status att_cublas_open(att_cublas **out, att_cuda_device *device);

/* `count` products C = A B, column-major: C (rows x columns, float32), A (rows x inner) or its
 * transpose, B (inner x columns). The arrays of pointers are in device memory. */
typedef struct att_cublas_product {
    bool transpose_a;
    int rows, columns, inner;
    const void *a, *b, *c; /* arrays of `count` pointers */
    int pitch_a, pitch_b, pitch_c;
    att_dtype dtype; /* of A and B */
    int count;
} att_cublas_product;

/* Enqueue the products on a stream. Neither allocates nor waits. Thread: safe; callers take
 * turns. Errors: ATT_E_CUDA. */
att_status att_cublas_multiply(att_cublas *cublas, const att_cublas_product *product,
                               void *scratch, void *stream);

#endif
