/* moe_few_rows.cuh: products of experts with few tokens: a warp multiplies two rows of weights by
 * up to TILE_M positions.
 *
 * A load of a warp reads 512 consecutive bytes of a row, which memory serves fastest; so lane l
 * has columns 8 l .. 8 l + 7 of a chunk. For the tensor cores, the eight groups of four lanes
 * are eight rows of 32 columns, and a position is loaded the same way, as eight columns of 32
 * rows. Of the 8 x 8 results only the diagonal is used: a group's columns times the same columns
 * of the position. Its sum is the product of the rows. */
#ifndef ATT_MOE_FEW_ROWS_CUH
#define ATT_MOE_FEW_ROWS_CUH

#include "kernels/mma.cuh"
#include "kernels/moe_params.h"
#include "kernels/programmatic_launch.cuh"
#include "kernels/reduce.cuh"

#define THREADS (32 * WARPS)
#define BLOCKS  (ATT_MOE_FEW_WARPS / WARPS)
#define CHUNK   256

/* What is multiplied: the positions' rows, and the items per tile of positions. */
typedef struct few_operands {
    const void *base;
    long long pitch;
    int depth, steps;
} few_operands;

/* An item of a warp: a tile of up to TILE_M positions times two rows of weights. Lane t has the
 * slot of position t, and the row to multiply by. */
typedef struct few_item {
    int expert, step, first, count, slot, row;
} few_item;

/* The including file defines these: row r, 0 or 1, of the weights of an item, and its bias; the
 * row of a position; and what to do with the sums of the lane's position. Columns are a multiple
 * of eight, so there are always two rows. */
DEVICE const half_bits *weights_of(const att_moe_params *p, int expert, int step, int r);
DEVICE float bias_of(const att_moe_params *p, int expert, int step, int r);
DEVICE int row_of(const att_moe_params *p, int position, int slot);
DEVICE void finish(const att_moe_params *p, const few_item *item, float2 sum);

/* What moe_route wrote is read past L1: the previous kernel may not have ended yet. */
DEVICE int expert_of(const att_moe_params *p, int tile, int tiles) {
    return tile < tiles ? __ldcg(p->tile_experts + tile) : 0;
}

DEVICE few_item item_of(const att_moe_params *p, int number, int steps, int expert) {
    const int tile = number / steps, lane = threadIdx.x % 32;
    few_item item;
    item.expert = expert;
    item.step = number % steps;
    item.first = __ldcg(p->starts + expert) + (tile - __ldcg(p->tile_starts + expert)) * TILE_M;
    item.count = min(TILE_M, __ldcg(p->starts + expert + 1) - item.first);
    item.slot = lane < item.count ? __ldcg(p->slot_at + item.first + lane) : 0;
    item.row = row_of(p, item.first + lane, item.slot);
    return item;
}

typedef uint4 weights_batch[STAGES][2];

/* Load STAGES chunks of the two rows. */
DEVICE void load_weights(weights_batch w, const half_bits *const rows[2], int column, int depth) {
#pragma unroll
    for (int n = 0; n < STAGES; n++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int c = column + n * CHUNK + threadIdx.x % 32 * 8;
            w[n][r] = c < depth ? __ldcs((const uint4 *)(rows[r] + c)) : make_uint4(0, 0, 0, 0);
        }
}

/* Sums of a tile, two of each: a product waits for the one before it on the same sum. */
typedef float few_sums[TILE_M][2][4];

/* Add the products of a batch with the same columns of a position, which stay in L1. */
DEVICE void multiply_position(float sum[2][4], const weights_batch w, const half_bits *position, int column, int depth) {
    uint4 x[STAGES];
#pragma unroll
    for (int n = 0; n < STAGES; n++) {
        const int c = column + n * CHUNK + threadIdx.x % 32 * 8;
        x[n] = c < depth ? *(const uint4 *)(position + c) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int n = 0; n < STAGES; n++) {
        const uint4 a = w[n][0], b = w[n][1];
        const unsigned left[2][4] = {{a.x, b.x, a.y, b.y}, {a.z, b.z, a.w, b.w}};
        mma_16x8x16(sum[0], left[0], x[n].x, x[n].y);
        mma_16x8x16(sum[1], left[1], x[n].z, x[n].w);
    }
}

DEVICE void multiply_batch(few_sums sum, const weights_batch w, const few_operands *o, const few_item *item, int column) {
#pragma unroll
    for (int t = 0; t < TILE_M; t++)
        if (t < item->count)
            multiply_position(sum[t], w, (const half_bits *)o->base + __shfl_sync(0xffffffffu, item->row, t) * o->pitch, column,
                              o->depth);
}

/* The sum of the diagonals, for both rows. */
DEVICE float2 add_diagonals(const float sum[2][4]) {
    const int lane = threadIdx.x % 32, group = lane / 4;
    const bool here = group / 2 == lane % 4;
    const float upper = group % 2 ? sum[0][1] + sum[1][1] : sum[0][0] + sum[1][0];
    const float lower = group % 2 ? sum[0][3] + sum[1][3] : sum[0][2] + sum[1][2];
    return make_float2(warp_sum(here ? upper : 0.0f), warp_sum(here ? lower : 0.0f));
}

/* Lane t gets the sums of position t. */
DEVICE float2 add_all(const few_sums sum, int count) {
    float2 mine = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int t = 0; t < TILE_M; t++)
        if (t < count) {
            const float2 both = add_diagonals(sum[t]);
            if ((int)threadIdx.x % 32 == t)
                mine = both;
        }
    return mine;
}

/* All items of the warp. The next item is looked up while one is multiplied, and its first
 * weights are on their way while the sums of that one are added up. The first weights are loaded
 * before the previous kernel has ended, which has waited for moe_route. */
DEVICE void multiply_items(const att_moe_params *p, const few_operands *o) {
    const int tiles = __ldcg(p->tile_starts + p->local_experts), stride = gridDim.x * WARPS;
    int number = blockIdx.x * WARPS + threadIdx.x / 32;
    int next_expert = __ldcg(p->tile_experts + number / o->steps); /* not used if there is no such tile */
    if (number / o->steps >= tiles)
        return;
    const half_bits *rows[2] = {weights_of(p, next_expert, number % o->steps, 0), weights_of(p, next_expert, number % o->steps, 1)};
    weights_batch w;
    load_weights(w, rows, 0, o->depth);
    few_item item = item_of(p, number, o->steps, next_expert);
    wait_for_previous_kernel();
    for (;;) {
        number += stride;
        next_expert = expert_of(p, number / o->steps, tiles);
        const float2 bias = make_float2(bias_of(p, item.expert, item.step, 0), bias_of(p, item.expert, item.step, 1));
        few_sums sum = {};
        multiply_batch(sum, w, o, &item, 0);
#pragma unroll 1
        for (int column = STAGES * CHUNK; column < o->depth; column += STAGES * CHUNK) {
            load_weights(w, rows, column, o->depth);
            multiply_batch(sum, w, o, &item, column);
        }
        const few_item last = item;
        const bool more = number / o->steps < tiles;
        if (more) {
            rows[0] = weights_of(p, next_expert, number % o->steps, 0);
            rows[1] = weights_of(p, next_expert, number % o->steps, 1);
            load_weights(w, rows, 0, o->depth);
            item = item_of(p, number, o->steps, next_expert);
        }
        const float2 mine = add_all(sum, last.count);
        if ((int)threadIdx.x % 32 < last.count)
            finish(p, &last, make_float2(mine.x + bias.x, mine.y + bias.y));
        if (!more)
            return;
    }
}

#endif
