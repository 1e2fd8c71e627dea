/* bwd_sm90_wide_keys.cuh: stores dK and dV of a key tile: with the copy engine, from the
 * buffers of K and V; row by row if the rows that follow belong to another sequence; directly
 * from registers if they are float32. */
#ifndef ATT_BWD_SM90_WIDE_KEYS_CUH
#define ATT_BWD_SM90_WIDE_KEYS_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_key_gradient.cuh"
#include "kernels/speaking_lane.cuh"

/* The first panel of dK and dV of a warpgroup. */
#define DK_PANEL(group) (SHARES_KEYS ? 0 : DK_FIRST * (group))
#define DV_PANEL(group) (SHARES_KEYS ? 0 : DV_FIRST * (group))

/* This thread's number among those of both consumer warpgroups, computed again each time. */
DEVICE int consumer_thread(int group) {
    return group * WARPGROUP + warpgroup_thread();
}

/* This warp's first key of the tile. */
DEVICE int first_key_of(int group) {
    return (SHARES_KEYS ? group * GROUP_KEYS : 0) + warpgroup_thread() / 32 * 16;
}

/* Note whether a key of this warp has a gradient that is not finite in this warpgroup's
 * columns. */
DEVICE void note_lost(const consumer *c, int group, float zero) {
    const bool lost = __any_sync(0xffffffffu, zero != 0.0f);
    if (does_speak())
        write_word(c->shared + NOTES_AT + 4 * (4 * group + warpgroup_thread() / 32), (int)lost);
}

/* Record it in global memory, for the columns of both warpgroups if they split the columns.
 * bwd_sm90_wide_finish recomputes those keys. All notes must have been written. */
DEVICE void tell_lost(const consumer *c, int group) {
    if (does_speak()) {
        const unsigned notes = c->shared + NOTES_AT + 4 * (warpgroup_thread() / 32);
        const int lost = shared_word(notes + (SHARES_KEYS ? 4 * 4 * group : 0));
        *lost_keys(&c->p->bwd, record_of(c, REC_BATCH), record_of(c, REC_KV_HEAD),
                   record_of(c, REC_TILE), first_key_of(group) / NOTED_KEYS) =
            SHARES_KEYS ? lost : lost | shared_word(notes + 4 * 4);
    }
}

/* Round this warpgroup's columns, from panel `first` on, and write them to shared memory. */
DEVICE void put_columns(const key_gradient *g, int group, int first, const float *x,
                        int count) {
    const int lane = warpgroup_thread() % 32;
    put_rounded(g, first, first_key_of(group) + lane % 16, lane, x, count);
}

/* Store `rows` rows of them in float32, from registers. */
DEVICE void store_floats(const consumer *c, const key_gradient *g, int group, int first,
                         const float *x, int count, long long row, int rows) {
    const int lane = warpgroup_thread() % 32, column = first * 64 + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = first_key_of(group) + lane / 4 + 8 * half;
        float *to = (float *)g->base + key_row(c, g->stride, row + r) + column;
        if (r < rows)
#pragma unroll
            for (int n = 0; n < count / 4; n++)
                if (column + 8 * n < g->columns)
                    *(float2 *)(to + 8 * n) = make_float2(x[4 * n + 2 * half] * g->scale,
                                                          x[4 * n + 2 * half + 1] * g->scale);
    }
}

/* The item is done. Once both warpgroups are here, nobody reads K and V any more. */
DEVICE void store_keys(const consumer *c, int group, const float dk[DK_MOST],
                       const float dv[DV_MOST]) {
    const int tile = record_of(c, REC_TILE), first_k = record_of(c, REC_FIRST_K);
    const int rows = min(TILE_N, record_of(c, REC_HELD) - tile * TILE_N);
    const long long row = record_of(c, REC_ROW_K) + tile * TILE_N;
    const key_gradient gk = dk_of(c), gv = dv_of(c);
    note_lost(c, group, zero_times(dk, DK_COUNT(group)) + zero_times(dv, DV_COUNT(group)));
    named_barrier_wait(NAMED_KEYS, GROUPS * WARPGROUP);
    if (group == 0 || SHARES_KEYS)
        tell_lost(c, group);
    if (tile * TILE_N < first_k) {
        const int end = min(first_k, (tile + 1) * TILE_N);
        store_zeros(c, &gk, consumer_thread(group), tile * TILE_N, end);
        store_zeros(c, &gv, consumer_thread(group), tile * TILE_N, end);
    }
    if (c->p->bwd.dtype_grad == F32) {
        store_floats(c, &gv, group, DV_PANEL(group), dv, DV_COUNT(group), row, rows);
        store_floats(c, &gk, group, DK_PANEL(group), dk, DK_COUNT(group), row, rows);
    } else {
        put_columns(&gv, group, DV_PANEL(group), dv, DV_COUNT(group));
        put_columns(&gk, group, DK_PANEL(group), dk, DK_COUNT(group));
        tma_publish();
        named_barrier_wait(NAMED_KEYS, GROUPS * WARPGROUP);
        if (!USE_BOX_STORE || (c->p->bwd.fwd.cu_seqlens_k && rows < TILE_N)) {
            store_rows(c, &gv, consumer_thread(group), row, rows);
            store_rows(c, &gk, consumer_thread(group), row, rows);
        } else if (group == 0 && warpgroup_thread() < 32 && does_speak()) {
            store_boxes(&gv, (int)row, record_of(c, REC_KV_HEAD), (int)key_entry(c));
            store_boxes(&gk, (int)row, record_of(c, REC_KV_HEAD), (int)key_entry(c));
            tma_store_commit();
            tma_store_wait_read();
        }
    }
    release(c, BAR_KEYS_EMPTY);
}

#endif
