/* merge_api.c: the functions of attest.h for merges. */
#include "core/plan.h"

att_status att_merge_plan_create(att_plan **out, att_context *ctx,
                                 const att_merge_problem *problem) {
    return att_core_plan_create(out, ctx, &att_operation_merge, problem);
}

att_status att_merge_explain(att_context *ctx, const att_merge_problem *problem, char *buf,
                             size_t n) {
    return att_core_explain(ctx, &att_operation_merge, problem, buf, n);
}

att_status att_merge_run(const att_plan *plan, const att_merge_args *args, void *workspace,
                         void *stream) {
    return att_core_run(plan, &att_operation_merge, args, workspace, stream);
}
