/* moe_work.c: the work of a mixture of experts: operations, and the weights of the experts that
 * have tokens.
 *
 * Which experts have tokens depends on the contents of the tensors; here the expected number is
 * used. */
#include "lab/moe/moe_lab.h"
#include "lab/moe/moe_load.h"

static double tokens_of(const att_moe_problem *p) {
    const int64_t masked = p->features & ATT_MOE_MASK ? (p->tokens + 1) / 4 : 0;
    return (double)(p->tokens - masked);
}

static double elements(int64_t a, int64_t b) {
    return (double)a * (double)b;
}

/* Bytes of one expert. */
static double expert_bytes(const att_moe_problem *p) {
    const double rows = att_moe_is_gated(p) ? 2.0 * (double)p->inner : (double)p->inner;
    const double bias = (double)att_dtype_size(p->dtype_bias);
    return (rows + (double)p->inner) * (double)p->hidden * (double)att_dtype_size(p->dtype) +
           (p->features & ATT_MOE_BIAS1 ? rows * bias : 0.0) +
           (p->features & ATT_MOE_BIAS2 ? (double)p->hidden * bias : 0.0);
}

/* Bytes of routing, read and written. */
static double routing_bytes(const att_moe_problem *p, double tokens) {
    const double k = (double)p->experts_per_token, all = (double)p->tokens;
    const double number = (double)sizeof(float);
    return (p->routing == ATT_MOE_GIVEN
                ? 2.0 * tokens * k * number
                : tokens * (double)p->experts * (double)att_dtype_size(p->dtype_logits)) +
           (p->features & ATT_MOE_IDS ? all * k * number : 0.0) +
           (p->features & ATT_MOE_WEIGHTS ? all * k * number : 0.0);
}

void lab_moe_work(lab_work *work, const lab_spec *spec) {
    const att_moe_problem *p = &spec->moe.problem;
    const double tokens = tokens_of(p), products = att_moe_is_gated(p) ? 3.0 : 2.0;
    const double local = (double)p->local_experts / (double)p->experts;
    const double slots = tokens * (double)p->experts_per_token * local;
    const double distinct =
        local * lab_moe_distinct(spec->moe.load, p->experts, p->experts_per_token, tokens);
    work->pairs = slots * (double)p->inner + tokens * (double)p->experts;
    work->flops = 2.0 * products * slots * elements(p->hidden, p->inner);
    work->bytes = tokens * (double)p->hidden * (double)att_dtype_size(p->dtype) +
                  elements(p->tokens, p->hidden) * (double)att_dtype_size(p->dtype_y) +
                  distinct * expert_bytes(p) + routing_bytes(p, tokens);
}
