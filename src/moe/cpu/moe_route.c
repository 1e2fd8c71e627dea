/* moe_route.c: top-k and weights of one token, and a counting sort of slots by expert. */
#include "moe/cpu/moe_route.h"

#include <math.h>
#include <string.h>

#include "kernels/moe_routing.h"

/* ----------------------------------------------------------------- selection */

typedef struct choice {
    uint32_t key;
    int32_t id;
} choice;

/* The best `count` of those offered, best first. If offered in the order of ids, equals keep
 * it. */
typedef struct choices {
    int64_t count, used;
    choice *list;
} choices;

static void offer(choices *c, uint32_t key, int64_t id) {
    int64_t at = c->used;
    if (at == c->count && key <= c->list[at - 1].key)
        return;
    if (at < c->count)
        c->used++;
    else
        at--;
    for (; at > 0 && key > c->list[at - 1].key; at--)
        c->list[at] = c->list[at - 1];
    c->list[at] = (choice){key, (int32_t)id};
}

/* The sum of the two best scores of a group. */
static float group_score(const float *scores, int64_t size) {
    choice two[2];
    choices best = {.count = 2, .list = two};
    for (int64_t i = 0; i < size; i++)
        offer(&best, att_route_key(scores[i]), i);
    return scores[two[0].id] + scores[two[1].id];
}

/* Mark the groups whose experts may be selected. */
static void keep_groups(const att_moe_problem *p, const float *scores, bool *kept) {
    choice list[ATT_MOE_EXPERTS_MAX];
    choices best = {.count = p->groups_kept, .list = list};
    const int64_t size = p->experts / p->groups;
    for (int64_t g = 0; g < p->groups; g++) {
        kept[g] = false;
        offer(&best, att_route_key(group_score(scores + g * size, size)), g);
    }
    for (int64_t n = 0; n < best.used; n++)
        kept[list[n].id] = true;
}

static void select_experts(const att_moe_problem *p, const float *scores, int32_t *ids) {
    choice list[ATT_MOE_EXPERTS_MAX];
    bool kept[ATT_MOE_EXPERTS_MAX];
    choices best = {.count = p->experts_per_token, .list = list};
    const int64_t size = p->experts / p->groups;
    if (p->groups > 1)
        keep_groups(p, scores, kept);
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t e = g * size; (p->groups == 1 || kept[g]) && e < (g + 1) * size; e++)
            offer(&best, att_route_key(scores[e]), e);
    for (int64_t j = 0; j < p->experts_per_token; j++)
        ids[j] = list[j].id;
}

/* ------------------------------------------------------------------- weights */

/* The top and the sum of the shares of the logits; NaN is never the largest, but makes the sum
 * NaN. */
static float softmax_sum(const float *logits, const int32_t *ids, int64_t count, float *top) {
    float sum = 0.0f;
    *top = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        const float logit = logits[ids ? ids[i] : i];
        *top = logit > *top ? logit : *top;
    }
    for (int64_t i = 0; i < count; i++)
        sum += att_route_weight(logits[ids ? ids[i] : i], *top);
    return sum;
}

static void weigh(const att_moe_problem *p, const float *logits, const int32_t *ids,
                  float *weights) {
    const int64_t k = p->experts_per_token;
    const bool over_all = p->routing == ATT_MOE_SOFTMAX_TOPK;
    float top = 0.0f, sum = 0.0f, total = 0.0f;
    if (p->routing != ATT_MOE_SIGMOID)
        sum = softmax_sum(logits, over_all ? NULL : ids, over_all ? p->experts : k, &top);
    for (int64_t j = 0; j < k; j++) {
        weights[j] = p->routing == ATT_MOE_SIGMOID
                         ? att_route_sigmoid(logits[ids[j]])
                         : att_route_weight(logits[ids[j]], top) / sum;
        total += weights[j];
    }
    for (int64_t j = 0; j < k; j++)
        weights[j] =
            (p->flags & ATT_MOE_RENORMALISE ? weights[j] / (total + 1e-20f) : weights[j]) *
            p->scaling;
}

