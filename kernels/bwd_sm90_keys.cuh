/* bwd_sm90_keys.cuh: stores dK and dV of a key tile: with the copy engine, from the buffers of
 * K and V; row by row if the rows that follow belong to another sequence; directly from
 * registers if they are float32. */
#ifndef ATT_BWD_SM90_KEYS_CUH
#define ATT_BWD_SM90_KEYS_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_step.cuh"
#include "kernels/vector.cuh"

/* dK or dV. */
typedef struct key_gradient {
    const att_tensor_map *map;
    void *base;
    const att_fwd_strides *stride;
    int columns;     /* of the problem */
    unsigned shared; /* its buffer */
    int panels;
} key_gradient;

DEVICE key_gradient dk_of(const consumer *c) {
    const att_bwd_sm90_params *p = c->p;
    return {&p->d_k,         p->bwd.d_k,       &p->bwd.d_k_stride,
            p->bwd.fwd.d_qk, c->shared + K_AT, QK_PANELS};
}

DEVICE key_gradient dv_of(const consumer *c) {
    const att_bwd_sm90_params *p = c->p;
    return {&p->d_v,        p->bwd.d_v,       &p->bwd.d_v_stride,
            p->bwd.fwd.d_v, c->shared + V_AT, V_PANELS};
}

/* The element offset of a row of this item's head; row 0 is the tensor's first. */
DEVICE long long key_row(const consumer *c, const att_fwd_strides *stride, long long row) {
    const int place = c->records.place;
    const long long entry =
        c->p->bwd.fwd.cu_seqlens_k ? 0 : record_word(c->shared, place, REC_BATCH);
    return entry * stride->batch + record_word(c->shared, place, REC_KV_HEAD) * stride->head +
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

/* Record whether a key of this warp has a gradient that is not finite. bwd_sm90_finish
 * recomputes those. */
DEVICE void note_lost(const consumer *c, float zero) {
    const bool lost = __any_sync(0xffffffffu, zero != 0.0f);
    if (c->lane == 0)
        *lost_keys(&c->p->bwd, record_word(c->shared, c->records.place, REC_BATCH),
                   record_word(c->shared, c->records.place, REC_KV_HEAD),
                   record_word(c->shared, c->records.place, REC_TILE), 4 * c->group + c->warp) =
            lost;
}

/* Round and write to shared memory. */
DEVICE void put_rounded(const consumer *c, unsigned to, const float *x, int count,
                        float scale) {
    const int row = c->group * GROUP_KEYS + c->warp * 16 + c->lane % 16;
#pragma unroll
    for (int n = 0; n < count / 8; n++) {
        unsigned r[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            r[e] = pack_16(DTYPE, x[8 * n + 2 * e] * scale, x[8 * n + 2 * e + 1] * scale);
        stmatrix_x4(to + n / 4 * TILE_N * ROW_BYTES + row * ROW_BYTES +
                        (((2 * (n % 4) + c->lane / 16) ^ (row & 7)) << 4),
                    r);
    }
}

/* Store `rows` rows of a rounded tile; all consumers take part. */
DEVICE void store_rows(const consumer *c, const key_gradient *g, long long row, int rows) {
    const int thread = c->group * WARPGROUP + c->warp * 32 + c->lane, chunks = g->columns / 8;
#pragma unroll 1
    for (int at = thread; at < rows * chunks; at += GROUPS * WARPGROUP) {
        const int r = at / chunks, chunk = at - r * chunks;
        const unsigned from =
            g->shared + (chunk / 8 * TILE_N + r) * ROW_BYTES + ((chunk % 8 ^ (r & 7)) << 4);
        store_16((half_bits *)g->base + key_row(c, g->stride, row + r) + chunk * 8,
                 *(const uint4 *)__cvta_shared_to_generic(from));
    }
}

/* The same in float32, from registers. */
DEVICE void store_floats(const consumer *c, const key_gradient *g, const float *x, int count,
                         float scale, long long row, int rows) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = c->group * GROUP_KEYS + c->warp * 16 + c->lane / 4 + 8 * half;
        float *to = (float *)g->base + key_row(c, g->stride, row + r) + c->lane % 4 * 2;
        if (r < rows)
#pragma unroll
            for (int n = 0; n < count / 4; n++)
                if (8 * n < g->columns)
                    *(float2 *)(to + 8 * n) = make_float2(x[4 * n + 2 * half] * scale,
                                                          x[4 * n + 2 * half + 1] * scale);
    }
}

