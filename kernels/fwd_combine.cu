/* fwd_combine.cu: combines the parts of rows whose keys were split
 * COMPUTES O = sum_s 2^(lse_s - lse) O_s, lse = log2 sum_s 2^lse_s, and the sink's weight;
 *          row_warps warps per row, or two rows per warp
 * THREADS  32 * WARPS; each warp of a row sums every row_warps-th part; then one of them adds
 *          up the warps' sums
 * SMEM     2 x WARPS x 128 ceil(D_V / 128) float32
 * FLOW     the block starts while the kernel that computes the parts is finishing, and waits
 *          for it; the next kernel may start while this one runs
 * NUMERICS float32 in a fixed order: the same bits on every run; a row that is not finite is
 *          recomputed in float64
 * LIMITS   d_v <= D_V */
#include "kernels/fwd_parts.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/reduce.cuh"

#define BATCH 4 /* parts that a warp loads at once */
#define ROWS  ATT_FWD_ROWS_AT_ONCE
#define BATCH_OF_ROWS (QUADS == 1 ? 4 : 2) /* the same, per row, for several rows */

static_assert(32 % (BATCH * WARPS) == 0, "the lanes hold the weights of whole batches");

/* Load four columns of a part, bypassing L1: another SM wrote them. */
DEVICE float4 load_quad(const att_fwd_params *p, const float *part, int column) {
    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (p->d_v % 4 == 0)
        return column < p->d_v ? __ldcg((const float4 *)(part + column)) : make_float4(x[0], x[1], x[2], x[3]);
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (column + e < p->d_v)
            x[e] = __ldcg(part + column + e);
    return make_float4(x[0], x[1], x[2], x[3]);
}

/* The log-sum of a part; -inf, which has no weight, if the part does not exist. */
DEVICE float load_lse(const float *lse, unsigned rows, int split, int parts) {
    return split < parts ? __ldcg(lse + (long long)split * rows) : -INFINITE;
}

/* The total weight of all parts in *m: the largest log-sum, and the sum of 2^(lse -
 * largest). */
DEVICE void weigh_parts(merged_row *m, const float *lse, unsigned rows, float own, int parts) {
    const int lane = threadIdx.x % 32;
    float top = own;
#pragma unroll 1
    for (int split = lane + 32; split < parts; split += 32)
        top = fmaxf(top, load_lse(lse, rows, split, parts));
    top = warp_max(top);
    m->top = top == -INFINITE ? 0.0f : top;
    m->sum = exp2_fast(own - m->top);
#pragma unroll 1
    for (int split = lane + 32; split < parts; split += 32)
        m->sum += exp2_fast(load_lse(lse, rows, split, parts) - m->top);
    m->sum = warp_sum(m->sum);
}

/* The factor for a part's O; negative if the part has no keys, in which case its O is
 * undefined. */
DEVICE float part_weight(float lse, float top) {
    return lse == -INFINITE ? -1.0f : exp2_fast(lse - top);
}

DEVICE void add_part(float4 *to, float weight, float4 x) {
    if (!(weight < 0.0f))
        add_weighed(to, weight, x);
}

/* The position in the problem of a row of the parts. */
typedef struct row_place {
    int batch, head, i;
} row_place;

DEVICE row_place place_of(const att_fwd_params *p, unsigned row) {
    const unsigned pair = divide(row, &p->by_seq_q), batch = divide(pair, &p->by_heads_q);
    return {(int)batch, (int)(pair - batch * p->heads_q), (int)(row - pair * p->seq_q)};
}

/* Combine several rows in one warp. With many rows, throughput depends on how many loads are in
 * flight. */
