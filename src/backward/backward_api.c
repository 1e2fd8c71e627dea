/* backward_api.c: the functions of attest.h for gradients. */
#include "core/plan.h"

att_status att_backward_plan_create(att_plan **out, att_context *ctx,
                                    const att_problem *problem) {
    return att_core_plan_create(out, ctx, &att_operation_backward, problem);
}

att_status att_backward_explain(att_context *ctx, const att_problem *problem, char *buf,
                                size_t n) {
    return att_core_explain(ctx, &att_operation_backward, problem, buf, n);
}

att_status att_backward_run(const att_plan *plan, const att_args *args, void *workspace,
                            void *stream) {
    return att_core_run(plan, &att_operation_backward, args, workspace, stream);
}
