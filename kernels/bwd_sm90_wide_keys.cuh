/* bwd_sm90_wide_keys.cuh: stores dK and dV of a key tile: with the copy engine, from the
 * buffers of K and V; row by row if the rows that follow belong to another sequence; directly
 * from registers if they are float32. */
#ifndef ATT_BWD_SM90_WIDE_KEYS_CUH
#define ATT_BWD_SM90_WIDE_KEYS_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_wide_step.cuh"
#include "kernels/vector.cuh"

/* dK or dV. */
typedef struct key_gradient {
    const att_tensor_map *map;
    void *base;
    const att_fwd_strides *stride;
    int columns;     /* of the problem */
    unsigned shared; /* its buffer */
    int panels;
    int first, share; /* panels of this warpgroup */
    float scale;
} key_gradient;

DEVICE key_gradient dk_of(const consumer *c, int group) {
    const att_bwd_sm90_params *p = c->p;
    return {&p->d_k,   p->bwd.d_k,       &p->bwd.d_k_stride, p->bwd.fwd.d_qk, c->shared + K_AT,
            QK_PANELS, SHARES_KEYS ? 0 : group * DK_FIRST, SHARES_KEYS ? QK_PANELS : DK_SHARE(group), p->bwd.fwd.scale};
}

DEVICE key_gradient dv_of(const consumer *c, int group) {
    const att_bwd_sm90_params *p = c->p;
    return {&p->d_v,  p->bwd.d_v,       &p->bwd.d_v_stride, p->bwd.fwd.d_v, c->shared + V_AT,
            V_PANELS, SHARES_KEYS ? 0 : group * DV_FIRST, SHARES_KEYS ? V_PANELS : DV_SHARE(group), 1.0f};
}

/* The element offset of a row of this item's head; row 0 is the tensor's first. */
DEVICE long long key_row(const consumer *c, const att_fwd_strides *stride, long long row) {
    const long long entry =
        c->p->bwd.fwd.cu_seqlens_k ? 0 : record_of(c, REC_BATCH);
    return entry * stride->batch + record_of(c, REC_KV_HEAD) * stride->head +
           row * stride->row;
}

/* 0, or NaN if any of them is not finite. */
DEVICE float zero_times(const float *x, int count) {
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < count; i++)
        sum[i % 4] = fmaf(x[i], 0.0f, sum[i % 4]);
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* This warp's first key of the tile. */
DEVICE int first_key_of(int group) {
    return (SHARES_KEYS ? group * GROUP_KEYS : 0) + thread_again() / 32 * 16;
}

/* Note whether a key of this warp has a gradient that is not finite in this warpgroup's
 * columns. */
DEVICE void note_lost(const consumer *c, int group, float zero) {
    const bool lost = __any_sync(0xffffffffu, zero != 0.0f);
    if (does_speak())
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(c->shared + NOTES_AT +
                                                     4 * (4 * group + thread_again() / 32)),
                     "r"((int)lost)
                     : "memory");
}

/* Record it in global memory, for the columns of both warpgroups if they split the columns.
 * bwd_sm90_wide_finish recomputes those keys. All notes must have been written. */
DEVICE void tell_lost(const consumer *c, int group) {
    if (does_speak()) {
        const unsigned notes = c->shared + NOTES_AT + 4 * (thread_again() / 32);
        const int lost = shared_word(notes + (SHARES_KEYS ? 4 * 4 * group : 0));
        *lost_keys(&c->p->bwd, record_of(c, REC_BATCH),
                   record_of(c, REC_KV_HEAD),
                   record_of(c, REC_TILE),
                   first_key_of(group) / NOTED_KEYS) =
            SHARES_KEYS ? lost : lost | shared_word(notes + 4 * 4);
    }
}

