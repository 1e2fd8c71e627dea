/* jax_merge.c: the arrays of a merge, as XLA passes them: every part's O, then every part's
 * LSE. */
#include "python/core/jax_operation.h"

static xla_error *read_merge(jax_call *c) {
    const int64_t parts = c->problem.merge.parts;
    const bool lse = c->problem.merge.features & ATT_LSE;
    if (parts < 1 || parts > ATT_MERGE_PARTS_MAX || c->frame->arguments.count != 2 * parts ||
        c->frame->results.count != (lse ? 2 : 1))
        return jax_fail(c, XLA_INVALID_ARGUMENT, "the arrays do not match the number of parts");
    for (int64_t i = 0; i < parts; i++) {
        c->parts.o[i] = jax_argument(c, i);
        c->parts.lse[i] = jax_argument(c, parts + i);
    }
    c->args.merge = (att_merge_args){.size = sizeof c->args.merge,
                                     .part_o = c->parts.o,
                                     .part_lse = c->parts.lse,
                                     .o = jax_result(c, 0),
                                     .lse = lse ? jax_result(c, 1) : NULL,
                                     .launch = &c->launch};
    if (c->gpu) {
        const void *const result = c->args.merge.o;
        const int64_t of_parts = jax_alignment(c->parts.o, (int)parts);
        const int64_t of_result = jax_alignment(&result, 1);
        c->problem.merge.alignment = of_parts < of_result ? of_parts : of_result;
    }
    return NULL;
}

static att_status run_merge(const att_plan *plan, const jax_call *c, void *workspace,
                            void *stream) {
    return att_merge_run(plan, &c->args.merge, workspace, stream);
}

const jax_operation jax_of_merge = {&plan_of_merge, run_merge, read_merge};
