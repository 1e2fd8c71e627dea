/* fwd_combine.cu: the parts of rows whose keys were split become rows
 * COMPUTES O = sum_s 2^(lse_s - lse) O_s, lse = log2 sum_s 2^lse_s, and the sink's weight; row_warps warps a row
 * THREADS  32 * WARPS; the warps of a row sum every row_warps-th part each, a lane every 32nd column; then one sums the warps
 * SMEM     WARPS x (D_V + 1) float32
 * FLOW     the block starts while the kernel that made the parts still ends, then waits for it
 * NUMERICS float32, always in the same order: the same bits every time; a row that is not finite is redone in float64
 * LIMITS   d_v <= D_V */
#include "kernels/programmatic_launch.cuh"
#include "kernels/reduce.cuh"
#include "kernels/second_look.cuh"

#define COLUMNS (D_V / 32) /* of O a lane */

#define EARLY   8          /* parts of a warp that are loaded first */

/* Column `column` of a part; 0 where there is none. */
DEVICE float part_of(const att_fwd_params *p, unsigned rows, unsigned row, int split, int column) {
    return split < p->splits && column < p->d_v
               ? p->partial_o[((long long)split * rows + row) * p->d_v + column]
               : 0.0f;
}

DEVICE float lse_of(const att_fwd_params *p, unsigned rows, unsigned row, int split) {
    return p->partial_lse[(long long)split * rows + row];
}

static_assert(D_V % 32 == 0, "the lanes hold whole columns");
static_assert(EARLY * WARPS <= 32, "a lane knows the weight of every early part");

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
    KERNEL(const __grid_constant__ att_fwd_params params) {
    __shared__ float part[WARPS][D_V + 1];
    const att_fwd_params *p = &params;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int team = p->row_warps, member = warp % team; /* team: 1 or WARPS */
    const unsigned rows = p->batch * p->heads_q * p->seq_q, row = blockIdx.x * (WARPS / team) + warp / team;
    if (row >= rows)
        return;
    const unsigned pair = divide(row, &p->by_seq_q);
    const int i = row - pair * p->seq_q, batch = divide(pair, &p->by_heads_q), head = pair - batch * p->heads_q;
    wait_for_previous_kernel();
    const sequence s = sequence_of(p, batch);
    if (i >= s.len_q)
        return;

    /* The first parts are under way while the weights are worked out. */
    float early[EARLY][COLUMNS];
#pragma unroll
    for (int n = 0; n < EARLY; n++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            early[n][c] = part_of(p, rows, row, member + n * team, lane + 32 * c);

    const float mine = lane < p->splits ? lse_of(p, rows, row, lane) : -INFINITE;
    float top = mine;
    bool sound = mine == mine;
    for (int split = lane + 32; split < p->splits; split += 32) {
        const float lse = lse_of(p, rows, row, split);
        sound = sound && lse == lse;
        top = fmaxf(top, lse);
    }
    sound = __all_sync(0xffffffffu, sound);
    top = warp_max(top);
    const float base = top == -INFINITE ? 0.0f : top;

    float sum = 0.0f, o[COLUMNS] = {0.0f};
#pragma unroll
    for (int n = 0; n < EARLY; n++) {
        const int split = member + n * team; /* below 32; a lane past the last holds -inf, which weighs 0 */
        const float weight = exp2_fast(__shfl_sync(0xffffffffu, mine, split) - base);
        sum += weight;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            o[c] += weight * early[n][c];
    }
#pragma unroll 2
    for (int split = member + EARLY * team; split < p->splits; split += team) {
        const float weight = exp2_fast(lse_of(p, rows, row, split) - base);
        sum += weight;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            o[c] += weight * part_of(p, rows, row, split, lane + 32 * c);
    }
    if (team > 1) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            part[warp][lane + 32 * c] = o[c];
        if (lane == 0)
            part[warp][D_V] = sum;
        __syncthreads();
        if (member > 0)
            return;
        for (int w = 1; w < WARPS; w++) {
            sum += part[w][D_V];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
                o[c] += part[w][lane + 32 * c];
        }
    }

    float lse = sum > 0.0f ? base + log2_fast(sum) : -INFINITE;
    const float scale = (sum > 0.0f ? 1.0f / sum : 0.0f) * add_sink(p, head, &lse);
    const long long out = query_offset(p, &s, &p->o_stride, head, i);
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
        if (lane + 32 * c < p->d_v) {
            sound = sound && fabsf(o[c] * scale) < INFINITE;
            store_from_float(p->o, out + lane + 32 * c, p->dtype_o, o[c] * scale);
        }
    if (p->lse && lane == 0)
        p->lse[query_offset(p, &s, &p->lse_stride, head, i)] = lse * LN_2;
    const bool lost = sum == 0.0f && visible_hi(p, &s, i) > visible_lo(p, &s, i);
    if (__any_sync(0xffffffffu, !sound || lost))
        second_look(p, batch, head, i);
}
