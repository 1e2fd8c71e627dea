/* cpu_families.c: the CPU kernels of attention: the problems they accept, how they cut them,
 * and their runs. */
#include "attention/cpu/forward.h"
#include "base/error.h"
#include "core/plan.h"

static const att_cpu_code *code_of(const att_kernel_row *row) {
    return row->cpu->code;
}

static bool serves_fwd(const att_kernel_row *row, const att_limits *limits, const void *problem,
                       att_refusal *refusal) {
    const att_problem *p = problem;
    ATT_CONDITION(row->isa != ATT_ISA_AMX || p->dtype != ATT_F32 || limits->amx_f32, "dtype",
                  "f32 goes to AMX only where ATT_AMX_F32 allows it");
    ATT_CONDITION(row->isa != ATT_ISA_AVX512_BF16 || p->dtype == ATT_BF16, "dtype",
                  "only bf16 is multiplied by AVX512-BF16");
    ATT_CONDITION(p->d_qk <= ATT_CPU_D_MAX, "d_qk", "d_qk=%lld is above %d", (long long)p->d_qk,
                  ATT_CPU_D_MAX);
    ATT_CONDITION(p->d_v <= ATT_CPU_D_MAX, "d_v", "d_v=%lld is above %d", (long long)p->d_v,
                  ATT_CPU_D_MAX);
    return true;
}

static bool serves_decode(const att_kernel_row *row, const att_limits *limits,
                          const void *problem, att_refusal *refusal) {
    const att_problem *p = problem;
    if (!serves_fwd(row, limits, problem, refusal))
        return false;
    const int64_t group = p->heads_q / p->heads_kv, most = code_of(row)->row_most;
    ATT_CONDITION(p->seq_q <= most / group, "seq_q",
                  "seq_q=%lld x %lld heads a group is above %lld rows", (long long)p->seq_q,
                  (long long)group, (long long)most);
    return true;
}

static att_status cut(void *state, size_t *workspace, const att_context *ctx,
                      const att_kernel_row *row, const void *problem) {
    ATT_TRY(att_cpu_tiling_choose(state, code_of(row), problem, ctx->threads));
    *workspace = att_cpu_workspace(state);
    return ATT_OK;
}

static att_status run(const att_plan *plan, const void *args, void *workspace, void *stream) {
    (void)stream;
    att_cpu_forward(code_of(plan->kernel), plan->state, plan->problem, args, workspace,
                    plan->ctx->pool);
    return ATT_OK;
}

static const char *plural(int64_t count) {
    return count == 1 ? "" : "s";
}

static void describe(const att_plan *plan, char *text, size_t n) {
    const att_cpu_tiling *t = plan->state;
    snprintf(text, n,
             "%lld row%s a task, %lld task%s, keys in %lld part%s, %d thread%s, "
             "workspace %zu bytes",
             (long long)t->rows, plural(t->rows), (long long)t->tasks, plural(t->tasks),
             (long long)t->splits, plural(t->splits), t->threads, plural(t->threads),
             plan->workspace);
}

const att_family att_family_cpu_fwd = {.operation = &att_operation_attention,
                                       .role = "fwd",
                                       .d_most = ATT_CPU_D_MAX,
                                       .state_bytes = sizeof(att_cpu_tiling),
                                       .serves = serves_fwd,
                                       .cut = cut,
                                       .run = run,
                                       .describe = describe};

const att_family att_family_cpu_decode = {.operation = &att_operation_attention,
                                          .role = "decode",
                                          .d_most = ATT_CPU_D_MAX,
                                          .state_bytes = sizeof(att_cpu_tiling),
                                          .special = true,
                                          .serves = serves_decode,
                                          .cut = cut,
                                          .run = run,
                                          .describe = describe};
