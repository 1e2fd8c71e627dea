/* saboteur_experts.c: saboteurs of mixtures of experts: the routing or the experts are right,
 * but not both. */
#include "lab/subject/saboteur_plot.h"

static const att_moe_problem *of(const lab_spec *spec) {
    return &spec->moe.problem;
}

/* Enough tokens, evenly spread, that every expert almost certainly has one. */
static bool reaches_all(const lab_spec *spec) {
    enum { TOKENS_AN_EXPERT = 8 };
    const att_moe_problem *p = of(spec);
    return spec->moe.load == LAB_MOE_EVEN && spec->moe.data == LAB_MOE_NORMAL &&
           p->tokens * p->experts_per_token >= TOKENS_AN_EXPERT * p->experts;
}

void lab_twist_skip_expert(lab_spec *spec) {
    spec->moe.problem.local_experts--;
}

bool lab_idle_skip_expert(const lab_spec *spec) {
    return of(spec)->local_experts < 2 || !reaches_all(spec);
}

void lab_twist_unnormalise(lab_spec *spec) {
    spec->moe.problem.flags &= ~(uint32_t)ATT_MOE_RENORMALISE;
}

/* The weights of top-k-then-softmax, and those of all experts, sum to 1 already. */
bool lab_idle_unnormalise(const lab_spec *spec) {
    const att_moe_problem *p = of(spec);
    const bool softmax = p->routing == ATT_MOE_SOFTMAX_TOPK;
    return p->tokens == 0 || !(p->flags & ATT_MOE_RENORMALISE) ||
           p->routing == ATT_MOE_TOPK_SOFTMAX ||
           (softmax && p->experts_per_token == p->experts);
}

/* ------------------------------------------------------------- one choice less */

static void *aligned(void *memory) {
    return (void *)(((uintptr_t)memory + ATT_WORKSPACE_ALIGN - 1) &
                    ~(uintptr_t)(ATT_WORKSPACE_ALIGN - 1));
}

/* A plan for the same tokens with one expert less per token, y only. */
static bool open_fewer(lab_plot *p) {
    att_moe_problem fewer = *of(&p->spec);
    fewer.experts_per_token--;
    fewer.features &= ~(uint32_t)(ATT_MOE_IDS | ATT_MOE_WEIGHTS | ATT_MOE_COUNTS);
    if (att_moe_plan_create(&p->other, p->ctx, &fewer) != ATT_OK)
        return false;
    p->aside = lab_hands_take(&p->hands, att_plan_workspace(p->other) + ATT_WORKSPACE_ALIGN);
    return p->aside != NULL;
}

bool lab_deed_without_last_choice(lab_plot *p, const lab_args *args, void *workspace,
                                  void *stream) {
    if (!p->other && !open_fewer(p))
        return false;
    att_moe_args fewer = args->moe;
    fewer.ids = NULL;
    fewer.weights = NULL;
    fewer.counts = NULL;
    fewer.launch = NULL;
    return lab_deed_compute(p, args, workspace, stream) &&
           att_moe_run(p->other, &fewer, aligned(p->aside), stream) == ATT_OK;
}

bool lab_idle_without_last_choice(const lab_spec *spec) {
    const att_moe_problem *p = of(spec);
    return p->tokens == 0 || p->experts_per_token < 2 || p->routing == ATT_MOE_GIVEN;
}

/* --------------------------------------------------------------- stale routing */

bool lab_deed_stale_routing(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    const bool given = of(&p->spec)->routing == ATT_MOE_GIVEN;
    const void *now = given ? (const void *)args->moe.given_ids : args->moe.logits;
    lab_args stale = *args;
    size_t bytes = 0;
    for (int i = 0; i < p->inputs; i++)
        bytes = p->input[i].data == now ? p->input[i].bytes : bytes;
    if (!p->aside) {
        p->aside = lab_hands_take(&p->hands, bytes);
        if (!p->aside || !lab_hands_copy(&p->hands, p->aside, now, bytes, stream))
            return false;
    }
    if (given)
        stale.moe.given_ids = p->aside;
    else
        stale.moe.logits = p->aside;
    return lab_deed_compute(p, &stale, workspace, stream);
}

/* True if every token has the same experts in every draw. */
bool lab_idle_stale_routing(const lab_spec *spec) {
    const att_moe_problem *p = of(spec);
    return p->tokens == 0 || p->experts_per_token == p->experts ||
           spec->moe.data == LAB_MOE_EQUAL;
}
