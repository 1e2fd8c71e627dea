/* moe_route_block.cuh: a block selects the experts of a few tokens, all of its warps together.
 *
 * Expert e is lane e % 32 of warp e / 32, which also is its group where there are groups. A warp
 * ranks its experts by counting how many come before each, and lists the best k. Then every entry
 * of the lists counts the entries of the other lists that come before it. There are no rounds, in
 * which every instruction would wait for the one before it. Keys are those of att_route_key plus
 * one; 0: nobody. Of equal keys the one in the lower lane, or in the list of the lower warp, comes
 * first: it has the lower id. */
#ifndef ATT_MOE_ROUTE_BLOCK_CUH
#define ATT_MOE_ROUTE_BLOCK_CUH

#include "kernels/moe_route_token.cuh"

/* Words of a list: its keys are read four at a time. */
#define LIST_WORDS(p) (((p)->k + 3) / 4 * 4)

/* Storage for a token, at a multiple of 16 bytes. */
typedef struct block_room {
    float *values;   /* per lane of a warp with experts: what an expert's weight is computed from, */
    unsigned *keys;  /* and its key */
    unsigned *lists; /* per such warp, LIST_WORDS keys, best first */
    int *ids;        /* per entry of the lists */
    unsigned *group; /* keys of groups */
} block_room;

DEVICE int list_count(const att_moe_params *p) {
    return (p->experts + 31) / 32;
}

/* A list per warp, and groups that are warps. */
DEVICE bool is_for_block(const att_moe_params *p) {
    return p->experts <= 32 * WARPS && p->k <= 32 && (p->groups == 1 || p->experts == 32 * p->groups) &&
           p->routing != ATT_MOE_BY_CALLER;
}

DEVICE block_room block_room_at(const att_moe_params *p, float *words) {
    const int lists = list_count(p);
    block_room room;
    room.values = words;
    room.keys = (unsigned *)words + 32 * lists;
    room.lists = room.keys + 32 * lists;
    room.ids = (int *)room.lists + lists * LIST_WORDS(p);
    room.group = (unsigned *)room.ids + lists * LIST_WORDS(p);
    return room;
}

/* How many of four keys are larger than `key`. */
DEVICE int larger_of(uint4 four, unsigned key) {
    return (four.x > key) + (four.y > key) + (four.z > key) + (four.w > key);
}

/* The key of the warp's group: the sum of its two best scores. */
DEVICE unsigned key_of_group(unsigned key) {
    const int lane = threadIdx.x % 32;
    const unsigned first = __reduce_max_sync(0xffffffffu, key);
    const unsigned who = __reduce_min_sync(0xffffffffu, key == first ? lane : 32u);
    const unsigned second = __reduce_max_sync(0xffffffffu, lane == (int)who ? 0u : key);
    return att_route_key(ATT_ROUTE_ADD(score_of_key(first), score_of_key(second))) + 1;
}

/* How many of the warp's keys come before this lane's, which is not 0. Equal keys count in lower
 * lanes: in whole vectors of them, and among the lane's own four. */
DEVICE int rank_in_warp(const unsigned *keys, unsigned key) {
    const int lane = threadIdx.x % 32;
    const uint4 own = *(const uint4 *)(keys + lane / 4 * 4);
    int rank = (lane % 4 > 0 && own.x == key) + (lane % 4 > 1 && own.y == key) + (lane % 4 > 2 && own.z == key);
#pragma unroll
    for (int i = 0; i < 32; i += 4)
        rank += larger_of(*(const uint4 *)(keys + i), key - (i + 4 <= lane));
    return rank;
}

/* The list of this warp for a token. */
DEVICE void list_experts(const att_moe_params *p, int token, const block_room *room) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, e = threadIdx.x;
    if (warp >= list_count(p))
        return;
    unsigned key = 0;
    if (e < p->experts) {
        float value;
        key = att_route_key(score_of(p, token, e, &value)) + 1;
        room->values[e] = value;
    }
    room->keys[e] = key;
    if (lane < LIST_WORDS(p))
        room->lists[warp * LIST_WORDS(p) + lane] = 0;
    __syncwarp();
    if (p->groups > 1) {
        const unsigned group = key_of_group(key);
        if (lane == 0)
            room->group[warp] = group;
    }
    const int rank = rank_in_warp(room->keys + 32 * warp, key);
    if (key && rank < p->k) {
        room->lists[warp * LIST_WORDS(p) + rank] = key;
        room->ids[warp * LIST_WORDS(p) + rank] = e;
    }
}

/* Which lists belong to groups that are kept: a bit each. */
DEVICE unsigned kept_lists(const att_moe_params *p, const block_room *room) {
    const int lane = threadIdx.x % 32;
    if (p->groups == 1)
        return ~0u;
    const unsigned own = lane < p->groups ? room->group[lane] : 0;
    int better = 0;
#pragma unroll
    for (int other = 0; other < WARPS; other++) {
        const unsigned key = other < p->groups ? room->group[other] : 0;
        better += key > own || (key == own && other < lane);
    }
    return __ballot_sync(0xffffffffu, lane < p->groups && better < p->groups_kept);
}

#define ENTRIES 8 /* that a warp sees to at a time, with four lanes each */

/* The ids of a token, best first, and the values of its weights: those entries of the lists that
 * have fewer than k before them. A warp sees to the part-th ENTRIES of them. */
DEVICE void merge_lists(const att_moe_params *p, const block_room *room, int part, int *ids, float *weights) {
    const unsigned kept = kept_lists(p, room);
    const int lane = threadIdx.x % 32, lists = list_count(p), words = LIST_WORDS(p);
    const int entry = part * ENTRIES + lane / 4, list = entry / p->k, place = entry % p->k;
    const unsigned key = list < lists && kept >> list & 1 ? room->lists[list * words + place] : 0;
    int before = 0;
    for (int other = lane % 4; key && other < lists; other += 4)
        if (other != list && kept >> other & 1)
            for (int i = 0; i < words; i += 4)
                before += larger_of(*(const uint4 *)(room->lists + other * words + i), key - (other < list));
    before += __shfl_xor_sync(0xffffffffu, before, 1);
    before += __shfl_xor_sync(0xffffffffu, before, 2);
    const int rank = place + before;
    if (key && rank < p->k && lane % 4 == 0) {
        const int id = room->ids[list * words + place];
        ids[rank] = id;
        weights[rank] = room->values[id];
    }
}

#endif
