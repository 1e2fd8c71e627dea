/* bwd_sm90_keys.cuh: stores dK and dV of a key tile: with the copy engine, from the buffers of
 * K and V; row by row if the rows that follow belong to another sequence; directly from
 * registers if they are float32. */
#ifndef ATT_BWD_SM90_KEYS_CUH
#define ATT_BWD_SM90_KEYS_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_key_gradient.cuh"
#include "kernels/speaking_lane.cuh"

/* Record whether a key of this warp has a gradient that is not finite. bwd_sm90_finish
 * recomputes those. */
DEVICE void note_lost(const consumer *c, float zero) {
    const bool lost = __any_sync(0xffffffffu, zero != 0.0f);
    if (c->lane == 0)
        *lost_keys(&c->p->bwd, record_of(c, REC_BATCH), record_of(c, REC_KV_HEAD),
                   record_of(c, REC_TILE), 4 * c->group + c->warp) = lost;
}

/* Store `rows` rows in float32, from registers. */
DEVICE void store_floats(const consumer *c, const key_gradient *g, const float *x, int count,
                         long long row, int rows) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = c->group * GROUP_KEYS + c->warp * 16 + c->lane / 4 + 8 * half;
        float *to = (float *)g->base + key_row(c, g->stride, row + r) + c->lane % 4 * 2;
        if (r < rows)
#pragma unroll
            for (int n = 0; n < count / 4; n++)
                if (8 * n < g->columns)
                    *(float2 *)(to + 8 * n) = make_float2(x[4 * n + 2 * half] * g->scale,
                                                          x[4 * n + 2 * half + 1] * g->scale);
    }
}

/* The item is done. Once both warpgroups are here, nobody reads K and V any more. */
DEVICE void store_keys(const consumer *c, const float dk[DK_COUNT], const float dv[DV_COUNT]) {
    const int tile = record_of(c, REC_TILE), first_k = record_of(c, REC_FIRST_K);
    const int rows = min(TILE_N, record_of(c, REC_HELD) - tile * TILE_N);
    const long long row = record_of(c, REC_ROW_K) + tile * TILE_N;
    const key_gradient gk = dk_of(c), gv = dv_of(c);
    if (tile * TILE_N < first_k) {
        store_zeros(c, &gk, consumer_thread(c), tile * TILE_N,
                    min(first_k, (tile + 1) * TILE_N));
        store_zeros(c, &gv, consumer_thread(c), tile * TILE_N,
                    min(first_k, (tile + 1) * TILE_N));
    }
    if (c->p->bwd.dtype_grad == F32) {
        store_floats(c, &gv, dv, DV_COUNT, row, rows);
        store_floats(c, &gk, dk, DK_COUNT, row, rows);
    } else {
        named_barrier_wait(NAMED_KEYS, GROUPS * WARPGROUP);
        const int own_row = c->group * GROUP_KEYS + c->warp * 16 + c->lane % 16;
        put_rounded(&gv, 0, own_row, c->lane, dv, DV_COUNT);
        put_rounded(&gk, 0, own_row, c->lane, dk, DK_COUNT);
        tma_publish();
        named_barrier_wait(NAMED_KEYS, GROUPS * WARPGROUP);
        if (!USE_BOX_STORE || (c->p->bwd.fwd.cu_seqlens_k && rows < TILE_N)) {
            store_rows(c, &gv, consumer_thread(c), row, rows);
            store_rows(c, &gk, consumer_thread(c), row, rows);
        } else if (c->group == 0 && c->warp == 0 && does_speak()) {
            const int head = record_of(c, REC_KV_HEAD), entry = (int)key_entry(c);
            store_boxes(&gv, (int)row, head, entry);
            store_boxes(&gk, (int)row, head, entry);
            tma_store_commit();
            tma_store_wait_read();
        }
    }
    release(c, BAR_KEYS_EMPTY);
}

#endif
