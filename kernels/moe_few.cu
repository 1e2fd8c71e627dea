/* moe_few.cu: routes few tokens, and computes the first product of a layer of experts and the
 * activation
 * COMPUTES ids, weights and counts of experts; h = act(W1 x + b1, W3 x + b3) for every slot.
 *          Persistent warps take (tile of up to TILE_M slots of an expert, column of h) in turn, or
 *          two columns without a gate
 * TILE     TILE_M slots x two rows of weights: gate and up of a column
 * THREADS  32 * WARPS; they route together; after that warps share nothing
 * SMEM     keys and lists of route_warps tokens | ids and weights of slots | counts of experts |
 *          table of tiles
 * FLOW     Every block selects the experts of all tokens by itself, and makes the same tiles of
 *          them: nobody waits for another block. Block 0 also weighs them, and writes what the
 *          caller and moe_few_down read; it multiplies nothing.
 *          A warp loads STAGES chunks of 256 columns of its two rows, 16 bytes per lane, and
 *          multiplies them by the same columns of x, which stay in L1. The warps of an SM keep
 *          memory busy. At the end it asks L2 for the first rows of the second product
 * NUMERICS float32 sums, h rounded to DTYPE. A row depends only on its token and the weights,
 *          not on the other slots of its tile
 * LIMITS   float16 and bfloat16; weights stored as (columns, depth); rows of x and of weights
 *          are whole vectors of 16 bytes; a slot per thread of a block
 * WHY      with few tokens time is that of reading the weights. Memory serves 512 consecutive
 *          bytes faster than rows of 64 bytes, as tiles for the tensor cores have them. Routing
 *          in a kernel of its own would cost a launch and the way of its results through memory */
#include "kernels/convert.cuh"
#include "kernels/moe_activation.cuh"
#include "kernels/moe_few_rows.cuh"
#include "kernels/moe_gate.cuh"
#include "kernels/moe_route_block.cuh"
#include "kernels/programmatic_launch.cuh"

/* The column of h of row r of an item, and whether the row belongs to `up`. */
DEVICE int column_of(const att_moe_params *p, int step, int r, bool *is_up) {
    *is_up = p->flags & ATT_MOE_GATED && r;
    return p->flags & ATT_MOE_GATED ? step : 2 * step + r;
}

DEVICE const half_bits *weights_of(const att_moe_params *p, int expert, int step, int r) {
    bool is_up;
    const int c = column_of(p, step, r, &is_up);
    const att_moe_matrix *m = is_apart(p, is_up) ? &p->w3 : &p->w1;
    return (const half_bits *)m->base + expert * m->expert + weight_row(p, c, is_up) * m->row;
}

DEVICE float bias_of(const att_moe_params *p, int expert, int step, int r) {
    bool is_up;
    const int c = column_of(p, step, r, &is_up);
    return gate_bias(p, expert, c, is_up);
}

DEVICE int row_of(const att_moe_params *p, int slot) {
    return slot / p->k;
}

DEVICE void finish(const att_moe_params *p, const few_operands *o, const few_item *item, float2 sum) {
    const long long row = item->slot * p->h_pitch;
    (void)o;
    if (p->flags & ATT_MOE_GATED)
        store_from_float(p->h, row + item->step, DTYPE, activate(p, sum.x, sum.y));
    else
        *(unsigned *)((half_bits *)p->h + row + 2 * item->step) =
            pack_16(DTYPE, activate(p, sum.x, 0.0f), activate(p, sum.y, 0.0f));
}

/* The block's shared memory. */
typedef struct few_room {
    float *tokens; /* few_words words per token that is routed */
    int *ids;      /* per slot; -1: no expert */
    float *weights;
    int *counts;     /* per expert; last, bad ids */
    int *tile_count; /* followed by the table */
    few_tile *table;
} few_room;

DEVICE few_room room_of(const att_moe_params *p, char *shared) {
    const int slots = p->tokens * p->k;
    few_room room;
    room.tokens = (float *)shared;
    room.ids = (int *)room.tokens + p->route_warps * p->few_words;
    room.weights = (float *)(room.ids + slots);
    room.counts = (int *)(room.weights + slots);
    room.tile_count = room.counts + p->experts + 1;
    room.table = (few_tile *)(room.tile_count + 1);
    return room;
}

DEVICE bool is_clerk(void) {
    return blockIdx.x == 0;
}

/* Route up to route_warps tokens, all warps together. */
DEVICE void route_together(const att_moe_params *p, const few_room *room, int first, int count) {
    const int warp = threadIdx.x / 32, parts = (list_count(p) * p->k + ENTRIES - 1) / ENTRIES;
    for (int t = 0; t < count; t++) {
        const block_room own = block_room_at(p, room->tokens + t * p->few_words);
        if (!is_masked(p, first + t))
            list_experts(p, first + t, &own);
    }
    __syncthreads();
    for (int i = warp; i < count * parts; i += WARPS) {
        const int t = i / parts, slot0 = (first + t) * p->k;
        const block_room own = block_room_at(p, room->tokens + t * p->few_words);
        if (!is_masked(p, first + t))
            merge_lists(p, &own, i % parts, room->ids + slot0, room->weights + slot0);
        else if (i % parts == 0)
            route_nowhere(p, room->ids + slot0, room->weights + slot0);
    }
}

/* The same, a warp per token: any number of experts and groups, and ids that are given. */
DEVICE void route_alone(const att_moe_params *p, const few_room *room, int first, int count) {
    const int warp = threadIdx.x / 32, token = first + warp;
    if (warp >= count)
        return;
    const token_room own = room_at(p, room->tokens + warp * p->few_words, room->ids + token * p->k, room->weights + token * p->k);
    if (is_masked(p, token))
        route_nowhere(p, own.ids, own.weights);
    else if (p->routing == ATT_MOE_BY_CALLER)
        route_as_given(p, (long long)token * p->k, &own, is_clerk() ? room->counts : nullptr);
    else
        select_any(p, token, &own);
}

