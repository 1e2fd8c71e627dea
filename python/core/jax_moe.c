/* jax_moe.c: the arrays of a mixture of experts, as XLA passes them: those that the problem
 * has, in the order of moe()'s arguments. */
#include "python/core/jax_operation.h"

enum { ARRAYS = 12, MOST_RESULTS = 4 };

static xla_error *read_inputs(jax_call *c) {
    const att_moe_problem *p = &c->problem.moe;
    att_moe_args *a = &c->args.moe;
    const bool is_given = p->routing == ATT_MOE_GIVEN, is_apart = p->gate == ATT_MOE_APART;
    const bool has_b1 = p->features & ATT_MOE_BIAS1;
    const void **const places[ARRAYS] = {
        &a->x,
        &a->w1,
        &a->w2,
        is_given ? NULL : &a->logits,
        is_given ? (const void **)&a->given_ids : NULL,
        is_given ? (const void **)&a->given_weights : NULL,
        is_apart ? &a->w3 : NULL,
        has_b1 ? &a->b1 : NULL,
        p->features & ATT_MOE_BIAS2 ? &a->b2 : NULL,
        has_b1 && is_apart ? &a->b3 : NULL,
        p->features & ATT_MOE_CORRECTION ? (const void **)&a->correction : NULL,
        p->features & ATT_MOE_MASK ? (const void **)&a->mask : NULL,
    };
    int64_t next = 0;
    *a = (att_moe_args){.size = sizeof *a, .launch = &c->launch};
    for (int i = 0; i < ARRAYS; i++)
        if (places[i])
            *places[i] = jax_argument(c, next++);
    if (next != c->frame->arguments.count)
        return jax_fail(c, XLA_INVALID_ARGUMENT, "the arrays do not match the problem");
    return NULL;
}

static xla_error *read_moe(jax_call *c) {
    const uint32_t asked = c->problem.moe.features;
    att_moe_args *a = &c->args.moe;
    xla_error *error = read_inputs(c);
    if (error)
        return error;
    void **const places[MOST_RESULTS] = {&a->y, asked & ATT_MOE_IDS ? (void **)&a->ids : NULL,
                                         asked & ATT_MOE_WEIGHTS ? (void **)&a->weights : NULL,
                                         asked & ATT_MOE_COUNTS ? (void **)&a->counts : NULL};
    int64_t results = 0;
    for (int i = 0; i < MOST_RESULTS; i++)
        results += places[i] != NULL;
    if (c->frame->results.count != results)
        return jax_fail(c, XLA_INVALID_ARGUMENT, "the results do not match the problem");
    results = 0;
    for (int i = 0; i < MOST_RESULTS; i++)
        if (places[i])
            *places[i] = jax_result(c, results++);
    const void *const all[] = {a->x, a->w1, a->w2, a->w3, a->y};
    if (c->gpu)
        c->problem.moe.alignment = jax_alignment(all, sizeof all / sizeof *all);
    return NULL;
}

static att_status run_moe(const att_plan *plan, const jax_call *c, void *workspace,
                          void *stream) {
    return att_moe_run(plan, &c->args.moe, workspace, stream);
}

const jax_operation jax_of_moe = {&plan_of_moe, run_moe, read_moe};