/* Round and write to shared memory. */
DEVICE void put_rounded(const consumer *c, const key_gradient *g, int group,
                        const float *x) {
    const int lane = thread_again() % 32, row = first_key_of(group) + lane % 16;
    const unsigned to = g->shared + g->first * KEY_PANEL_BYTES + row * ROW_BYTES;
#pragma unroll
    for (int n = 0; n < g->share * PANEL_COUNT / 8; n++) {
        unsigned r[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            r[e] = pack_16(DTYPE, x[8 * n + 2 * e] * g->scale, x[8 * n + 2 * e + 1] * g->scale);
        stmatrix_x4(to + n / 4 * KEY_PANEL_BYTES + (((2 * (n % 4) + lane / 16) ^ (row & 7)) << 4),
                    r);
    }
}

/* Store `rows` rows of a rounded tile; all consumers take part. */
DEVICE void store_rows(const consumer *c, const key_gradient *g, int group, long long row,
                       int rows) {
    const int thread = group * WARPGROUP + thread_again(), chunks = g->columns / 8;
#pragma unroll 1
    for (int at = thread; at < rows * chunks; at += GROUPS * WARPGROUP) {
        const int r = at / chunks, chunk = at - r * chunks;
        const unsigned from =
            g->shared + chunk / 8 * KEY_PANEL_BYTES + r * ROW_BYTES + ((chunk % 8 ^ (r & 7)) << 4);
        store_16((half_bits *)g->base + key_row(c, g->stride, row + r) + chunk * 8,
                 *(const uint4 *)__cvta_shared_to_generic(from));
    }
}

/* The same in float32, from registers. */
DEVICE void store_floats(const consumer *c, const key_gradient *g, int group, const float *x,
                         long long row, int rows) {
    const int lane = thread_again() % 32, column = g->first * 64 + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = first_key_of(group) + lane / 4 + 8 * half;
        float *to = (float *)g->base + key_row(c, g->stride, row + r) + column;
        if (r < rows)
#pragma unroll
            for (int n = 0; n < g->share * PANEL_COUNT / 4; n++)
                if (column + 8 * n < g->columns)
                    *(float2 *)(to + 8 * n) = make_float2(
                        x[4 * n + 2 * half] * g->scale, x[4 * n + 2 * half + 1] * g->scale);
    }
}

/* Rows of keys before the first one in use have gradients of 0. */
DEVICE void store_zeros(const consumer *c, const key_gradient *g, int group, int begin,
                        int end) {
    const int thread = group * WARPGROUP + thread_again(),
              size = c->p->bwd.dtype_grad == F32 ? 4 : 2;
    const int chunks = g->columns * size / 16;
    const long long row0 = record_of(c, REC_ROW_K) -
                           record_of(c, REC_FIRST_K);
#pragma unroll 1
    for (int at = begin * chunks + thread; at < end * chunks; at += GROUPS * WARPGROUP)
        store_16((char *)g->base + key_row(c, g->stride, row0 + at / chunks) * size +
                     at % chunks * 16,
                 make_uint4(0, 0, 0, 0));
}

/* Store the rounded tile with the copy engine. */
DEVICE void store_boxes(const consumer *c, const key_gradient *g, int row) {
    const int head = record_of(c, REC_KV_HEAD);
    const int entry = c->p->bwd.fwd.cu_seqlens_k ? 0 : record_of(c, REC_BATCH);
#pragma unroll
    for (int n = 0; n < g->panels; n++)
        tma_store_4d(g->map, g->shared + n * KEY_PANEL_BYTES, 64 * n, row, head, entry);
}

/* The item is done. Once both warpgroups are here, nobody reads K and V any more. */
DEVICE void store_keys(const consumer *c, int group, const float dk[DK_MOST],
                       const float dv[DV_MOST]) {
    const int tile = record_of(c, REC_TILE),
              first_k = record_of(c, REC_FIRST_K);
    const int rows = min(TILE_N, record_of(c, REC_HELD) - tile * TILE_N);
    const long long row = record_of(c, REC_ROW_K) + tile * TILE_N;
    const key_gradient gk = dk_of(c, group), gv = dv_of(c, group);
    note_lost(c, group, zero_times(dk, DK_COUNT(group)) + zero_times(dv, DV_COUNT(group)));
    named_barrier_wait(NAMED_KEYS, GROUPS * WARPGROUP);
    if (group == 0 || SHARES_KEYS)
        tell_lost(c, group);
    if (tile * TILE_N < first_k) {
        store_zeros(c, &gk, group, tile * TILE_N, min(first_k, (tile + 1) * TILE_N));
        store_zeros(c, &gv, group, tile * TILE_N, min(first_k, (tile + 1) * TILE_N));
    }
    if (c->p->bwd.dtype_grad == F32) {
        store_floats(c, &gv, group, dv, row, rows);
        store_floats(c, &gk, group, dk, row, rows);
    } else {
        put_rounded(c, &gv, group, dv);
        put_rounded(c, &gk, group, dk);
        tma_publish();
        named_barrier_wait(NAMED_KEYS, GROUPS * WARPGROUP);
        if (!USE_BOX_STORE || (c->p->bwd.fwd.cu_seqlens_k && rows < TILE_N)) {
            store_rows(c, &gv, group, row, rows);
            store_rows(c, &gk, group, row, rows);
        } else if (group == 0 && thread_again() < 32 && does_speak()) {
            store_boxes(c, &gv, (int)row);
            store_boxes(c, &gk, (int)row);
            tma_store_commit();
            tma_store_wait_read();
        }
    }
    release(c, BAR_KEYS_EMPTY);
}

#endif
