/* moe_route.cu: routes tokens to experts, and sorts the slots by expert
 * COMPUTES ids and weights of every token, the number of slots of every expert, positions of
 *          slots, tiles of positions
 * THREADS  32 * WARPS; one warp per token, if there is room for its scores
 * SMEM     scores and groups of route_warps tokens | per expert: counts, first positions, slots
 *          before the block's
 * FLOW     SELECT: the block's tokens are routed and counted. SORT: every block adds up the
 *          counts of all blocks and gives its slots their positions. With few tokens one block
 *          does both; with many there are two launches
 * NUMERICS ids are those of kernels/moe_routing.h, to the bit. The slots of an expert have no
 *          fixed order, and nothing depends on it: a row of a product is the same in any
 *          position */
#include "kernels/moe_params.h"
#include "kernels/moe_route_token.cuh"
#include "kernels/programmatic_launch.cuh"

#define ROOM(p) (SCORES_ROOM(p) + 2 * (p)->k) /* of a warp, in words */

DEVICE void route_by_logits(const att_moe_params *p, int token, const token_room *room) {
    float top = 0.0f, sum = 1.0f;
    if (are_held(p)) {
        select_held(p, token, room, &top, &sum);
        weigh(p, room->weights, top, sum);
    } else {
        select_any(p, token, room);
        weigh_values(p, room->scores, room->weights);
    }
}

/* Route a token, count its experts, and write what later kernels and the caller read per slot. */
DEVICE void route_and_count(const att_moe_params *p, int token, const token_room *room, int *counts) {
    const long long slot0 = (long long)token * p->k;
    if (is_masked(p, token))
        route_nowhere(p, room->ids, room->weights);
    else if (p->routing == ATT_MOE_BY_CALLER)
        route_as_given(p, slot0, room, counts);
    else
        route_by_logits(p, token, room);
    __syncwarp();
    for (int j = threadIdx.x % 32; j < p->k; j += 32) {
        const int id = room->ids[j];
        const float weight = room->weights[j];
        if (id >= 0)
            atomicAdd(&counts[id], 1);
        p->slot_ids[slot0 + j] = id;
        p->slot_weights[slot0 + j] = weight;
        if (p->ids)
            p->ids[slot0 + j] = id;
        if (p->weights)
            p->weights[slot0 + j] = weight;
    }
    __syncwarp();
}

/* Route the tokens of the block and count them by expert. */
DEVICE void select_tokens(const att_moe_params *p, char *shared, int *counts) {
    const int warp = threadIdx.x / 32, begin = blockIdx.x * p->route_tokens, end = min(p->tokens, begin + p->route_tokens);
    for (int e = threadIdx.x; e <= p->experts; e += 32 * WARPS)
        counts[e] = 0;
    __syncthreads();
    if (warp < p->route_warps) {
        float *scores = (float *)shared + warp * ROOM(p), *weights = scores + SCORES_ROOM(p);
        const token_room room = room_at(p, scores, (int *)weights + p->k, weights);
        for (int token = begin + warp; token < end; token += p->route_warps)
            route_and_count(p, token, &room, counts);
    }
    __syncthreads();
    for (int e = threadIdx.x; p->route_blocks > 1 && e <= p->experts; e += 32 * WARPS)
        p->histograms[blockIdx.x * (p->experts + 1) + e] = counts[e];
}

DEVICE int sum_up_to_lane(int x) {
    const int lane = threadIdx.x % 32;
    for (int step = 1; step < 32; step *= 2) {
        const int before = __shfl_up_sync(0xffffffffu, x, step);
        x += lane >= step ? before : 0;
    }
    return x;
}

/* starts[e]: the sum of `totals` of the local experts before e, each counted in units of
 * `unit`, rounded up. Called by one warp. */
DEVICE void add_up(const att_moe_params *p, const int *totals, int unit, int *starts) {
    const int lane = threadIdx.x % 32;
    int before = 0;
    for (int first = 0; first < p->local_experts; first += 32) {
        const int e = first + lane;
        const int own = e < p->local_experts ? (totals[p->first_expert + e] + unit - 1) / unit : 0;
        const int end = before + sum_up_to_lane(own);
        if (e < p->local_experts)
            starts[e] = end - own;
        before = __shfl_sync(0xffffffffu, end, 31);
    }
    if (lane == 0)
        starts[p->local_experts] = before;
}

/* The number of slots of every expert, in all blocks and in those before this one. A single
 * block has already counted them all. */
DEVICE void add_counts(const att_moe_params *p, int *totals, int *before) {
    const int blocks = p->route_blocks > 1 ? p->route_blocks : 0;
    for (int e = threadIdx.x; e <= p->experts; e += 32 * WARPS) {
        int total = 0, mine = 0;
        if (blocks == 0)
            total = totals[e];
#pragma unroll 16
        for (int b = 0; b < blocks; b++) {
            const int count = p->histograms[b * (p->experts + 1) + e];
            mine += b < (int)blockIdx.x ? count : 0;
            total += count;
        }
        totals[e] = total;
        before[e] = mine;
    }
}

/* Write what later kernels and the caller read per expert. */
DEVICE void publish(const att_moe_params *p, const int *totals, const int *starts, const int *tile_starts) {
    for (int e = threadIdx.x; e <= p->local_experts; e += 32 * WARPS) {
        p->starts[e] = starts[e];
        p->tile_starts[e] = tile_starts[e];
        for (int tile = tile_starts[e]; e < p->local_experts && tile < tile_starts[e + 1]; tile++)
            p->tile_experts[tile] = e;
    }
    for (int e = threadIdx.x; p->counts && e <= p->experts; e += 32 * WARPS)
        p->counts[e] = totals[e];
    if (threadIdx.x < 2)
        p->counters[threadIdx.x] = 0;
}

/* Assign positions to the slots of the block. */
DEVICE void sort_slots(const att_moe_params *p, int *totals, int *starts, int *tile_starts, int *before) {
    add_counts(p, totals, before);
    __syncthreads();
    if (threadIdx.x / 32 == 0)
        add_up(p, totals, 1, starts);
    else if (threadIdx.x / 32 == 1)
        add_up(p, totals, p->tile_rows, tile_starts);
    __syncthreads();
    if (blockIdx.x == 0)
        publish(p, totals, starts, tile_starts);
    const int begin = blockIdx.x * p->route_tokens, end = min(p->tokens, begin + p->route_tokens);
    for (unsigned slot = begin * p->k + threadIdx.x; slot < (unsigned)(end * p->k); slot += 32 * WARPS) {
        const int id = p->slot_ids[slot], e = id - p->first_expert;
        if (id >= 0 && e >= 0 && e < p->local_experts)
            p->slot_at[starts[e] + atomicAdd(&before[id], 1)] = (int)slot;
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) KERNEL(const __grid_constant__ att_moe_params params) {
    extern __shared__ __align__(16) char shared[];
    const att_moe_params *p = &params;
    wait_for_previous_kernel();
    allow_next_kernel();
    int *totals = (int *)shared + p->route_warps * ROOM(p);
    int *starts = totals + p->experts + 1, *tile_starts = starts + p->experts + 1, *before = tile_starts + p->experts + 1;
    if (p->phases & ATT_MOE_SELECT)
        select_tokens(p, shared, totals);
    if (p->phases & ATT_MOE_SORT)
        sort_slots(p, totals, starts, tile_starts, before);
}
