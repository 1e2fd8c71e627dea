/* fwd_parts.cuh: rows whose keys were split over blocks: where their parts are stored, and how
 * a row is written.
 *
 * A warp works on one row; lane l has the columns 4 l + 128 g .. + 3. */
#ifndef ATT_FWD_PARTS_CUH
#define ATT_FWD_PARTS_CUH

#include "kernels/fwd_scores.cuh"
#include "kernels/second_look.cuh"

#define QUADS ((D_V + 127) / 128) /* groups of four columns per lane */

/* A row with weights relative to 2^top: O = o / sum, log2-sum-exp2 = top + log2(sum). A NaN in
 * `sum` marks a row that exceeds the range of float32. */
typedef struct merged_row {
    float top, sum;
    float4 o[QUADS];
} merged_row;

DEVICE void add_weighed(float4 *to, float weight, float4 x) {
    to->x += weight * x.x;
    to->y += weight * x.y;
    to->z += weight * x.z;
    to->w += weight * x.w;
}

/* The log2-sum-exp2 of a row; *scale is the factor for its O. */
DEVICE float row_lse(const merged_row *m, float *scale) {
    *scale = m->sum > 0.0f ? reciprocal_fast(m->sum) : m->sum;
    return m->sum > 0.0f ? m->top + log2_fast(m->sum) : m->sum == 0.0f ? -INFINITE : m->sum;
}

/* The index of row i of query head `head` among the rows of a split. */
DEVICE unsigned part_row(const att_fwd_params *p, int batch, int head, int i) {
    return (batch * p->heads_q + head) * p->seq_q + i;
}

DEVICE long long part_index(const att_fwd_params *p, unsigned row, int split) {
    return (long long)split * ((unsigned)p->batch * p->heads_q * p->seq_q) + row;
}

/* Store row `index` of the parts. Top and sum stay apart: the log of the sum would lose its
 * fraction where scores are large. Values that are not finite show up in the combined row. */
DEVICE void store_part(const att_fwd_params *p, long long index, const merged_row *m) {
    const int lane = threadIdx.x % 32;
    float *to = p->partial_o + index * p->d_v;
#pragma unroll
    for (int g = 0; g < QUADS; g++) {
        const float x[4] = {m->o[g].x, m->o[g].y, m->o[g].z, m->o[g].w};
        const int column = 4 * lane + 128 * g;
        if (p->d_v % 4 == 0) {
            if (column < p->d_v)
                *(float4 *)(to + column) = m->o[g];
            continue;
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (column + e < p->d_v)
                to[column + e] = x[e];
    }
    if (lane == 0)
        *(float2 *)(p->partial_sums + 2 * index) = make_float2(m->top, m->sum);
}

/* Write O and LSE of a row that has seen all its keys: the first `d_v` columns of O. With d_v 0
 * nothing is written. */
DEVICE void finish_row(const att_fwd_params *p, const sequence *s, int head, int i, const merged_row *m, int d_v) {
    const int lane = threadIdx.x % 32;
    float scale, lse = row_lse(m, &scale);
    scale *= add_sink(p, head, &lse);
    const long long out = query_offset(p, s, &p->o_stride, head, i);
    bool sound = lse == lse;
#pragma unroll
    for (int g = 0; g < QUADS; g++) {
        const float x[4] = {m->o[g].x * scale, m->o[g].y * scale, m->o[g].z * scale, m->o[g].w * scale};
        const int column = 4 * lane + 128 * g;
#pragma unroll
        for (int e = 0; e < 4; e++)
            sound = sound && (column + e >= d_v || is_finite(x[e]));
        if (p->flags & ATT_FWD_VECTOR && p->dtype_o == F32) { /* d_v % 8 == 0, aligned rows */
            if (column < d_v)
                *(float4 *)((float *)p->o + out + column) = make_float4(x[0], x[1], x[2], x[3]);
            continue;
        }
        if (p->flags & ATT_FWD_VECTOR) {
            const uint2 packed = make_uint2(pack_16(p->dtype_o, x[0], x[1]), pack_16(p->dtype_o, x[2], x[3]));
            if (column < d_v)
                *(uint2 *)((half_bits *)p->o + out + column) = packed;
            continue;
        }
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (column + e < d_v)
                store_from_float(p->o, out + column + e, p->dtype_o, x[e]);
    }
    if (p->lse && lane == 0 && d_v > 0)
        p->lse[query_offset(p, s, &p->lse_stride, head, i)] = lse * LN_2;
    const bool lost = m->sum == 0.0f && visible_hi(p, s, i) > visible_lo(p, s, i);
    if (__any_sync(0xffffffffu, (!sound || lost) && d_v > 0))
        second_look(p, s->batch, head, i);
}

#endif
