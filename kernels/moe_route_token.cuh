/* moe_route_token.cuh: a warp selects the experts of a token and weighs them.
 *
 * Ids are those of kernels/moe_routing.h, to the bit, whichever kernel asks. */
#ifndef ATT_MOE_ROUTE_TOKEN_CUH
#define ATT_MOE_ROUTE_TOKEN_CUH

#include "kernels/convert.cuh"
#include "kernels/math.cuh"
#include "kernels/moe_params.h"
#include "kernels/moe_routing.h"
#include "kernels/reduce.cuh"

/* A score and its owner, ordered so that the larger number comes first; of equal scores, the
 * lower id. 0: nobody. */
typedef unsigned long long rank;

DEVICE rank rank_of(unsigned key, int id) {
    return (rank)key << 32 | (unsigned)~id;
}

DEVICE int id_of(rank r) {
    return (int)~(unsigned)r;
}

DEVICE rank max_of_warp(rank r) {
    const unsigned key = (unsigned)(r >> 32), best = __reduce_max_sync(0xffffffffu, key);
    return (rank)best << 32 | __reduce_max_sync(0xffffffffu, key == best ? (unsigned)r : 0u);
}

/* A warp's storage for one token. */
typedef struct token_room {
    float *scores;   /* per expert */
    unsigned *group; /* keys of groups, */
    unsigned *kept;  /* and whether each is kept; unused with one group */
    int *ids;        /* k of each */
    float *weights;
} token_room;

#define SCORES_ROOM(p) ((p)->experts + 2 * (p)->groups) /* in words: without ids and weights */

DEVICE token_room room_at(const att_moe_params *p, float *scores, int *ids, float *weights) {
    unsigned *group = (unsigned *)scores + p->experts;
    const token_room room = {scores, group, group + p->groups, ids, weights};
    return room;
}

/* The best of this lane's scores in [begin, end), among those ranked after `below`. */
DEVICE rank best_of_scores(const float *scores, int begin, int end, rank below) {
    rank best = 0;
    for (int e = begin + threadIdx.x % 32; e < end; e += 32) {
        const rank r = rank_of(att_route_key(scores[e]), e);
        if (r < below && r > best)
            best = r;
    }
    return best;
}

DEVICE rank best_of_kept(const att_moe_params *p, const token_room *room, rank below) {
    const int size = p->experts / p->groups;
    rank best = 0;
    for (int g = 0; g < p->groups; g++) {
        if (p->groups > 1 && !room->kept[g])
            continue;
        const rank r = best_of_scores(room->scores, g * size, (g + 1) * size, below);
        best = r > best ? r : best;
    }
    return best;
}

#define EVERYBODY (~(rank)0)

/* Compute the keys of the groups, each the sum of its two best scores, and mark the best
 * groups. */
DEVICE void keep_groups(const att_moe_params *p, const token_room *room) {
    const int size = p->experts / p->groups, lane = threadIdx.x % 32;
    for (int g = 0; g < p->groups; g++) {
        const rank first = max_of_warp(best_of_scores(room->scores, g * size, (g + 1) * size, EVERYBODY));
        const rank second = max_of_warp(best_of_scores(room->scores, g * size, (g + 1) * size, first));
        if (lane == 0) {
            room->group[g] = att_route_key(ATT_ROUTE_ADD(room->scores[id_of(first)], room->scores[id_of(second)]));
            room->kept[g] = 0;
        }
    }
    __syncwarp();
    rank last = EVERYBODY;
    for (int n = 0; n < p->groups_kept; n++) {
        rank best = 0;
        for (int g = lane; g < p->groups; g += 32) {
            const rank r = rank_of(room->group[g], g);
            if (r < last && r > best)
                best = r;
        }
        last = max_of_warp(best);
        if (lane == 0)
            room->kept[id_of(last)] = 1;
    }
    __syncwarp();
}

/* Select the k best scores, best first. */
DEVICE void select_experts(const att_moe_params *p, const token_room *room) {
    if (p->groups > 1)
        keep_groups(p, room);
    rank mine = best_of_kept(p, room, EVERYBODY);
    for (int j = 0; j < p->k; j++) {
        const rank best = max_of_warp(mine);
        if (threadIdx.x % 32 == 0)
            room->ids[j] = id_of(best);
        if (mine == best)
            mine = best_of_kept(p, room, best);
    }
    __syncwarp();
}

