/* attention_api.c: the functions of attest.h that take an attention problem or its
 * arguments. */
#include "core/plan.h"

att_status att_plan_create(att_plan **out, att_context *ctx, const att_problem *problem) {
    return att_core_plan_create(out, ctx, &att_operation_attention, problem);
}

att_status att_context_explain(att_context *ctx, const att_problem *problem, char *buf,
                               size_t n) {
    return att_core_explain(ctx, &att_operation_attention, problem, buf, n);
}

att_status att_plan_run(const att_plan *plan, const att_args *args, void *workspace,
                        void *stream) {
    return att_core_run(plan, &att_operation_attention, args, workspace, stream);
}
