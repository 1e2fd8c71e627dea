/* unfused_params.h: parameters that the host passes to the kernels between the two products of
 * the rung `unfused`. Read as C11 and as CUDA C, like fwd_params.h. */
#ifndef ATT_UNFUSED_PARAMS_H
#define ATT_UNFUSED_PARAMS_H

#include "kernels/fwd_params.h"

/* One kernel, launched three times. */
enum {
    ATT_UNFUSED_POINTERS, /* the matrices of every (batch, head), for cuBLAS */
    ATT_UNFUSED_SOFTMAX,  /* scores to weights */
    ATT_UNFUSED_FINISH    /* divide by the sum; O and LSE */
};

typedef struct att_unfused_params {
    att_fwd_params fwd;
    /* Scratch, all of it (batch, heads_q, seq_q, ...). */
    float *scores;  /* ... x pitch; unscaled */
    void *weights;  /* ... x pitch, of the input type; not divided by their sum */
    float *product; /* ... x d_v: weights times V */
    float *top, *sum;
    const void **pointers; /* batch * heads_q each: Q, K, scores, V, weights, product */
    long long pitch;       /* keys per row, rounded up to 16 bytes of every type */
    int phase;
} att_unfused_params;

#endif
