/* moe_ref_route.c: the experts of a token, by repeated search for the best remaining one. */
#include "moe/ref/moe_ref_route.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "kernels/moe_routing.h"

float att_moe_ref_logit(const att_moe_problem *p, const att_moe_args *a, int64_t t, int64_t e) {
    return att_load(a->logits, p->dtype_logits, t * p->logits_row + e);
}

bool att_moe_ref_is_local(const att_moe_problem *p, int32_t id) {
    return id >= p->first_expert && id < p->first_expert + p->local_experts;
}

/* Does score x rank before score y, where x has the higher id? */
static bool is_better(float x, float y) {
    return isnan(y) ? !isnan(x) : x > y;
}

/* The best of scores [begin, end) that are not taken; of equals, the lowest. */
static int64_t best_of(const float *scores, const float *taken, int64_t begin, int64_t end) {
    int64_t best = -1;
    for (int64_t i = begin; i < end; i++)
        if (taken[i] == 0.0f && (best < 0 || is_better(scores[i], scores[best])))
            best = i;
    return best;
}

/* Mark the experts of all groups except the best as taken. */
static void leave_groups(const att_moe_problem *p, const float *scores, float *taken) {
    const int64_t size = p->experts / p->groups;
    float sums[ATT_MOE_EXPERTS_MAX], lost[ATT_MOE_EXPERTS_MAX] = {0.0f};
    for (int64_t g = 0; g < p->groups; g++) {
        const int64_t first = best_of(scores, taken, g * size, (g + 1) * size);
        taken[first] = 1.0f;
        const int64_t second = best_of(scores, taken, g * size, (g + 1) * size);
        taken[first] = 0.0f;
        sums[g] = scores[first] + scores[second];
    }
    for (int64_t n = 0; n < p->groups_kept; n++)
        lost[best_of(sums, lost, 0, p->groups)] = 1.0f; /* marks a kept group */
    for (int64_t e = 0; e < p->experts; e++)
        taken[e] = lost[e / size] == 0.0f ? 1.0f : 0.0f;
}

static void select_experts(const att_moe_problem *p, const att_moe_args *a, int64_t t,
                           float *scores, float *taken, int32_t *ids) {
    memset(taken, 0, (size_t)p->experts * sizeof *taken);
    for (int64_t e = 0; e < p->experts; e++) {
        scores[e] = att_moe_ref_logit(p, a, t, e);
        if (p->routing == ATT_MOE_SIGMOID)
            scores[e] = att_route_sigmoid(scores[e]);
        if (p->features & ATT_MOE_CORRECTION)
            scores[e] += a->correction[e];
    }
    if (p->groups > 1)
        leave_groups(p, scores, taken);
    for (int64_t j = 0; j < p->experts_per_token; j++) {
        const int64_t best = best_of(scores, taken, 0, p->experts);
        taken[best] = 1.0f;
        ids[j] = (int32_t)best;
    }
}

void att_moe_ref_ids(const att_moe_problem *p, const att_moe_args *a, int64_t t, float *scores,
                     int32_t *ids) {
    const int64_t k = p->experts_per_token;
    if (a->mask && a->mask[t] == 0)
        for (int64_t j = 0; j < k; j++)
            ids[j] = -1;
    else if (p->routing == ATT_MOE_GIVEN)
        memcpy(ids, a->given_ids + t * k, (size_t)k * sizeof *ids);
    else
        select_experts(p, a, t, scores, scores + p->experts, ids);
}

void att_moe_ref_counts(const att_moe_problem *p, const att_moe_args *a, float *scores,
                        int32_t *ids, double *counts) {
    memset(counts, 0, (size_t)(p->experts + 1) * sizeof *counts);
    for (int64_t t = 0; t < p->tokens; t++) {
        att_moe_ref_ids(p, a, t, scores, ids);
        for (int64_t j = 0; j < p->experts_per_token; j++)
            if (ids[j] >= 0)
                counts[ids[j]] += 1.0;
    }
}
