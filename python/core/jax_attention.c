/* jax_attention.c: the arrays of attention and of its gradients, as XLA passes them. */
#include "python/core/jax_operation.h"

enum { ARRAYS = 13 };

/* Read the arrays that the problem has, in the order of attention()'s arguments. *next: the
 * index of the following argument. */
static xla_error *read_inputs(jax_call *c, int64_t *next) {
    const uint32_t has = c->problem.attention.features;
    att_args *a = &c->args.attention;
    const void **const places[ARRAYS] = {
        &a->q,
        &a->k,
        &a->v,
        has & ATT_ALIBI ? (const void **)&a->alibi : NULL,
        has & ATT_BIAS ? &a->bias : NULL,
        has & ATT_SINKS ? (const void **)&a->sinks : NULL,
        has & ATT_CU_SEQLENS_Q ? (const void **)&a->cu_seqlens_q : NULL,
        has & ATT_CU_SEQLENS_K ? (const void **)&a->cu_seqlens_k : NULL,
        has & ATT_LENS_K ? (const void **)&a->lens_k : NULL,
        has & ATT_STARTS_K ? (const void **)&a->starts_k : NULL,
        has & ATT_Q_OFFSETS ? (const void **)&a->q_offsets : NULL,
        has & ATT_K_OFFSETS ? (const void **)&a->k_offsets : NULL,
        has & ATT_PAGED ? (const void **)&a->page_table : NULL,
    };
    *a = (att_args){.size = sizeof *a, .launch = &c->launch};
    *next = 0;
    for (int i = 0; i < ARRAYS; i++)
        if (places[i]) {
            if (*next >= c->frame->arguments.count ||
                c->frame->arguments.types[*next] != XLA_BUFFER)
                return jax_fail(c, XLA_INVALID_ARGUMENT, "an array of the problem is missing");
            *places[i] = jax_argument(c, (*next)++);
        }
    return NULL;
}

static xla_error *read_attention(jax_call *c) {
    const bool lse = c->problem.attention.features & ATT_LSE;
    att_args *a = &c->args.attention;
    int64_t next;
    xla_error *error = read_inputs(c, &next);
    if (error)
        return error;
    if (next != c->frame->arguments.count || c->frame->results.count != (lse ? 2 : 1))
        return jax_fail(c, XLA_INVALID_ARGUMENT, "there are more arrays than the problem has");
    a->o = jax_result(c, 0);
    if (lse)
        a->lse = jax_result(c, 1);
    const void *const all[] = {a->q, a->k, a->v, a->o, a->bias};
    if (c->gpu)
        c->problem.attention.alignment = jax_alignment(all, sizeof all / sizeof *all);
    return NULL;
}

/* Read O, the LSE and d_o, then the gradients that the problem asks for. */
static xla_error *read_backward(jax_call *c) {
    const uint32_t asked = c->problem.attention.gradients;
    att_args *a = &c->args.attention;
    int64_t next;
    xla_error *error = read_inputs(c, &next);
    if (error)
        return error;
    void **const places[] = {&a->d_q,
                             &a->d_k,
                             &a->d_v,
                             asked & ATT_D_BIAS ? &a->d_bias : NULL,
                             asked & ATT_D_SINKS ? (void **)&a->d_sinks : NULL,
                             asked & ATT_D_ALIBI ? (void **)&a->d_alibi : NULL};
    enum { GRADIENTS = sizeof places / sizeof *places, FROM_FORWARD = 3 };
    int64_t results = 0;
    for (int i = 0; i < GRADIENTS; i++)
        results += places[i] != NULL;
    if (c->frame->arguments.count != next + FROM_FORWARD || c->frame->results.count != results)
        return jax_fail(c, XLA_INVALID_ARGUMENT, "arrays that the gradients need are missing");
    if (c->gpu && c->problem.attention.dtype == ATT_F32) /* known here, not while tracing */
        return jax_fail(
            c, XLA_UNIMPLEMENTED,
            "float32 arrays on a GPU require a gradient: attest's GPU kernels compute "
            "gradients of float16 and bfloat16 only");
    a->o = (void *)(uintptr_t)jax_argument(c, next); /* read only, with gradients */
    a->lse = (void *)(uintptr_t)jax_argument(c, next + 1);
    a->d_o = jax_argument(c, next + 2);
    results = 0;
    for (int i = 0; i < GRADIENTS; i++)
        if (places[i])
            *places[i] = jax_result(c, results++);
    const void *const all[] = {a->q,   a->k,   a->v,   a->o,   a->bias,
                               a->d_o, a->d_q, a->d_k, a->d_v, a->d_bias};
    if (c->gpu)
        c->problem.attention.alignment = jax_alignment(all, sizeof all / sizeof *all);
    return NULL;
}

static att_status run_attention(const att_plan *plan, const jax_call *c, void *workspace,
                                void *stream) {
    return att_plan_run(plan, &c->args.attention, workspace, stream);
}

static att_status run_backward(const att_plan *plan, const jax_call *c, void *workspace,
                               void *stream) {
    return att_backward_run(plan, &c->args.attention, workspace, stream);
}

const jax_operation jax_of_attention = {&plan_of_attention, run_attention, read_attention};
const jax_operation jax_of_backward = {&plan_of_backward, run_backward, read_backward};
