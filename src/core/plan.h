/* plan.h: a frozen choice, for any operation. */
#ifndef ATT_CORE_PLAN_H
#define ATT_CORE_PLAN_H

#include "core/context.h"
#include "core/registry.h"

struct att_plan {
    att_context *ctx;
    const att_operation *operation;
    const att_kernel_row *kernel;
    size_t workspace;
    void *problem; /* of the operation's type, as are the extents */
    void *extents;
    void *state; /* of the family's type */
};

/* The functions of attest.h, for any operation. */
att_status att_core_plan_create(att_plan **out, att_context *ctx,
                                const att_operation *operation, const void *problem);
att_status att_core_explain(att_context *ctx, const att_operation *operation,
                            const void *problem, char *buf, size_t n);
att_status att_core_run(const att_plan *plan, const att_operation *operation, const void *args,
                        void *workspace, void *stream);

#endif
