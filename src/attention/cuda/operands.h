/* operands.h: the memory layout of Q, K, V and O of a problem, including packed and paged
 * ones. */
#ifndef ATT_CUDA_OPERANDS_H
#define ATT_CUDA_OPERANDS_H

#include <stddef.h>

#include "attest.h"

enum { ATT_TENSOR_Q, ATT_TENSOR_K, ATT_TENSOR_V, ATT_TENSOR_O, ATT_TENSORS };

typedef struct att_cuda_tensor {
    const char *name;           /* "q", "k", "v", "o" */
    const att_strides *strides; /* of the problem */
    int64_t batch;              /* entries, or pages; 1 if sequences are packed */
    int64_t heads, rows, cols;
    size_t element; /* bytes */
} att_cuda_tensor;

void att_cuda_tensors(att_cuda_tensor out[ATT_TENSORS], const att_problem *p);

#endif