/* Weigh the experts of the same tokens. Logits, whose softmax the weights may be shares of, are
 * where a token's room begins. */
DEVICE void weigh_tokens(const att_moe_params *p, const few_room *room, int first, int count) {
    const int warp = threadIdx.x / 32, token = first + warp;
    __syncthreads();
    if (warp < count && p->routing != ATT_MOE_BY_CALLER && !is_masked(p, token))
        weigh_values(p, room->tokens + warp * p->few_words, room->weights + token * p->k);
}

/* Ids of all slots; in block 0 also weights, and the number of bad ids. */
DEVICE void route_tokens(const att_moe_params *p, const few_room *room) {
    if (is_clerk()) {
        for (int e = threadIdx.x; e <= p->experts; e += THREADS)
            room->counts[e] = 0;
        __syncthreads();
    }
    const bool together = is_for_block(p); /* two loops, so that neither prepares the other's work */
    for (int first = 0; together && first < p->tokens; first += p->route_warps) {
        const int count = min(p->route_warps, p->tokens - first);
        route_together(p, room, first, count);
        if (is_clerk())
            weigh_tokens(p, room, first, count);
        __syncthreads();
    }
    for (int first = 0; !together && first < p->tokens; first += p->route_warps) {
        const int count = min(p->route_warps, p->tokens - first);
        route_alone(p, room, first, count);
        if (is_clerk())
            weigh_tokens(p, room, first, count);
        __syncthreads();
    }
}

/* Put the slots of an expert into tiles, which are in the order of their first slots. The slots of
 * a single token are tiles by themselves. Called by one warp. */
DEVICE void group_slots(const att_moe_params *p, const few_room *room) {
    const int lane = threadIdx.x % 32, slots = p->tokens * p->k;
    const int *ids = room->ids;
    int before = 0;
    for (int first = 0; first < slots; first += 32) {
        const int slot = first + lane, id = slot < slots ? ids[slot] : -1;
        int rank = 0;
        for (int other = 0; p->tokens > 1 && other < slot && other < slots; other++)
            rank += ids[other] == id;
        const bool leads = is_here(p, id) && rank % TILE_M == 0;
        const unsigned leaders = __ballot_sync(0xffffffffu, leads);
        if (leads) {
            few_tile *tile = room->table + before + __popc(leaders & ((1u << lane) - 1));
            int count = 0;
            tile->expert = id - p->first_expert;
            tile->slots[count++] = slot;
            for (int other = slot + 1; p->tokens > 1 && other < slots && count < TILE_M; other++)
                if (ids[other] == id)
                    tile->slots[count++] = other;
            tile->count = count;
        }
        before += __popc(leaders);
    }
    if (lane == 0)
        *room->tile_count = before;
}

/* Block 0 writes what the caller and moe_few_down read. */
DEVICE void publish(const att_moe_params *p, const few_room *room) {
    for (int slot = threadIdx.x; slot < p->tokens * p->k; slot += THREADS) {
        const int id = room->ids[slot];
        const float weight = room->weights[slot];
        if (id >= 0)
            atomicAdd(&room->counts[id], 1);
        p->slot_ids[slot] = id;
        p->slot_weights[slot] = weight;
        if (p->ids)
            p->ids[slot] = id;
        if (p->weights)
            p->weights[slot] = weight;
    }
    const int words = 1 + *room->tile_count * (int)(sizeof(few_tile) / sizeof(int));
    for (int i = threadIdx.x; i < words; i += THREADS)
        p->few_table[i] = room->tile_count[i];
    __syncthreads();
    for (int e = threadIdx.x; p->counts && e <= p->experts; e += THREADS)
        p->counts[e] = room->counts[e];
}

/* Ask L2 for the first columns of the rows of w2 with which the warp of the same number begins in
 * moe_few_down, of its first two items: memory has work until its blocks are there. A row per
 * lane. */
DEVICE void ask_for_second(const att_moe_params *p, const few_room *room) {
#if __CUDA_ARCH__ >= 900
    const int lane = threadIdx.x % 32;
    if (lane >= 4 || (int)blockIdx.x >= p->few_blocks)
        return;
    const few_share share = share_of(p, blockIdx.x);
    const int number = threadIdx.x / 32 + lane / 2 * WARPS, tile = number / share.steps;
    if (tile >= *room->tile_count)
        return;
    const half_bits *row = second_weights(p, room->table[tile].expert, share.first + number % share.steps, lane % 2);
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row), "r"(2 * min(p->inner, STAGES * CHUNK)) : "memory");
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) KERNEL(const __grid_constant__ att_moe_params params) {
    extern __shared__ __align__(16) char shared[];
    const att_moe_params *p = &params;
    const few_room room = room_of(p, shared);
    wait_for_previous_kernel();
    allow_next_kernel();
    route_tokens(p, &room);
    if (threadIdx.x / 32 == 0)
        group_slots(p, &room);
    __syncthreads();
    if (is_clerk()) {
        publish(p, &room);
    } else {
        few_operands o = {};
        o.base = p->x;
        o.pitch = p->x_row;
        o.depth = p->hidden;
        o.table = room.table;
        o.tiles = *room.tile_count;
        o.steps = p->up_steps;
        o.number = (int)(blockIdx.x - 1) * WARPS + (int)threadIdx.x / 32;
        o.stride = (int)(gridDim.x - 1) * WARPS;
        multiply_items(p, &o);
    }
    ask_for_second(p, &room);
}
