/* moe_operation.c: moe as an operation of the core. */
#include "base/dtype.h"
#include "core/operation.h"
#include "moe/moe.h"

_Static_assert(sizeof(att_moe_args) <= ATT_ARGS_MAX, "the core copies the arguments");
_Static_assert(sizeof(att_moe_extents) <= ATT_EXTENTS_MAX, "the core keeps the extents");

static int list_buffers(const void *problem, const void *extents, const void *args,
                        att_buffer list[ATT_BUFFERS_MAX], size_t *workspace_size) {
    const att_moe_problem *p = problem;
    const att_moe_extents *e = extents;
    const att_moe_args *a = args;
    const size_t vector = att_moe_base_alignment(p), in = att_dtype_size(p->dtype),
                 bias = att_dtype_size(p->dtype_bias);
    const bool given = p->routing == ATT_MOE_GIVEN, apart = att_moe_is_apart(p);
    const bool bias1 = p->features & ATT_MOE_BIAS1;
    const uint32_t unasked = ~p->features;
    const att_buffer all[] = {
        {"y", a->y, e->y, att_dtype_size(p->dtype_y), vector, false, true},
        {"ids", a->ids, e->ids, sizeof(int32_t), 0, unasked & ATT_MOE_IDS, true},
        {"weights", a->weights, e->weights, sizeof(float), 0, unasked & ATT_MOE_WEIGHTS, true},
        {"counts", a->counts, e->counts, sizeof(int32_t), 0, unasked & ATT_MOE_COUNTS, true},
        {"x", a->x, e->x, in, vector, false, false},
        {"logits", a->logits, e->logits, att_dtype_size(p->dtype_logits), 0, given, false},
        {"w1", a->w1, e->w1, in, vector, false, false},
        {"w2", a->w2, e->w2, in, vector, false, false},
        {"w3", a->w3, e->w3, in, vector, !apart, false},
        {"b1", a->b1, e->b1, bias, 0, !bias1, false},
        {"b2", a->b2, e->b2, bias, 0, unasked & ATT_MOE_BIAS2, false},
        {"b3", a->b3, e->b3, bias, 0, !bias1 || !apart, false},
        {"correction", a->correction, e->correction, sizeof(float), 0,
         unasked & ATT_MOE_CORRECTION, false},
        {"mask", a->mask, e->mask, 1, 0, unasked & ATT_MOE_MASK, false},
        {"given_ids", a->given_ids, e->given_ids, sizeof(int32_t), 0, !given, false},
        {"given_weights", a->given_weights, e->given_weights, sizeof(float), 0, !given, false},
    };
    enum { COUNT = sizeof all / sizeof all[0] };
    for (int i = 0; i < COUNT; i++)
        list[i] = all[i];
    *workspace_size = a->workspace_size;
    return COUNT;
}

const att_operation att_operation_moe = {
    .name = "moe",
    .problem_bytes = sizeof(att_moe_problem),
    .problem_first = ATT_MOE_PROBLEM_FIRST,
    .args_bytes = sizeof(att_moe_args),
    .args_first = ATT_MOE_ARGS_FIRST,
    .extents_bytes = sizeof(att_moe_extents),
    .check = att_moe_problem_check,
    .buffers = list_buffers,
    .check_data = att_moe_check_data,
};