DEVICE float logit_of(const att_moe_params *p, int token, int e) {
    return load_as_float(p->logits, token * p->logits_row + e, p->dtype_logits);
}

/* The largest of `count` logits, and the sum of weights relative to it. NaN is never the
 * largest, but makes the sum NaN. */
DEVICE float softmax_sum(const float *logits, int count, float *top) {
    float best = -INFINITE, sum = 0.0f;
    for (int i = threadIdx.x % 32; i < count; i += 32)
        best = fmaxf(best, logits[i]);
    *top = warp_max(best);
    for (int i = threadIdx.x % 32; i < count; i += 32)
        sum += att_route_weight(logits[i], *top);
    return warp_sum(sum);
}

/* The score of an expert, from its logit, *value, which becomes what its weight is computed from:
 * its sigmoid or its logit. */
DEVICE float score_of_logit(const att_moe_params *p, float *value, float correction) {
    if (p->routing != ATT_MOE_BY_SIGMOID)
        return *value;
    *value = att_route_sigmoid(*value);
    return p->correction ? ATT_ROUTE_ADD(*value, correction) : *value;
}

DEVICE float score_of(const att_moe_params *p, int token, int e, float *value) {
    *value = logit_of(p, token, e);
    return score_of_logit(p, value, p->correction ? p->correction[e] : 0.0f);
}

/* Any number of experts and groups, using shared memory. Stores ids, and values in place of
 * weights. */
DEVICE void select_any(const att_moe_params *p, int token, const token_room *room) {
    for (int e = threadIdx.x % 32; e < p->experts; e += 32) {
        float value;
        room->scores[e] = score_of(p, token, e, &value);
    }
    __syncwarp();
    select_experts(p, room);
    for (int j = threadIdx.x % 32; j < p->k; j += 32)
        score_of(p, token, room->ids[j], &room->weights[j]);
}

/* ---- The same with all scores in registers: expert e is number e / 32 of lane e % 32. Keys
 * are those of att_route_key plus one; 0: nobody. */

#define HELD 8

/* One group, or groups of 32; up to 32 * HELD experts. */
DEVICE bool are_held(const att_moe_params *p) {
    return p->experts <= 32 * HELD && (p->groups == 1 || p->experts == 32 * p->groups);
}

/* The score of a key; NaN for the key of NaN. */
DEVICE float score_of_key(unsigned key) {
    key--;
    return att_route_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* Clear the keys of groups that are not kept. A group's key is the sum of its two best. */
DEVICE void keep_held_groups(const att_moe_params *p, unsigned key[HELD]) {
    const int lane = threadIdx.x % 32;
    unsigned group[HELD];
#pragma unroll
    for (int g = 0; g < HELD; g++) {
        const unsigned first = __reduce_max_sync(0xffffffffu, key[g]);
        const unsigned who = __reduce_min_sync(0xffffffffu, key[g] == first ? lane : 32u);
        const unsigned second = __reduce_max_sync(0xffffffffu, lane == (int)who ? 0u : key[g]);
        group[g] = g < p->groups ? att_route_key(ATT_ROUTE_ADD(score_of_key(first), score_of_key(second))) + 1 : 0;
    }
#pragma unroll
    for (int g = 0; g < HELD; g++) {
        int better = 0;
#pragma unroll
        for (int other = 0; other < HELD; other++)
            better += group[other] > group[g] || (group[other] == group[g] && other < g);
        if (better >= p->groups_kept)
            key[g] = 0;
    }
}

/* Values and keys. All logits are loaded at once: they may come from memory. */
DEVICE void load_held(const att_moe_params *p, int token, float value[HELD], unsigned key[HELD]) {
    const int lane = threadIdx.x % 32, there = p->experts - lane; /* expert 32 i + lane exists if 32 i < there */
    const long long first = token * p->logits_row + lane;
    float correction[HELD];
    if (p->dtype_logits == F32) {
#pragma unroll
        for (int i = 0; i < HELD; i++)
            value[i] = 32 * i < there ? ((const float *)p->logits)[first + 32 * i] : -INFINITE;
    } else {
        half_bits raw[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++)
            raw[i] = 32 * i < there ? ((const half_bits *)p->logits)[first + 32 * i] : 0;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            value[i] = 32 * i >= there ? -INFINITE : p->dtype_logits == BF16 ? bf16_to_float(raw[i]) : f16_to_float(raw[i]);
    }
#pragma unroll
    for (int i = 0; i < HELD; i++)
        correction[i] = p->correction && 32 * i < there ? p->correction[lane + 32 * i] : 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        const float score = score_of_logit(p, &value[i], correction[i]);
        key[i] = 32 * i < there ? att_route_key(score) + 1 : 0;
    }
}

