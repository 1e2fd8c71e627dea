/* cublas_steps.h: the parameters of the two kernels between cuBLAS's products. Read by C and by
 * CUDA C. */
#ifndef PEER_CUBLAS_STEPS_H
#define PEER_CUBLAS_STEPS_H

typedef struct peer_cublas_params {
    const void *q, *k, *v; /* 16-bit elements */
    void *o;
    float *lse;    /* NULL: not asked for */
    float *scores; /* (batch, heads_q, seq_q, pitch) */
    void *weights; /* the same shape, in the type of q */
    const void *
        *pointers; /* 6 arrays: of q, k, scores for the first product, v, weights, o for the
                    * second */
    long long q_batch, k_batch, v_batch, o_batch; /* strides, in elements */
    int q_head, k_head, v_head, o_head;
    long long lse_batch, lse_head, lse_row;
    int batch, heads_q, group, seq_q, seq_k, pitch;
    int causal; /* row i sees keys 0 .. i + shift */
    int shift;
    int bf16;
} peer_cublas_params;

#endif
