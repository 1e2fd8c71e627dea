/* moe_api.c: the functions of attest.h for mixtures of experts. */
#include "core/plan.h"

att_status att_moe_plan_create(att_plan **out, att_context *ctx,
                               const att_moe_problem *problem) {
    return att_core_plan_create(out, ctx, &att_operation_moe, problem);
}

att_status att_moe_explain(att_context *ctx, const att_moe_problem *problem, char *buf,
                           size_t n) {
    return att_core_explain(ctx, &att_operation_moe, problem, buf, n);
}

att_status att_moe_run(const att_plan *plan, const att_moe_args *args, void *workspace,
                       void *stream) {
    return att_core_run(plan, &att_operation_moe, args, workspace, stream);
}
