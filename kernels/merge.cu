/* merge.cu: merges partial results of the same rows
 * COMPUTES lse = log sum_i exp(lse_i), O = sum_i exp(lse_i - lse) O_i; 4 to 32 threads share a
 *          row, 16 bytes each at a time
 * THREADS  32 * WARPS; the rows of a block are consecutive along one axis, so that they share
 *          the sectors of log-sums
 * SMEM     none
 * FLOW     the first BATCH parts are in flight while the weights are computed: lane n has the
 *          log-sums of parts n, n + lanes, ...; tops, sums and weights are exchanged by
 *          shuffles
 * NUMERICS float32, weights normalised before they multiply, parts in order: the same bits on
 *          every run
 * LIMITS   d <= D_V; 1 to 128 parts
 * WHY      bound by memory. One or two parts would be bound by the work done once per row, so
 *          they have their own path. Tried on an H200 and not kept: two rows per thread, eight
 *          parts at once, more blocks with fewer registers, persistent blocks that load the
 *          next row ahead, sectors of 256 bytes. One loop for rows of any alignment cost 5 to
 *          15 %, so there are two. docs/merge.md has figures. */
#include "kernels/convert.cuh"
#include "kernels/divide.cuh"
#include "kernels/math.cuh"
#include "kernels/merge_params.h"
#include "kernels/vector.cuh"

#define WIDTH (DTYPE == F32 ? 4 : 8) /* elements per 16 bytes */
#define BATCH 4                      /* parts loaded at once, at most the threads of a row */
#define FEW ATT_MERGE_FEW                 /* parts that every thread weighs by itself */
#define FEW_VECTORS ATT_MERGE_FEW_VECTORS /* vectors of a row per thread in that case */

/* A row of the output: its position along the axes of att_merge_params. */
typedef struct row_index {
    int batch, far, near;
} row_index;

DEVICE long long place_in(const att_fwd_strides *s, row_index at) {
    return at.batch * s->batch + at.far * s->head + at.near * s->row;
}

/* The first row of the block. */
DEVICE row_index index_of_block(const att_merge_params *p, int rows) {
    const unsigned pair = divide(blockIdx.x, &p->by_inner), batch = divide(pair, &p->by_outer);
    const int inner = blockIdx.x - pair * p->inner, outer = pair - batch * p->outer;
    const row_index at = {(int)batch, p->far_inside ? inner : outer, (p->far_inside ? outer : inner) * rows};
    return at;
}

/* exp(lse - top); 1 where both are +inf, 0 for an empty part, NaN for NaN. */
DEVICE float weight_of(float lse, float top) {
    if (lse == top)
        return lse == -INFINITE ? 0.0f : 1.0f;
    return exp2_fast((lse - top) * LOG2_E);
}

/* Over the lanes of a row. */
DEVICE float max_of_lanes(float x, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

DEVICE float sum_of_lanes(float x, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* The log-sum of a part; -inf, which has no weight, if the part does not exist. */
DEVICE float load_lse(const att_merge_params *p, int part, long long at) {
    return part < p->parts ? __ldg(p->part_lse[part] + at) : -INFINITE;
}

/* The largest log-sum of a row, the sum of the weights relative to it, and its reciprocal. A
 * NaN ends up in the sum. */
typedef struct row_scale {
    float top, sum, inverse;
} row_scale;

DEVICE row_scale scale_of(const att_merge_params *p, float own, long long at, int lane, int lanes) {
    row_scale s;
    float top = own;
    for (int part = lane + lanes; part < p->parts; part += lanes)
        top = fmaxf(top, load_lse(p, part, at));
    s.top = max_of_lanes(top, lanes);
    float sum = weight_of(own, s.top);
    for (int part = lane + lanes; part < p->parts; part += lanes)
        sum += weight_of(load_lse(p, part, at), s.top);
    s.sum = sum_of_lanes(sum, lanes);
    s.inverse = s.sum == 0.0f ? 0.0f : 1.0f / s.sum;
    return s;
}

/* Load 16 bytes that are not read again. */
DEVICE uint4 load_16_once(const void *global) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(global));
    return x;
}

/* Load WIDTH elements from column `c` on, up to the end of the row. `vector` is a constant:
 * every row begins at a multiple of 16 bytes. */