/* The largest of a lane's keys, and its number: the lowest of equal ones. By halves: a single
 * warp waits for every instruction. */
DEVICE unsigned best_held(const unsigned key[HELD], int *at) {
    unsigned best[HELD];
    int number[HELD];
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        best[i] = key[i];
        number[i] = i;
    }
#pragma unroll
    for (int step = 1; step < HELD; step *= 2)
#pragma unroll
        for (int i = 0; i + step < HELD; i += 2 * step)
            if (best[i + step] > best[i]) {
                best[i] = best[i + step];
                number[i] = number[i + step];
            }
    *at = number[0];
    return best[0];
}

DEVICE void select_held(const att_moe_params *p, int token, const token_room *room, float *top, float *sum) {
    const int lane = threadIdx.x % 32;
    float value[HELD];
    unsigned key[HELD];
    load_held(p, token, value, key);
    if (p->routing == ATT_MOE_BY_SOFTMAX_TOPK) {
        float best = -INFINITE, own = 0.0f;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            best = fmaxf(best, value[i]);
        *top = warp_max(best);
#pragma unroll
        for (int i = 0; i < HELD; i++)
            own += i * 32 + lane < p->experts ? att_route_weight(value[i], *top) : 0.0f;
        *sum = warp_sum(own);
    }
    if (p->groups > 1)
        keep_held_groups(p, key);
#pragma unroll 1
    for (int j = 0; j < p->k; j++) {
        int at;
        const unsigned best = best_held(key, &at), most = __reduce_max_sync(0xffffffffu, best);
        const int id = (int)__reduce_min_sync(0xffffffffu, best == most ? (unsigned)(at * 32 + lane) : ~0u);
        const int own = id % 32 == lane ? id / 32 : HELD; /* the number that the lane loses */
        float lost = 0.0f;
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            lost = i == own ? value[i] : lost;
            key[i] = i == own ? 0 : key[i];
        }
        if (own < HELD) {
            room->ids[j] = id;
            room->weights[j] = lost;
        }
    }
    __syncwarp();
}

/* ---- */

/* Make weights of the values of the selected experts. */
DEVICE void weigh(const att_moe_params *p, float *weights, float top, float sum) {
    float total = 0.0f;
    if (p->routing == ATT_MOE_BY_TOPK_SOFTMAX)
        sum = softmax_sum(weights, p->k, &top);
    for (int j = threadIdx.x % 32; j < p->k; j += 32) {
        const float value = weights[j];
        const float weight = p->routing == ATT_MOE_BY_SIGMOID ? value : att_route_weight(value, top) / sum;
        weights[j] = weight;
        total += weight;
    }
    total = warp_sum(total);
    for (int j = threadIdx.x % 32; j < p->k; j += 32)
        weights[j] = (p->renormalise ? weights[j] / (total + 1e-20f) : weights[j]) * p->scaling;
}

/* The same, given the values of all experts. */
DEVICE void weigh_values(const att_moe_params *p, const float *values, float *weights) {
    float top = 0.0f, sum = 1.0f;
    if (p->routing == ATT_MOE_BY_SOFTMAX_TOPK)
        sum = softmax_sum(values, p->experts, &top);
    weigh(p, weights, top, sum);
}

/* Ids out of range are treated as none; they are counted in `counts`, after the experts, unless
 * it is NULL. */
DEVICE void route_as_given(const att_moe_params *p, long long slot0, const token_room *room, int *counts) {
    for (int j = threadIdx.x % 32; j < p->k; j += 32) {
        const int id = p->given_ids[slot0 + j];
        const bool there = id >= 0 && id < p->experts;
        if (counts && !there && id != -1)
            atomicAdd(&counts[p->experts], 1);
        room->ids[j] = there ? id : -1;
        room->weights[j] = there ? p->given_weights[slot0 + j] * p->scaling : 0.0f;
    }
}

/* A token that is masked. */
DEVICE void route_nowhere(const att_moe_params *p, int *ids, float *weights) {
    for (int j = threadIdx.x % 32; j < p->k; j += 32) {
        ids[j] = -1;
        weights[j] = 0.0f;
    }
}

DEVICE bool is_masked(const att_moe_params *p, int token) {
    return p->mask && !p->mask[token];
}

#endif
