/* moe_few_down.cu: the second product of a layer of experts with few tokens, and its sum
 * COMPUTES y[t] = sum_j weight[t, j] (W2 h[t, j] + b2) in the order of j. A block has some steps of
 *          two columns of y, and all tiles of slots; its warps take (tile, step) in turn
 * TILE     as moe_few.cu
 * SMEM     parts of all slots for the block's steps | weights of slots | whether slots are here
 * FLOW     waits for moe_few, which has left tiles, weights and h in the workspace. The first
 *          weights are already in L2: moe_few has asked for them
 * NUMERICS float32 sums, rounded once. Experts whose weights are on other devices add nothing
 * WHY      a block that has all parts of its columns needs no other kernel to add them up */
#include "kernels/convert.cuh"
#include "kernels/moe_few_rows.cuh"
#include "kernels/programmatic_launch.cuh"

DEVICE const half_bits *weights_of(const att_moe_params *p, int expert, int step, int r) {
    return second_weights(p, expert, step, r);
}

DEVICE float bias_of(const att_moe_params *p, int expert, int step, int r) {
    return p->b2 ? load_as_float(p->b2, expert * p->b2_expert + 2 * step + r, p->dtype_bias) : 0.0f;
}

DEVICE int row_of(const att_moe_params *p, int slot) {
    (void)p;
    return slot;
}

DEVICE void finish(const att_moe_params *p, const few_operands *o, const few_item *item, float2 sum) {
    (void)p;
    o->parts[item->slot * o->steps + item->step - o->first_step] = sum;
}

DEVICE void store_columns(const att_moe_params *p, int token, int c, float2 y) {
    const long long at = token * p->y_row + c;
    if (p->flags & ATT_MOE_VECTOR_Y && p->dtype_y == DTYPE) {
        *(unsigned *)((half_bits *)p->y + at) = pack_16(DTYPE, y.x, y.y);
        return;
    }
    store_from_float(p->y, at, p->dtype_y, y.x);
    store_from_float(p->y, at + 1, p->dtype_y, y.y);
}

/* The rows of y in the block's columns. */
DEVICE void add_parts(const att_moe_params *p, const few_share *share, const float2 *parts, const float *weights, const int *here) {
    for (int i = threadIdx.x; i < p->tokens * share->steps; i += THREADS) {
        const int token = i / share->steps, step = i % share->steps;
        float2 y = make_float2(0.0f, 0.0f);
        for (int slot = token * p->k; slot < (token + 1) * p->k; slot++)
            if (here[slot]) {
                const float2 part = parts[slot * share->steps + step];
                y.x = fmaf(weights[slot], part.x, y.x);
                y.y = fmaf(weights[slot], part.y, y.y);
            }
        store_columns(p, token, 2 * (share->first + step), y);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) KERNEL(const __grid_constant__ att_moe_params params) {
    extern __shared__ __align__(16) char shared[];
    const att_moe_params *p = &params;
    const few_share share = share_of(p, blockIdx.x);
    const int slots = p->tokens * p->k, slot = threadIdx.x;
    float2 *parts = (float2 *)shared;
    float *weights = (float *)(parts + slots * share.steps);
    int *here = (int *)(weights + slots);
    allow_next_kernel();
    wait_for_previous_kernel();
    /* A thread per slot; used when the parts are there, so that nothing waits for these loads. */
    const int id = slot < slots ? p->slot_ids[slot] : -1;
    const float weight = slot < slots ? p->slot_weights[slot] : 0.0f;
    few_operands o = {};
    o.base = p->h;
    o.pitch = p->h_pitch;
    o.depth = p->inner;
    o.table = (const few_tile *)(p->few_table + 1);
    o.tiles = p->few_table[0];
    o.first_step = share.first;
    o.steps = share.steps;
    o.number = threadIdx.x / 32;
    o.stride = WARPS;
    o.parts = parts;
    multiply_items(p, &o);
    if (slot < slots) {
        here[slot] = is_here(p, id);
        weights[slot] = weight;
    }
    __syncthreads();
    add_parts(p, &share, parts, weights, here);
}
