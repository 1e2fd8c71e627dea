/* bwd_sm90_load.cuh: how the producer warp of bwd_sm90 loads the tiles of an item. */
#ifndef ATT_BWD_SM90_LOAD_CUH
#define ATT_BWD_SM90_LOAD_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_producer.cuh"

/* Load a row block of Q with the terms of its rows, or of dO (terms: NULL), into the next slot
 * of its ring. */
DEVICE void load_rows(const producer *a, const att_tensor_map *map, int panels, int at,
                      const float *terms, int full, int empty, int row, int head, int entry) {
    wait_empty(a->shared, empty, a->rows.both);
    __syncwarp();
    if (a->speaks) {
        const unsigned barrier = barrier_of(a->shared, full + a->rows.both.place),
                       bytes = panels * PANEL_BYTES;
        mbarrier_expect(barrier, bytes + (terms ? ROWS_BYTES : 0));
        load_panels(map, panels, PANEL_BYTES, a->shared + at + a->rows.both.place * bytes,
                    barrier, row, head, entry);
        if (terms)
            bulk_load(a->shared + ROWS_AT + a->rows.both.place * ROWS_BYTES, terms, ROWS_BYTES,
                      barrier);
    }
    __syncwarp();
}

DEVICE void load_item(producer *a, const work_item *w) {
    const att_bwd_sm90_params *p = a->p;
    const att_fwd_params *f = &p->bwd.fwd;
    const int entry = f->cu_seqlens_q ? 0 : w->s.batch;
    bool has_keys = false;
#pragma unroll 1
    for (int block = w->end_block - 1; block >= w->first_block; block--) {
        const int row = (int)w->s.row_q + block * TILE_M;
#pragma unroll 1
        for (int i = 0; i < f->group; i++) {
            const int head = w->kv_head * f->group + i;
            load_rows(a, &p->q, QK_PANELS, Q_AT, terms_of_tile(&p->bwd, &w->s, head, block),
                      BAR_Q_FULL, BAR_Q_EMPTY, row, head, entry);
            if (!has_keys)
                load_keys(a, w);
            has_keys = true;
            load_rows(a, &p->d_o, V_PANELS, DO_AT, 0, BAR_DO_FULL, BAR_DO_EMPTY, row, head,
                      entry);
            a->rows.both = ring_next(a->rows.both, STAGES);
        }
    }
    if (!has_keys) /* nobody reads them; this keeps the barrier phases in step */
        load_keys(a, w);
}

#endif