static void route_by_logits(const att_moe_job *job, int64_t t, int32_t *ids, float *weights) {
    const att_moe_problem *p = job->p;
    float logits[ATT_MOE_EXPERTS_MAX], scores[ATT_MOE_EXPERTS_MAX];
    att_load_row(logits, job->a->logits, p->dtype_logits, t * p->logits_row, p->experts);
    for (int64_t e = 0; p->routing == ATT_MOE_SIGMOID && e < p->experts; e++) {
        scores[e] = att_route_sigmoid(logits[e]);
        if (p->features & ATT_MOE_CORRECTION)
            scores[e] += job->a->correction[e];
    }
    select_experts(p, p->routing == ATT_MOE_SIGMOID ? scores : logits, ids);
    weigh(p, logits, ids, weights);
}

static void route_as_given(const att_moe_job *job, int64_t t, int32_t *ids, float *weights) {
    const int64_t k = job->p->experts_per_token;
    for (int64_t j = 0; j < k; j++) {
        ids[j] = job->a->given_ids[t * k + j];
        weights[j] = ids[j] < 0 ? 0.0f : job->a->given_weights[t * k + j] * job->p->scaling;
    }
}

void att_moe_route_token(const att_moe_job *job, int64_t token) {
    const att_moe_problem *p = job->p;
    const att_moe_args *a = job->a;
    const int64_t k = p->experts_per_token, t = job->first_token + token;
    const bool masked = p->features & ATT_MOE_MASK && a->mask[t] == 0;
    int32_t *ids = job->ids + token * k;
    float *weights = job->weights + token * k;
    for (int64_t j = 0; masked && j < k; j++) {
        ids[j] = -1;
        weights[j] = 0.0f;
    }
    if (!masked && p->routing == ATT_MOE_GIVEN)
        route_as_given(job, t, ids, weights);
    else if (!masked)
        route_by_logits(job, t, ids, weights);
    if (p->features & ATT_MOE_IDS)
        memcpy(a->ids + t * k, ids, (size_t)k * sizeof *ids);
    if (p->features & ATT_MOE_WEIGHTS)
        memcpy(a->weights + t * k, weights, (size_t)k * sizeof *weights);
    if (job->x && !masked)
        att_load_row(job->x + token * p->hidden, a->x, p->dtype, t * p->x_row, p->hidden);
}

/* ---------------------------------------------------------------------- order */

static void count_slots(att_moe_job *job) {
    const att_moe_problem *p = job->p;
    const int64_t slots = job->tokens * p->experts_per_token;
    memset(job->lengths, 0, (size_t)p->local_experts * sizeof *job->lengths);
    for (int64_t s = 0; s < slots; s++) {
        const int64_t e = att_moe_local_id(p, job->ids[s]);
        if (e >= 0)
            job->lengths[e]++;
        if (p->features & ATT_MOE_COUNTS && job->ids[s] >= 0)
            job->a->counts[job->ids[s]]++;
    }
}

void att_moe_sort_slots(att_moe_job *job, int64_t align) {
    const att_moe_problem *p = job->p;
    const int64_t slots = job->tokens * p->experts_per_token;
    int64_t end = 0;
    count_slots(job);
    job->active_count = 0;
    for (int64_t e = 0; e < p->local_experts; e++) {
        job->starts[e] = (int32_t)end;
        end += att_round_up(job->lengths[e], align);
        if (job->lengths[e] > 0)
            job->active[job->active_count++] = (int32_t)e;
    }
    memset(job->lengths, 0, (size_t)p->local_experts * sizeof *job->lengths);
    for (int64_t s = 0; s < slots; s++) {
        const int64_t e = att_moe_local_id(p, job->ids[s]);
        job->position_of[s] = e < 0 ? -1 : job->starts[e] + job->lengths[e]++;
        if (e >= 0)
            job->slot_at[job->position_of[s]] = (int32_t)s;
    }
}
