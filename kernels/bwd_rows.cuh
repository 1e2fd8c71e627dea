/* bwd_rows.cuh: tiles of query rows in the workspace of the backward kernels, and the range of
 * rows that see a key. */
#ifndef ATT_BWD_ROWS_CUH
#define ATT_BWD_ROWS_CUH

#include "kernels/bwd_params.h"
#include "kernels/fwd_sequence.cuh"

/* The number of row tile `tile` of a sequence among all tiles of a head. Packed sequences
 * follow each other: floor(row_q / tile_rows) + batch reserves the whole tiles that each
 * needs. */
DEVICE long long tile_number(const att_bwd_params *p, const sequence *s, int head, int tile) {
    const long long first =
        p->fwd.cu_seqlens_q ? s->row_q / p->tile_rows + s->batch : (long long)s->batch * p->row_tiles;
    return (long long)head * p->tiles + first + tile;
}

/* The index of row i's log-sum among the terms of its sequence; its delta is ATT_BWD_TERM_ROWS
 * further on. */
DEVICE int term_of(int i) {
    return i / ATT_BWD_TERM_ROWS * (ATT_BWD_TERMS * ATT_BWD_TERM_ROWS) + i % ATT_BWD_TERM_ROWS;
}

/* The terms of row tile `tile` of a sequence; those of its other tiles follow. */
DEVICE float *terms_of_tile(const att_bwd_params *p, const sequence *s, int head, int tile) {
    return p->terms + tile_number(p, s, head, tile) * p->tile_rows * ATT_BWD_TERMS;
}

/* The query rows [first, last) whose window contains key j; 0 <= j < len_k. */
DEVICE int first_row_of_key(const att_fwd_params *p, const sequence *s, int j) {
    return p->window_right < 0 ? 0 : max(0, j - s->shift - p->window_right);
}

DEVICE int last_row_of_key(const att_fwd_params *p, const sequence *s, int j) {
    return p->window_left < 0 ? s->len_q : max(0, min(s->len_q, j - s->shift + p->window_left + 1));
}

/* The number of keys stored for batch entry `batch`, including those before the start and past
 * the length. */
DEVICE int stored_keys(const att_fwd_params *p, int batch) {
    if (!p->cu_seqlens_k)
        return p->seq_k;
    const int begin = max(p->cu_seqlens_k[batch], 0), end = p->cu_seqlens_k[batch + 1];
    return max(0, (int)min((long long)min(end - begin, p->seq_k), p->total_k - begin));
}

#endif
