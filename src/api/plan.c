/* plan.c: choosing a kernel and freezing the choice. */
#include "api/plan.h"

#include <stdio.h>

#include "api/sized.h"
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/forward.h"

static att_status check(att_plan *plan, const att_problem *problem) {
    ATT_TRY(att_sized_copy(&plan->problem, sizeof plan->problem, problem, "problem"));
    return att_problem_check(&plan->problem, &plan->extents);
}

static att_status tile(att_plan *plan, int threads) {
    ATT_TRY(att_cpu_tiling_choose(&plan->tiling, plan->kernel->cpu, &plan->problem, threads));
    plan->workspace = att_cpu_workspace(&plan->tiling);
    return ATT_OK;
}

static att_status choose(att_plan *plan, const att_context *ctx, const att_problem *problem) {
    ATT_TRY(check(plan, problem));
    ATT_TRY(att_select(&plan->kernel, &ctx->limits, &plan->problem));
    return tile(plan, ctx->threads);
}

att_status att_plan_create(att_plan **out, att_context *ctx, const att_problem *problem) {
    ATT_REQUIRE(out, ATT_E_ARG, "out", "out is NULL");
    *out = NULL;
    ATT_REQUIRE(ctx, ATT_E_ARG, "ctx", "ctx is NULL");
    ATT_REQUIRE(problem, ATT_E_ARG, "problem", "problem is NULL");
    att_plan *plan = att_alloc(sizeof *plan);
    ATT_REQUIRE(plan, ATT_E_MEMORY, "", "out of memory for a plan");
    const att_status status = choose(plan, ctx, problem);
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
    const att_cpu_tiling *t = &plan->tiling;
    char detail[160] = "";
    if (plan->kernel)
        snprintf(detail, sizeof detail,
                 "%lld rows a task, %lld tasks, keys in %lld parts, %d threads, "
                 "workspace %zu bytes",
                 (long long)t->rows, (long long)t->tasks, (long long)t->splits, t->threads,
                 plan->workspace);
    att_select_explain(limits, &plan->problem, detail, buf, n);
}

att_status att_plan_explain(const att_plan *plan, char *buf, size_t n) {
    ATT_REQUIRE(plan, ATT_E_ARG, "plan", "plan is NULL");
    ATT_REQUIRE(buf && n, ATT_E_ARG, "buf", "buf is NULL or n is 0");
    explain(plan, &plan->ctx->limits, buf, n);
    return ATT_OK;
}

att_status att_context_explain(att_context *ctx, const att_problem *problem, char *buf,
                               size_t n) {
    ATT_REQUIRE(ctx, ATT_E_ARG, "ctx", "ctx is NULL");
    ATT_REQUIRE(problem, ATT_E_ARG, "problem", "problem is NULL");
    ATT_REQUIRE(buf && n, ATT_E_ARG, "buf", "buf is NULL or n is 0");
    att_plan plan = {.ctx = NULL};
    ATT_TRY(check(&plan, problem));
    plan.kernel = att_select_find(&ctx->limits, &plan.problem);
    if (plan.kernel)
        ATT_TRY(tile(&plan, ctx->threads));
    explain(&plan, &ctx->limits, buf, n);
    return ATT_OK;
}