/* Rows of keys before the first one in use have gradients of 0. */
DEVICE void store_zeros(const consumer *c, const key_gradient *g, int begin, int end) {
    const int thread = c->group * WARPGROUP + c->warp * 32 + c->lane,
              size = c->p->bwd.dtype_grad == F32 ? 4 : 2;
    const int chunks = g->columns * size / 16;
    const long long row0 = record_word(c->shared, c->records.place, REC_ROW_K) -
                           record_word(c->shared, c->records.place, REC_FIRST_K);
#pragma unroll 1
    for (int at = begin * chunks + thread; at < end * chunks; at += GROUPS * WARPGROUP)
        store_16((char *)g->base + key_row(c, g->stride, row0 + at / chunks) * size +
                     at % chunks * 16,
                 make_uint4(0, 0, 0, 0));
}

/* The item is done. Once both warpgroups are here, nobody reads K and V any more. */
DEVICE void store_keys(const consumer *c, const float dk[DK_COUNT], const float dv[DV_COUNT]) {
    const int place = c->records.place, tile = record_word(c->shared, place, REC_TILE),
              first_k = record_word(c->shared, place, REC_FIRST_K);
    const int rows = min(TILE_N, record_word(c->shared, place, REC_HELD) - tile * TILE_N);
    const long long row = record_word(c->shared, place, REC_ROW_K) + tile * TILE_N;
    const key_gradient gk = dk_of(c), gv = dv_of(c);
    const float scale = c->p->bwd.fwd.scale;
    if (tile * TILE_N < first_k) {
        store_zeros(c, &gk, tile * TILE_N, min(first_k, (tile + 1) * TILE_N));
        store_zeros(c, &gv, tile * TILE_N, min(first_k, (tile + 1) * TILE_N));
    }
    if (c->p->bwd.dtype_grad == F32) {
        store_floats(c, &gv, dv, DV_COUNT, 1.0f, row, rows);
        store_floats(c, &gk, dk, DK_COUNT, scale, row, rows);
    } else {
        named_barrier_wait(NAMED_KEYS, GROUPS * WARPGROUP);
        put_rounded(c, gv.shared, dv, DV_COUNT, 1.0f);
        put_rounded(c, gk.shared, dk, DK_COUNT, scale);
        tma_publish();
        named_barrier_wait(NAMED_KEYS, GROUPS * WARPGROUP);
        if (!USE_BOX_STORE || (c->p->bwd.fwd.cu_seqlens_k && rows < TILE_N)) {
            store_rows(c, &gv, row, rows);
            store_rows(c, &gk, row, rows);
        } else if (c->group == 0 && c->warp == 0 && does_speak()) {
            const int head = record_word(c->shared, place, REC_KV_HEAD);
            const int entry =
                c->p->bwd.fwd.cu_seqlens_k ? 0 : record_word(c->shared, place, REC_BATCH);
#pragma unroll
            for (int n = 0; n < V_PANELS; n++)
                tma_store_4d(gv.map, gv.shared + n * TILE_N * ROW_BYTES, 64 * n, (int)row, head,
                             entry);
#pragma unroll
            for (int n = 0; n < QK_PANELS; n++)
                tma_store_4d(gk.map, gk.shared + n * TILE_N * ROW_BYTES, 64 * n, (int)row, head,
                             entry);
            tma_store_commit();
            tma_store_wait_read();
        }
    }
    release(c, BAR_KEYS_EMPTY);
}

#endif
