/* bwd_params.h: parameters that the host passes by value to every backward kernel. Read as C11,
 * as CUDA C and by NVRTC, so it includes only the forward parameters, and its layout is the
 * same for all three.
 *
 * The rows of one (head, sequence) are cut into tiles of `tile_rows`; every sequence starts a
 * new tile. Tiles are numbered through all sequences (bwd_rows.cuh); `tiles` is the count of
 * these numbers. Workspace arrays are (heads_q, tiles, ...). */
#ifndef ATT_BWD_PARAMS_H
#define ATT_BWD_PARAMS_H

#include "kernels/fwd_params.h"

/* att_bwd_params.flags */
enum {
    ATT_BWD_VECTOR = 1, /* rows of Q, K, V, O, dO: whole vectors at multiples of 16 bytes */
    ATT_BWD_PAIRS = 2   /* rows of dQ, dK and dV start at even elements, aligned to two */
};

enum { ATT_BWD_COUNTERS = 2 }; /* of att_bwd_params.next_work */

/* The terms that bwd_delta writes per row, grouped by eight rows: first their log-sums in units
 * of log2 (+inf for rows that have no weights or do not exist), then their deltas, dot(dO, O).
 * A weight is exp2(score - log-sum). */
enum { ATT_BWD_TERM_ROWS = 8, ATT_BWD_TERMS = 2 };

typedef struct att_bwd_params {
    att_fwd_params fwd; /* the forward problem; its o and lse are inputs here */

    const void *d_o;
    void *d_q, *d_k, *d_v, *d_bias;
    float *d_sinks, *d_alibi; /* NULL: not requested; likewise d_bias */
    att_fwd_strides d_o_stride, d_q_stride, d_k_stride, d_v_stride, d_bias_stride;

    /* Workspace. */
    float *terms;         /* (heads_q, tiles, tile_rows / 8, {log-sum, delta}, 8) */
    float *d_q_sums;      /* (heads_q, tiles, tile_rows x kernel's columns), kernel's order */
    unsigned *turns;      /* (heads_q, tiles, turn_count): key tiles added; starts at 0 */
    unsigned *next_work;  /* counters, start at 0; the first hands out work in order */
    float *sink_sums;     /* (heads_q, batch, row_blocks): of exp(sink - lse) delta */
    float *alibi_sums;    /* (heads_q, batch, key_tiles, alibi_parts): of d_s times distance */

    int flags;
    int dtype_grad, d_bias_dtype; /* ATT_FWD_F32 ... */
    int tile_rows;                /* rows per tile */
    int tiles;                    /* see above */
    int row_tiles, key_tiles;     /* of the longest sequence */
    int row_blocks;               /* blocks of bwd_delta for the longest sequence */
    int turn_count;               /* counters per tile of rows */
    int alibi_parts;              /* sums per tile of keys */
    int section;                  /* (batch entry, K/V head) pairs drawn by key tile, in turn */
} att_bwd_params;

#endif
