/* bwd_sm90_key_gradient.cuh: dK or dV of a key tile: its sums in registers, its rows in shared
 * memory once rounded, and its place in global memory. */
#ifndef ATT_BWD_SM90_KEY_GRADIENT_CUH
#define ATT_BWD_SM90_KEY_GRADIENT_CUH

#include "kernels/bwd_sm90_consumer.cuh"
#include "kernels/vector.cuh"

/* dK or dV. */
typedef struct key_gradient {
    const att_tensor_map *map;
    void *base;
    const att_fwd_strides *stride;
    int columns;     /* of the problem */
    unsigned shared; /* its buffer: K's or V's */
    int panels;
    float scale;
} key_gradient;

DEVICE key_gradient dk_of(const consumer *c) {
    const att_bwd_sm90_params *p = c->p;
    return {&p->d_k,          p->bwd.d_k, &p->bwd.d_k_stride, p->bwd.fwd.d_qk,
            c->shared + K_AT, QK_PANELS,  p->bwd.fwd.scale};
}

DEVICE key_gradient dv_of(const consumer *c) {
    const att_bwd_sm90_params *p = c->p;
    return {&p->d_v,  p->bwd.d_v, &p->bwd.d_v_stride, p->bwd.fwd.d_v, c->shared + V_AT,
            V_PANELS, 1.0f};
}

/* The asm statement keeps the zeroing here. The compiler would otherwise move it below products
 * in flight and wait for each of them. */
DEVICE void clear_sums(float *x, int count) {
#pragma unroll
    for (int i = 0; i < count; i++)
        asm volatile("mov.f32 %0, 0f00000000;" : "=f"(x[i]));
}

/* 0, or NaN if any of them is not finite. */
DEVICE float zero_times(const float *x, int count) {
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < count; i++)
        sum[i % 4] = fmaf(x[i], 0.0f, sum[i % 4]);
    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* The batch entry of this item's keys; packed sequences have one. */
DEVICE long long key_entry(const consumer *c) {
    return c->p->bwd.fwd.cu_seqlens_k ? 0 : record_of(c, REC_BATCH);
}

/* The element offset of a row of this item's head; row 0 is the tensor's first. */
DEVICE long long key_row(const consumer *c, const att_fwd_strides *stride, long long row) {
    return key_entry(c) * stride->batch + record_of(c, REC_KV_HEAD) * stride->head +
           row * stride->row;
}

/* Round `count` sums and write them to row `row` in shared memory, from panel `first` on. */
DEVICE void put_rounded(const key_gradient *g, int first, int row, int lane, const float *x,
                        int count) {
    const unsigned to = g->shared + first * KEY_PANEL_BYTES;
#pragma unroll
    for (int n = 0; n < count / 8; n++) {
        unsigned r[4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            r[e] = pack_16(DTYPE, x[8 * n + 2 * e] * g->scale, x[8 * n + 2 * e + 1] * g->scale);
        stmatrix_x4(to + n / 4 * KEY_PANEL_BYTES + row * ROW_BYTES +
                        (((2 * (n % 4) + lane / 16) ^ (row & 7)) << 4),
                    r);
    }
}

/* Store `rows` rows of a rounded tile; all consumers take part, and `thread` counts them. */
DEVICE void store_rows(const consumer *c, const key_gradient *g, int thread, long long row,
                       int rows) {
    const int chunks = g->columns / 8;
#pragma unroll 1
    for (int at = thread; at < rows * chunks; at += GROUPS * WARPGROUP) {
        const int r = at / chunks, chunk = at - r * chunks;
        const unsigned from = chunk_of_key(g->shared, r, chunk);
        store_16((half_bits *)g->base + key_row(c, g->stride, row + r) + chunk * 8,
                 *(const uint4 *)__cvta_shared_to_generic(from));
    }
}

/* Rows [begin, end) of the sequence come before the first key in use: their gradients are
 * 0. */
DEVICE void store_zeros(const consumer *c, const key_gradient *g, int thread, int begin,
                        int end) {
    const int size = c->p->bwd.dtype_grad == F32 ? 4 : 2;
    const int chunks = g->columns * size / 16;
    const long long row0 = record_of(c, REC_ROW_K) - record_of(c, REC_FIRST_K);
#pragma unroll 1
    for (int at = begin * chunks + thread; at < end * chunks; at += GROUPS * WARPGROUP)
        store_16((char *)g->base + key_row(c, g->stride, row0 + at / chunks) * size +
                     at % chunks * 16,
                 make_uint4(0, 0, 0, 0));
}

/* Store the rounded tile with the copy engine. */
DEVICE void store_boxes(const key_gradient *g, int row, int head, int entry) {
#pragma unroll
    for (int n = 0; n < g->panels; n++)
        tma_store_4d(g->map, g->shared + n * KEY_PANEL_BYTES, 64 * n, row, head, entry);
}

#endif
