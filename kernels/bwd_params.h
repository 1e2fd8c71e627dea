/* bwd_params.h: what the host passes to every backward kernel, by value. Read by C11 and by CUDA C, by NVRTC too,
 * so it includes nothing but the forward parameters and its layout is the same for all three.
 *
 * The rows of one (head, sequence) are cut into tiles of `tile_rows`; every sequence starts a tile of its own.
 * Tiles are numbered through all sequences (bwd_rows.cuh), `tiles` is how many numbers there are. Workspace arrays
 * are (heads_q, tiles, ...). */
#ifndef ATT_BWD_PARAMS_H
#define ATT_BWD_PARAMS_H

#include "kernels/fwd_params.h"

/* att_bwd_params.flags */
enum {
    ATT_BWD_VECTOR = 1, /* rows of Q, K, V, O and dO start at multiples of 16 bytes and are whole vectors */
    ATT_BWD_PAIRS = 2   /* rows of dQ, dK and dV start at even elements, aligned to two */
};

enum { ATT_BWD_COUNTERS = 2 }; /* of att_bwd_params.next_work */

/* What bwd_delta leaves of every row, for eight rows together: their log-sums in units of log2 (+inf for rows that have no weights or do
 * not exist), then their deltas, dot(dO, O). A weight is exp2(score - log-sum). */
enum { ATT_BWD_TERM_ROWS = 8, ATT_BWD_TERMS = 2 };

typedef struct att_bwd_params {
    att_fwd_params fwd; /* the forward problem, whose o and lse are read */

    const void *d_o;
    void *d_q, *d_k, *d_v, *d_bias;
    float *d_sinks, *d_alibi; /* NULL: not asked for, as d_bias */
    att_fwd_strides d_o_stride, d_q_stride, d_k_stride, d_v_stride, d_bias_stride;

    /* Workspace. */
    float *terms;         /* (heads_q, tiles, tile_rows / 8, {log-sum, delta}, 8) */
    float *d_q_sums;      /* (heads_q, tiles, tile_rows x columns of the kernel), in the kernel's own order */
    unsigned *turns;      /* (heads_q, tiles, turn_count): how many key tiles have been added; 0 before the kernel */
    unsigned *next_work;  /* counters, 0 before the kernel: the first, from which blocks draw their work in order */
    float *sink_sums;     /* (heads_q, batch, row_blocks): of exp(sink - lse) delta */
    float *alibi_sums;    /* (heads_q, batch, key_tiles, alibi_parts): of d_s times distance */

    int flags;
    int dtype_grad, d_bias_dtype; /* ATT_FWD_F32 ... */
    int tile_rows;                /* rows of a tile */
    int tiles;                    /* see above */
    int row_tiles, key_tiles;     /* of the longest sequence */
    int row_blocks;               /* blocks of bwd_delta for the longest sequence */
    int turn_count;               /* counters of a tile of rows */
    int alibi_parts;              /* sums of a tile of keys */
    int section;                  /* (batch entry, K/V head) pairs whose key tiles are drawn in turns */
} att_bwd_params;

#endif
