/* plan.c: choosing a kernel and freezing the choice. */
#include "core/plan.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"
#include "core/select.h"

enum { UNIT = 64 }; /* alignment of every part of a plan */

static size_t whole(size_t bytes) {
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

static size_t largest_state(const att_operation *operation) {
    size_t most = 0;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_family *family = att_registry_row(i)->family;
        if (family->operation == operation && family->state_bytes > most)
            most = family->state_bytes;
    }
    return most;
}

/* Allocate a plan with its problem, extents and state in one piece, and check the problem. */
static att_status begin(att_plan **out, const att_operation *operation, const void *problem) {
    const size_t head = whole(sizeof **out), middle = whole(operation->problem_bytes),
                 extents = whole(operation->extents_bytes);
    att_plan *plan = att_alloc(head + middle + extents + largest_state(operation));
    ATT_REQUIRE(plan, ATT_E_MEMORY, "", "out of memory for a plan");
    plan->operation = operation;
    plan->problem = (char *)plan + head;
    plan->extents = (char *)plan->problem + middle;
    plan->state = (char *)plan->extents + extents;
    att_status status = att_sized_copy(plan->problem, operation->problem_bytes,
                                       operation->problem_first, problem, "problem");
    if (status == ATT_OK)
        status = operation->check(plan->problem, plan->extents);
    if (status != ATT_OK) {
        att_free(plan);
        return status;
    }
    *out = plan;
    return ATT_OK;
}

static att_status cut(att_plan *plan, const att_context *ctx) {
    return plan->kernel->family->cut(plan->state, &plan->workspace, ctx, plan->kernel,
                                     plan->problem);
}

static att_status choose(att_plan *plan, const att_context *ctx) {
    ATT_TRY(att_select(&plan->kernel, &ctx->limits, plan->operation, plan->problem));
    return cut(plan, ctx);
}

att_status att_core_plan_create(att_plan **out, att_context *ctx,
                                const att_operation *operation, const void *problem) {
    ATT_REQUIRE(out, ATT_E_ARG, "out", "out is NULL");
    *out = NULL;
    ATT_REQUIRE(ctx, ATT_E_ARG, "ctx", "ctx is NULL");
    ATT_REQUIRE(problem, ATT_E_ARG, "problem", "problem is NULL");
    att_plan *plan;
    ATT_TRY(begin(&plan, operation, problem));
    const att_status status = choose(plan, ctx);
    if (status != ATT_OK) {
        att_free(plan);
        return status;
    }
    plan->ctx = ctx;
    att_context_retain(ctx);
    *out = plan;
    return ATT_OK;
}

void att_plan_destroy(att_plan *plan) {
    if (!plan)
        return;
    att_context_destroy(plan->ctx);
    att_free(plan);
}

size_t att_plan_workspace(const att_plan *plan) {
    return plan ? plan->workspace : 0;
}

const char *att_plan_kernel(const att_plan *plan) {
    return plan ? plan->kernel->id : "";
}

static void explain(const att_plan *plan, const att_limits *limits, char *buf, size_t n) {
    char detail[160] = "";
    if (plan->kernel)
        plan->kernel->family->describe(plan, detail, sizeof detail);
    att_select_explain(limits, plan->operation, plan->problem, detail, buf, n);
}

att_status att_plan_explain(const att_plan *plan, char *buf, size_t n) {
    ATT_REQUIRE(plan, ATT_E_ARG, "plan", "plan is NULL");
    ATT_REQUIRE(buf && n, ATT_E_ARG, "buf", "buf is NULL or n is 0");
    explain(plan, &plan->ctx->limits, buf, n);
    return ATT_OK;
}

att_status att_core_explain(att_context *ctx, const att_operation *operation,
                            const void *problem, char *buf, size_t n) {
    ATT_REQUIRE(ctx, ATT_E_ARG, "ctx", "ctx is NULL");
    ATT_REQUIRE(problem, ATT_E_ARG, "problem", "problem is NULL");
    ATT_REQUIRE(buf && n, ATT_E_ARG, "buf", "buf is NULL or n is 0");
    att_plan *plan;
    ATT_TRY(begin(&plan, operation, problem));
    plan->kernel = att_select_find(&ctx->limits, operation, plan->problem);
    const att_status status = plan->kernel ? cut(plan, ctx) : ATT_OK;
    if (status == ATT_OK)
        explain(plan, &ctx->limits, buf, n);
    att_free(plan);
    return status;
}
