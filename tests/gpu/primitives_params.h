/* primitives_params.h: what test_primitives.c asks of primitives.cu. */
#ifndef ATT_PRIMITIVES_PARAMS_H
#define ATT_PRIMITIVES_PARAMS_H

/* Rows of a matrix in memory, and the most rows, columns and steps of one. */
enum { PRIMITIVES_SIDE = 64 };

enum {
    PRIMITIVES_MMA, /* out[case] (16 x 8) = a[case] (16 x 16) b[case] (16 x 8); a block a case */
    PRIMITIVES_TILE, /* out (m x n) = a (m x k) b, b given as n x k: async copy, swizzle, ldmatrix */
    PRIMITIVES_TILE_KN, /* the same with b given as k x n: ldmatrix transposes it */
    PRIMITIVES_SWIZZLE, /* out[row][chunk] = byte of the chunk, m rows of n bytes */
    PRIMITIVES_COPY,    /* out = a, k words of 16 bytes, by 16-byte loads and stores */
    PRIMITIVES_GROUPS, /* out = a, k words of 16 bytes in four groups of async copies, each waited for by itself */
    PRIMITIVES_REDUCE, /* out = quad_max, quad_sum, warp_max, warp_sum of a warp's 32 values, 32 each */
    PRIMITIVES_MATH,  /* out = exp2_fast, log2_fast of k values, k each */
    PRIMITIVES_WIDEN, /* out[i] = the 16-bit element i as float32 */
    PRIMITIVES_NARROW /* out[i] = the float32 element i as 16 bits: alone, then in pairs */
};

typedef struct primitives_params {
    const void *a, *b;
    void *out;
    int what, m, n, k;
} primitives_params;

#endif
