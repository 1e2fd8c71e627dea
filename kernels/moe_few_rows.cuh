/* moe_few_rows.cuh: products of experts with few tokens: a warp multiplies two rows of weights by
 * up to TILE_M rows of x or h, one per slot.
 *
 * A load of a warp reads 512 consecutive bytes of a row, which memory serves fastest; so lane l
 * has columns 8 l .. 8 l + 7 of a chunk. For the tensor cores, the eight groups of four lanes
 * are eight rows of 32 columns, and a row of x is loaded the same way, as eight columns of 32
 * rows. Of the 8 x 8 results only the diagonal is used: a group's columns times the same columns
 * of x. Its sum is the product of the rows. */
#ifndef ATT_MOE_FEW_ROWS_CUH
#define ATT_MOE_FEW_ROWS_CUH

#include "kernels/mma.cuh"
#include "kernels/moe_params.h"
#include "kernels/reduce.cuh"

#define THREADS (32 * WARPS)
#define BLOCKS  (ATT_MOE_FEW_WARPS / WARPS)
#define CHUNK   256

/* Up to TILE_M slots of an expert, which is counted from first_expert. */
typedef struct few_tile {
    int expert, count, slots[TILE_M];
} few_tile;

/* What a warp multiplies: rows of `base` by items number, number + stride, ... of tiles x steps.
 * A step is two rows of weights. */
typedef struct few_operands {
    const void *base;
    long long pitch;
    int depth;
    const few_tile *table;
    int tiles, first_step, steps, number, stride;
    float2 *parts; /* per slot and step, of the second product */
} few_operands;

/* An item of a warp: a tile times two rows of weights. Lane t has the t-th slot of the tile, and
 * the row to multiply by. */
typedef struct few_item {
    int expert, step, count, slot, row;
} few_item;

/* The including file defines these: row r, 0 or 1, of the weights of a step, and its bias; the row
 * of a slot; and what to do with the sums of the lane's slot. Columns are a multiple of eight, so
 * there are always two rows. */
DEVICE const half_bits *weights_of(const att_moe_params *p, int expert, int step, int r);
DEVICE float bias_of(const att_moe_params *p, int expert, int step, int r);
DEVICE int row_of(const att_moe_params *p, int slot);
DEVICE void finish(const att_moe_params *p, const few_operands *o, const few_item *item, float2 sum);

DEVICE bool is_here(const att_moe_params *p, int id) {
    return id >= p->first_expert && id - p->first_expert < p->local_experts;
}

/* The steps of a block of the second product: all tiles, so that it can add up a token's parts. */
typedef struct few_share {
    int first, steps;
} few_share;

DEVICE few_share share_of(const att_moe_params *p, int block) {
    const int first = (int)((long long)block * p->down_steps / p->few_blocks);
    const few_share share = {first, (int)((block + 1LL) * p->down_steps / p->few_blocks) - first};
    return share;
}

DEVICE const half_bits *second_weights(const att_moe_params *p, int expert, int step, int r) {
    return (const half_bits *)p->w2.base + expert * p->w2.expert + (2 * step + r) * p->w2.row;
}

DEVICE int step_of(const few_operands *o, int number) {
    return o->first_step + number % o->steps;
}

DEVICE few_item item_of(const att_moe_params *p, const few_operands *o, int number, int expert) {
    const few_tile *tile = o->table + number / o->steps;
    const int lane = threadIdx.x % 32;
    few_item item;
    item.expert = expert;
    item.step = step_of(o, number);
    item.count = tile->count;
    item.slot = lane < item.count ? tile->slots[lane] : 0;
    item.row = row_of(p, item.slot);
    return item;
}

typedef uint4 weights_batch[STAGES][2];

/* Load STAGES chunks of the two rows. The lane is read again: the compiler would keep the
 * addresses of all chunks relative to all matrices, and have no registers left for the rows of
 * x. */
DEVICE void load_weights(weights_batch w, const half_bits *const rows[2], int column, int depth) {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
#pragma unroll
    for (int n = 0; n < STAGES; n++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int c = column + n * CHUNK + lane * 8;
            w[n][r] = c < depth ? __ldcs((const uint4 *)(rows[r] + c)) : make_uint4(0, 0, 0, 0);
        }
}

/* Sums of a tile, two of each: a product waits for the one before it on the same sum. */
typedef float few_sums[TILE_M][2][4];

/* Add the products of a batch with the same columns of a slot's row, which stay in L1. */
DEVICE void multiply_row(float sum[2][4], const weights_batch w, const half_bits *row, int column, int depth) {
    uint4 x[STAGES];
#pragma unroll
    for (int n = 0; n < STAGES; n++) {
        const int c = column + n * CHUNK + threadIdx.x % 32 * 8;
        x[n] = c < depth ? *(const uint4 *)(row + c) : make_uint4(0, 0, 0, 0);
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
            multiply_row(sum[t], w, (const half_bits *)o->base + __shfl_sync(0xffffffffu, item->row, t) * o->pitch, column,
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

/* Lane t gets the sums of the t-th slot. */
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

/* All items of the warp. The next item's expert is looked up while one is multiplied, and its first
 * weights are on their way while the sums of that one are added up. */
DEVICE void multiply_items(const att_moe_params *p, const few_operands *o) {
    int number = o->number, next_expert = 0;
    if (number / o->steps < p->tokens * p->k) /* the most tiles: the lookup does not wait for their number */
        next_expert = o->table[number / o->steps].expert;
    if (number / o->steps >= o->tiles)
        return;
    const half_bits *rows[2] = {weights_of(p, next_expert, step_of(o, number), 0),
                                weights_of(p, next_expert, step_of(o, number), 1)};
    weights_batch w;
    load_weights(w, rows, 0, o->depth);
    few_item item = item_of(p, o, number, next_expert);
    for (;;) {
        number += o->stride;
        const bool more = number / o->steps < o->tiles;
        next_expert = more ? o->table[number / o->steps].expert : 0;
        const float2 bias = make_float2(bias_of(p, item.expert, item.step, 0), bias_of(p, item.expert, item.step, 1));
        few_sums sum = {};
        multiply_batch(sum, w, o, &item, 0);
#pragma unroll 1
        for (int column = STAGES * CHUNK; column < o->depth; column += STAGES * CHUNK) {
            load_weights(w, rows, column, o->depth);
            multiply_batch(sum, w, o, &item, column);
        }
        const few_item last = item;
        if (more) {
            rows[0] = weights_of(p, next_expert, step_of(o, number), 0);
            rows[1] = weights_of(p, next_expert, step_of(o, number), 1);
            load_weights(w, rows, 0, o->depth);
            item = item_of(p, o, number, next_expert);
        }
        const float2 mine = add_all(sum, last.count);
        if ((int)threadIdx.x % 32 < last.count)
            finish(p, o, &last, make_float2(mine.x + bias.x, mine.y + bias.y));
        if (!more)
            return;
    }
}

#endif