DEVICE void combine_rows(const att_fwd_params *p, unsigned row0, unsigned rows) {
    const int lane = threadIdx.x % 32;
    const long long stride = (long long)rows * p->d_v;
    const float *lse[ROWS], *o[ROWS];
    float own[ROWS], weight[ROWS];
    merged_row m[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const unsigned row = min(row0 + r, rows - 1); /* repeats the last row past the end */
        lse[r] = p->partial_lse + row;
        o[r] = p->partial_o + (long long)row * p->d_v;
        own[r] = load_lse(lse[r], rows, lane, p->splits);
        m[r] = {0.0f, 0.0f, {}};
        weight[r] = 0.0f;
    }
#pragma unroll 1
    for (int first = 0; first < p->splits; first += BATCH_OF_ROWS) {
        float4 x[ROWS][BATCH_OF_ROWS][QUADS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
#pragma unroll
            for (int n = 0; n < BATCH_OF_ROWS; n++)
#pragma unroll
                for (int g = 0; g < QUADS; g++)
                    x[r][n][g] = first + n < p->splits ? load_quad(p, o[r] + (first + n) * stride, 4 * lane + 128 * g)
                                                       : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (first == 0)
                weigh_parts(&m[r], lse[r], rows, own[r], p->splits);
            if (first % 32 == 0)
                weight[r] = part_weight(first == 0 ? own[r] : load_lse(lse[r], rows, first + lane, p->splits), m[r].top);
#pragma unroll
            for (int n = 0; n < BATCH_OF_ROWS; n++)
#pragma unroll
                for (int g = 0; g < QUADS; g++)
                    add_part(&m[r].o[g], __shfl_sync(0xffffffffu, weight[r], first + n), x[r][n][g]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const row_place at = place_of(p, min(row0 + r, rows - 1));
        const sequence s = sequence_of(p, at.batch);
        finish_row(p, &s, at.head, at.i, &m[r], row0 + r < rows && at.i < s.len_q ? p->d_v : 0);
    }
}

/* Combine the parts of one row and write it; with 0 `parts`, do everything except the writes.
 * All warps of a team must call this together. */
DEVICE void combine_row(const att_fwd_params *p, unsigned row, int member, int team, int parts) {
    __shared__ float4 of_warp[2][WARPS][QUADS][32]; /* for the call without parts; with parts */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned rows = p->batch * p->heads_q * p->seq_q;
    const row_place at = place_of(p, row);
    const sequence s = sequence_of(p, at.batch);
    const long long stride = (long long)rows * p->d_v;
    const float *lse = p->partial_lse + row, *o = p->partial_o + (long long)row * p->d_v;

    const float own = load_lse(lse, rows, lane, parts);
    merged_row m = {0.0f, 0.0f, {}};
    float weight = 0.0f; /* of the part whose number is the lane's, modulo 32 */
    int first = 0;
    do {
        /* The loads of the parts are in flight while the weights are computed. */
        float4 x[BATCH][QUADS];
#pragma unroll
        for (int n = 0; n < BATCH; n++)
#pragma unroll
            for (int g = 0; g < QUADS; g++) {
                const int split = first + member + n * team;
                x[n][g] = split < parts ? load_quad(p, o + split * stride, 4 * lane + 128 * g)
                                        : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        if (first == 0)
            weigh_parts(&m, lse, rows, own, parts);
        if (first % 32 == 0)
            weight = part_weight(first == 0 ? own : load_lse(lse, rows, first + lane, parts), m.top);
#pragma unroll
        for (int n = 0; n < BATCH; n++)
#pragma unroll
            for (int g = 0; g < QUADS; g++)
                add_part(&m.o[g], __shfl_sync(0xffffffffu, weight, first + member + n * team), x[n][g]);
        first += BATCH * team;
    } while (first < parts);

    if (team > 1) {
#pragma unroll
        for (int g = 0; g < QUADS; g++)
            of_warp[parts > 0][warp][g][lane] = m.o[g];
        __syncthreads();
        if (member > 0)
            return;
#pragma unroll
        for (int n = 1; n < WARPS; n++)
#pragma unroll
            for (int g = 0; g < QUADS; g++)
                add_weighed(&m.o[g], 1.0f, of_warp[parts > 0][n][g][lane]);
    }
    finish_row(p, &s, at.head, at.i, &m, parts > 0 && at.i < s.len_q ? p->d_v : 0);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 5)
    KERNEL(const __grid_constant__ att_fwd_params params) {
    const att_fwd_params *p = &params;
    const int warp = threadIdx.x / 32;
    const int team = p->row_warps; /* 0, 1 or WARPS */
    const unsigned rows = p->batch * p->heads_q * p->seq_q;
    if (team == 0) {
        const unsigned row0 = (blockIdx.x * WARPS + warp) * ROWS;
        wait_for_previous_kernel();
        allow_next_kernel();
        if (row0 < rows)
            combine_rows(p, row0, rows);
        return;
    }
    const unsigned row = blockIdx.x * (WARPS / team) + warp / team;
    if (row >= rows)
        return;
    /* Run twice. The first pass has no parts, while they are still being computed, and brings
     * code and parameters into the SM's caches. */
    int parts = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        asm volatile("" : "+r"(parts)); /* keeps the compiler from duplicating the body */
        combine_row(p, row, warp % team, team, parts);
        if (pass == 0) {
            wait_for_previous_kernel();
            allow_next_kernel();
            parts = p->splits;
        }
    }
}
