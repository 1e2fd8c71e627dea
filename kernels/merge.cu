/* merge.cu: partial results of the same rows become one
 * COMPUTES lse = log sum_i exp(lse_i), O = sum_i exp(lse_i - lse) O_i; row_lanes threads per row, 16 bytes of it each at a time
 * THREADS  32 * WARPS; 32 * WARPS / row_lanes rows per block
 * SMEM     none
 * FLOW     the parts' first columns are under way while the weights are worked out; the weights are worked out by every thread of a
 *          row, from log-sums that the row's threads read together
 * NUMERICS float32, weights normalised before they multiply, parts in their order: the same bits every time
 * LIMITS   d <= D_V; 1 to 128 parts
 * WHY      bound by memory: a part costs 16 bytes, 8 fused multiply-adds and an exponential per thread */
#include "kernels/convert.cuh"
#include "kernels/math.cuh"
#include "kernels/merge_params.h"
#include "kernels/vector.cuh"

#define WIDTH (DTYPE == F32 ? 4 : 8) /* elements of 16 bytes */
#define BATCH 4                      /* parts that are loaded at once */

/* Where a row lies, in elements: of the parts' O and log-sums, of O and of the log-sum. */
typedef struct row_place {
    long long part_o, part_lse, o, lse;
} row_place;

/* The largest log-sum, and one over the sum of the weights relative to it. */
typedef struct row_scale {
    float top, inverse;
} row_scale;

DEVICE unsigned divide_by(unsigned n, const att_fwd_divisor *by) {
    return by->value == 1 ? n : __umulhi(n, by->multiplier) >> by->shift;
}

DEVICE long long place_in(const att_fwd_strides *s, int batch, int head, int row) {
    return batch * s->batch + head * s->head + row * s->row;
}

DEVICE row_place place_of(const att_merge_params *p, unsigned row) {
    const unsigned pair = divide_by(row, &p->by_seq), batch = divide_by(pair, &p->by_heads);
    const int i = row - pair * p->seq, head = pair - batch * p->heads;
    row_place at;
    at.part_o = place_in(&p->part_o_stride, batch, head, i);
    at.part_lse = place_in(&p->part_lse_stride, batch, head, i);
    at.o = place_in(&p->o_stride, batch, head, i);
    at.lse = place_in(&p->lse_stride, batch, head, i);
    return at;
}

/* exp(lse - top); 1 where both are +inf, 0 for an empty part, NaN for NaN. */
DEVICE float weight_of(float lse, float top) {
    if (lse == top)
        return lse == -INFINITE ? 0.0f : 1.0f;
    return exp2_fast((lse - top) * LOG2_E);
}

/* NaN of any part makes the top irrelevant: the sum is NaN. */
DEVICE row_scale scale_of(const att_merge_params *p, long long at, float *sum) {
    float top = -INFINITE;
#pragma unroll 4
    for (int i = 0; i < p->parts; i++)
        top = fmaxf(top, __ldg(p->part_lse[i] + at));
    float total = 0.0f;
#pragma unroll 4
    for (int i = 0; i < p->parts; i++)
        total += weight_of(__ldg(p->part_lse[i] + at), top);
    *sum = total;
    row_scale scale = {top, total == 0.0f ? 0.0f : 1.0f / total};
    return scale;
}

/* WIDTH elements from column `c` on, as far as the row goes. */
DEVICE uint4 load_part(const att_merge_params *p, const void *base, long long at, int c) {
    if (p->vector)
        return load_16((const char *)base + (at + c) * (16 / WIDTH));
    uint4 packed = make_uint4(0, 0, 0, 0);
    unsigned *word = &packed.x;
#pragma unroll
    for (int e = 0; e < WIDTH; e++) {
        if (c + e >= p->d)
            continue;
        if (DTYPE == F32)
            word[e] = ((const unsigned *)base)[at + c + e];
        else
            word[e / 2] |= (unsigned)((const half_bits *)base)[at + c + e] << (16 * (e % 2));
    }
    return packed;
}

DEVICE float element_of(uint4 packed, int e) {
    const unsigned *word = &packed.x;
    if (DTYPE == F32)
        return __uint_as_float(word[e]);
    const half_bits bits = (half_bits)(word[e / 2] >> (16 * (e % 2)));
    return DTYPE == BF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

DEVICE void store_columns(const att_merge_params *p, long long at, int c, const float x[WIDTH]) {
    if (p->vector && p->dtype_o == DTYPE) {
        uint4 packed;
        unsigned *word = &packed.x;
#pragma unroll
        for (int w = 0; w < 4; w++)
            word[w] = DTYPE == F32 ? __float_as_uint(x[w]) : pack_16(DTYPE, x[2 * w % WIDTH], x[(2 * w + 1) % WIDTH]);
        store_16((char *)p->o + (at + c) * (16 / WIDTH), packed);
        return;
    }
#pragma unroll
    for (int e = 0; e < WIDTH; e++)
        if (c + e < p->d)
            store_from_float(p->o, at + c + e, p->dtype_o, x[e]);
}

/* BATCH parts from `first` on, under way together. */
DEVICE void load_parts(const att_merge_params *p, uint4 parts[BATCH], int first, long long at, int c) {
#pragma unroll
    for (int n = 0; n < BATCH; n++)
        if (first + n < p->parts)
            parts[n] = load_part(p, p->part_o[first + n], at, c);
}

DEVICE void add_parts(const att_merge_params *p, float x[WIDTH], const uint4 parts[BATCH], int first,
                      const row_place *at, const row_scale *scale) {
#pragma unroll
    for (int n = 0; n < BATCH; n++) {
        if (first + n >= p->parts)
            continue;
        const float weight =
            weight_of(__ldg(p->part_lse[first + n] + at->part_lse), scale->top) * scale->inverse;
        if (weight == 0.0f) /* what an empty part holds may be NaN */
            continue;
#pragma unroll
        for (int e = 0; e < WIDTH; e++)
            x[e] = fmaf(weight, element_of(parts[n], e), x[e]);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    KERNEL(const __grid_constant__ att_merge_params params) {
    const att_merge_params *p = &params;
    const int lanes = p->row_lanes, lane = threadIdx.x & (lanes - 1);
    const long long row = (long long)blockIdx.x * (32 * WARPS / lanes) + threadIdx.x / lanes;
    if (row >= p->rows)
        return;
    const row_place at = place_of(p, (unsigned)row);
    uint4 parts[BATCH];
    const int first_column = lane * WIDTH;
    if (first_column < p->d)
        load_parts(p, parts, 0, at.part_o, first_column);
    float sum;
    const row_scale scale = scale_of(p, at.part_lse, &sum);
    for (int c = first_column; c < p->d; c += lanes * WIDTH) {
        float x[WIDTH] = {};
        if (c != first_column)
            load_parts(p, parts, 0, at.part_o, c);
        add_parts(p, x, parts, 0, &at, &scale);
        for (int first = BATCH; first < p->parts; first += BATCH) {
            load_parts(p, parts, first, at.part_o, c);
            add_parts(p, x, parts, first, &at, &scale);
        }
        store_columns(p, at.o, c, x);
    }
    if (lane == 0 && p->lse)
        p->lse[at.lse] = sum == 0.0f ? -INFINITE : scale.top + log2_fast(sum) * LN_2;
}
