/* plan.c: choosing a kernel and freezing the choice. */
#include "api/plan.h"

#include <stdio.h>

#include "api/sized.h"
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/forward.h"

static att_status check(att_plan *plan, const att_problem *problem) {
    ATT_TRY(att_sized_copy(&plan->problem, sizeof plan->problem, ATT_PROBLEM_0_1, problem,
                           "problem"));
    return att_problem_check(&plan->problem, &plan->extents);
}

static att_status tile(att_plan *plan, const att_context *ctx) {
    const att_cuda_kernel *cuda = plan->kernel->cuda;
    if (cuda) {
        ATT_TRY(att_cuda_tiling_choose(&plan->cuda, ctx->gpu, cuda,
                                       att_registry_combine(cuda, ctx->limits.allow_unattested),
                                       &ctx->source, &plan->problem));
        plan->workspace = plan->cuda.workspace;
        return ATT_OK;
    }
    ATT_TRY(
        att_cpu_tiling_choose(&plan->tiling, plan->kernel->cpu, &plan->problem, ctx->threads));
    plan->workspace = att_cpu_workspace(&plan->tiling);
    return ATT_OK;
}

static att_status choose(att_plan *plan, const att_context *ctx, const att_problem *problem) {
    ATT_TRY(check(plan, problem));
    ATT_TRY(att_select(&plan->kernel, &ctx->limits, &plan->problem));
    return tile(plan, ctx);
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

static const char *plural(int64_t count) {
    return count == 1 ? "" : "s";
}

/* How the chosen kernel would cut the problem. */
static void describe_tiling(const att_plan *plan, char *text, size_t n) {
    const att_cpu_tiling *t = &plan->tiling;
    const att_cuda_shape *s = &plan->cuda.shape;
    if (plan->kernel->cuda)
        snprintf(text, n,
                 "grid %u x %u x %u, %u threads and %u bytes a block, keys in %d part%s%s, "
                 "workspace %zu bytes",
                 s->grid[0], s->grid[1], s->grid[2], s->threads, s->shared,
                 plan->cuda.params.splits, plural(plan->cuda.params.splits),
                 s->cluster ? " that a cluster merges" : "", plan->workspace);
    else
        snprintf(text, n,
                 "%lld row%s a task, %lld task%s, keys in %lld part%s, %d thread%s, "
                 "workspace %zu bytes",
                 (long long)t->rows, plural(t->rows), (long long)t->tasks, plural(t->tasks),
                 (long long)t->splits, plural(t->splits), t->threads, plural(t->threads),
                 plan->workspace);
}

static void explain(const att_plan *plan, const att_limits *limits, char *buf, size_t n) {
    char detail[160] = "";
    if (plan->kernel)
        describe_tiling(plan, detail, sizeof detail);
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
        ATT_TRY(tile(&plan, ctx));
    explain(&plan, &ctx->limits, buf, n);
    return ATT_OK;
}
