/* primitives_sm90_params.h: what test_primitives_sm90.c asks of the kernels beside it. */
#ifndef ATT_PRIMITIVES_SM90_PARAMS_H
#define ATT_PRIMITIVES_SM90_PARAMS_H

#include "kernels/tensor_map.h"

/* Steps of a product, and rows of its left side. */
enum { PRIMITIVES_SM90_SIDE = 64 };

enum {
    /* out (64 x n, float32) = a (64 x 64) b: both in shared memory, b given as n x 64 */
    PRIMITIVES_WGMMA,
    PRIMITIVES_WGMMA_K,  /* a in registers */
    PRIMITIVES_WGMMA_MN, /* a in registers, b given as 64 x n */
    /* out = the box of `rows` rows at at[], as it lies in shared memory */
    PRIMITIVES_TMA_LOAD_4D,
    PRIMITIVES_TMA_LOAD_5D,
    PRIMITIVES_TMA_STORE_5D, /* the box of `rows` rows at at[] = a, rows of 64 */
    PRIMITIVES_PHASES, /* out[i] = what was handed over in round i of k, by a ring of two places */
    PRIMITIVES_STMATRIX,   /* out (16 x 16) = a, from registers through shared memory */
    PRIMITIVES_TIMES_ZERO, /* out[i] = a[i] * 0 + 1, k pairs */
    PRIMITIVES_AFTER /* out[0] = the sum of a, k floats, once the kernel before this one has ended */
};

typedef struct primitives_sm90_params {
    att_tensor_map map;
    const void *a, *b;
    void *out;
    int what, n, k;
    int rows, at[5];
} primitives_sm90_params;

#endif