DEVICE uint4 load_part(const att_merge_params *p, const void *base, long long at, int c, int vector) {
    if (vector)
        return load_16_once((const char *)base + (at + c) * (16 / WIDTH));
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

/* Store 16 bytes of the type of the parts, which are not read soon. */
DEVICE void store_vector(const att_merge_params *p, long long at, int c, const float x[WIDTH]) {
    uint4 packed;
    unsigned *word = &packed.x;
#pragma unroll
    for (int w = 0; w < 4; w++)
        word[w] = DTYPE == F32 ? __float_as_uint(x[w]) : pack_16(DTYPE, x[2 * w % WIDTH], x[(2 * w + 1) % WIDTH]);
    __stcs((uint4 *)((char *)p->o + (at + c) * (16 / WIDTH)), packed);
}

DEVICE void store_columns(const att_merge_params *p, long long at, int c, const float x[WIDTH], int vector) {
    if (vector && p->dtype_o == DTYPE) {
        store_vector(p, at, c, x);
        return;
    }
#pragma unroll
    for (int e = 0; e < WIDTH; e++)
        if (c + e < p->d)
            store_from_float(p->o, at + c + e, p->dtype_o, x[e]);
}

/* Start loading BATCH parts of the row, from `first` on. */
DEVICE void load_parts(const att_merge_params *p, uint4 parts[BATCH], int first, long long at, int c, int vector) {
#pragma unroll
    for (int n = 0; n < BATCH; n++)
        if (first + n < p->parts && c < p->d)
            parts[n] = load_part(p, p->part_o[first + n], at, c, vector);
}

/* Add a part, if it exists. An empty part may hold NaN. */
DEVICE void add_part(const att_merge_params *p, float x[WIDTH], uint4 packed, int part, float weight) {
    if (part >= p->parts || weight == 0.0f)
        return;
#pragma unroll
    for (int e = 0; e < WIDTH; e++)
        x[e] = fmaf(weight, element_of(packed, e), x[e]);
}

/* Add BATCH parts. Every lane of the warp must call this: `weight` is that of the lane's part
 * among the `lanes` parts from `base` on. */
DEVICE void add_parts(const att_merge_params *p, float x[WIDTH], const uint4 parts[BATCH], int first, float weight,
                      int base, int lanes) {
#pragma unroll
    for (int n = 0; n < BATCH; n++) {
        const float w = __shfl_sync(0xffffffffu, weight, first + n - base, lanes);
        add_part(p, x, parts[n], first + n, w);
    }
}

/* The row of the thread. Past the last row of the axis it is the last row again, which is then
 * not written: all lanes of a warp take part in shuffles. */
DEVICE row_index row_of_thread(const att_merge_params *p, bool *is_row) {
    row_index at = index_of_block(p, 32 * WARPS >> p->lanes_log2);
    at.near += threadIdx.x >> p->lanes_log2;
    *is_row = at.near < p->near;
    at.near = min(at.near, p->near - 1);
    return at;
}

DEVICE void store_lse(const att_merge_params *p, row_index at, float top, float sum) {
    if (p->lse)
        p->lse[place_in(&p->lse_stride, at)] = sum == 0.0f ? -INFINITE : top + log2_fast(sum) * LN_2;
}

DEVICE void merge_row(const att_merge_params *p, int vector) {
    const int lanes = 1 << p->lanes_log2, lane = threadIdx.x & (lanes - 1);
    bool is_row;
    const row_index at = row_of_thread(p, &is_row);
    const long long part_o = place_in(&p->part_o_stride, at), part_lse = place_in(&p->part_lse_stride, at);
    uint4 parts[BATCH];
    load_parts(p, parts, 0, part_o, lane * WIDTH, vector);
    const float own = load_lse(p, lane, part_lse);
    const row_scale scale = scale_of(p, own, part_lse, lane, lanes);
    const float own_weight = weight_of(own, scale.top) * scale.inverse;
    for (int begin = 0; begin < p->d; begin += lanes * WIDTH) {
        const int c = begin + lane * WIDTH;
        float x[WIDTH] = {};
        for (int first = 0; first < p->parts; first += BATCH) {
            const int base = first & -lanes;
            const float weight =
                base == 0 ? own_weight : weight_of(load_lse(p, base + lane, part_lse), scale.top) * scale.inverse;
            if (begin > 0 || first > 0)
                load_parts(p, parts, first, part_o, c, vector);
            add_parts(p, x, parts, first, weight, base, lanes);
        }
        if (is_row && c < p->d)
            store_columns(p, place_in(&p->o_stride, at), c, x, vector);
    }
    if (is_row && lane == 0)
        store_lse(p, at, scale.top, scale.sum);
}

/* Few parts: every thread weighs them itself and has FEW_VECTORS vectors of the row, `step`
 * columns apart. */
DEVICE void merge_few(const att_merge_params *p) {
    const int lanes = 1 << p->lanes_log2, c = (threadIdx.x & (lanes - 1)) * WIDTH, step = lanes * WIDTH;
    bool is_row;
    const row_index at = row_of_thread(p, &is_row);
    const long long part_o = place_in(&p->part_o_stride, at), part_lse = place_in(&p->part_lse_stride, at);
    if (!is_row)
        return;
    uint4 parts[FEW_VECTORS][FEW];
#pragma unroll
    for (int v = 0; v < FEW_VECTORS; v++)
#pragma unroll
        for (int n = 0; n < FEW; n++)
            if (n < p->parts && c + v * step < p->d)
                parts[v][n] = load_part(p, p->part_o[n], part_o, c + v * step, 1);
    float lse[FEW], weight[FEW], top = -INFINITE, sum = 0.0f;
#pragma unroll
    for (int n = 0; n < FEW; n++)
        top = fmaxf(top, lse[n] = load_lse(p, n, part_lse));
#pragma unroll
    for (int n = 0; n < FEW; n++)
        sum += weight[n] = weight_of(lse[n], top);
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
    for (int v = 0; v < FEW_VECTORS; v++) {
        float x[WIDTH] = {};
#pragma unroll
        for (int n = 0; n < FEW; n++)
            add_part(p, x, parts[v][n], n, weight[n] * inverse);
        if (c + v * step < p->d)
            store_vector(p, place_in(&p->o_stride, at), c + v * step, x);
    }
    if (c == 0)
        store_lse(p, at, top, sum);
}

/* Compiled for other GPUs than Hopper, 64 registers are not enough. */
#if __CUDA_ARCH__ >= 900
#define BLOCKS_PER_SM 8
#else
#define BLOCKS_PER_SM 6
#endif

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS_PER_SM)
    KERNEL(const __grid_constant__ att_merge_params params) {
    if (!params.vector)
        merge_row(&params, 0);
    else if (!params.few)
        merge_row(&params, 1);
    else
        merge_few(&params);
}
