/* bwd_sm90_wide_load.cuh: how the producer warp of bwd_sm90_wide loads the tiles of an item. */
#ifndef ATT_BWD_SM90_WIDE_LOAD_CUH
#define ATT_BWD_SM90_WIDE_LOAD_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_producer.cuh"

/* Load a row block of Q with the terms of its rows into the next slot of the ring. */
DEVICE void load_q(producer *a, const float *terms, int row, int head, int entry) {
    wait_empty(a->shared, BAR_Q_EMPTY, a->rows.q);
    __syncwarp();
    if (a->speaks) {
        const unsigned full = barrier_of(a->shared, BAR_Q_FULL + a->rows.q.place);
        mbarrier_expect(full, Q_BYTES + ROWS_BYTES);
        load_panels(&a->p->q, QK_PANELS, PANEL_BYTES,
                    a->shared + Q_AT + a->rows.q.place * Q_BYTES, full, row, head, entry);
        bulk_load(a->shared + ROWS_AT + a->rows.q.place * ROWS_BYTES, terms, ROWS_BYTES, full);
    }
    __syncwarp();
    a->rows.q = ring_next(a->rows.q, STAGES);
}

DEVICE void load_d_o(producer *a, int row, int head, int entry) {
    wait_empty(a->shared, BAR_DO_EMPTY, a->rows.d_o);
    __syncwarp();
    if (a->speaks) {
        const unsigned full = barrier_of(a->shared, BAR_DO_FULL + a->rows.d_o.place);
        mbarrier_expect(full, DO_BYTES);
        load_panels(&a->p->d_o, V_PANELS, PANEL_BYTES,
                    a->shared + DO_AT + a->rows.d_o.place * DO_BYTES, full, row, head, entry);
    }
    __syncwarp();
    a->rows.d_o = ring_next(a->rows.d_o, DO_STAGES);
}

/* Load the tiles of an item. The loop keeps only a few 32-bit numbers, since there are few
 * registers. */
DEVICE void load_item(producer *a, const work_item *w) {
    const att_bwd_params *p = &a->p->bwd;
    const int entry = p->fwd.cu_seqlens_q ? 0 : w->s.batch, row0 = (int)w->s.row_q,
              number0 = (int)tile_number(p, &w->s, 0, 0);
    int head = w->kv_head * p->fwd.group, heads = p->fwd.group, block = w->end_block - 1;
    if (block < w->first_block) /* nobody reads them; this keeps the barrier phases in step */
        load_keys(a, w);
#pragma unroll 1
    while (block >= w->first_block) {
        const float *terms = p->terms + ((long long)head * p->tiles + number0 + block) *
                                            (TILE_M * ATT_BWD_TERMS);
        load_q(a, terms, row0 + block * TILE_M, head, entry);
        if (heads == p->fwd.group && block == w->end_block - 1)
            load_keys(a, w);
        load_d_o(a, row0 + block * TILE_M, head, entry);
        if (--heads > 0) {
            head++;
        } else {
            heads = p->fwd.group;
            head -= heads - 1;
            block--;
        }
    }
}

#endif
