/* merge_operation.c: merge as an operation of the core. */
#include "base/dtype.h"
#include "core/operation.h"
#include "merge/merge.h"

_Static_assert(2 * ATT_MERGE_PARTS_MAX + 3 <= ATT_BUFFERS_MAX, "the core lists every buffer");
_Static_assert(sizeof(att_merge_args) <= ATT_ARGS_MAX, "the core copies the arguments");

/* Lists that are NULL are treated as NULL parts: the core then names the field. */
static int list_buffers(const void *problem, const void *extents, const void *args,
                        att_buffer list[ATT_BUFFERS_MAX], size_t *workspace_size) {
    const att_merge_problem *p = problem;
    const att_merge_extents *e = extents;
    const att_merge_args *a = args;
    const size_t vector = att_merge_base_alignment(p);
    const size_t in = att_dtype_size(p->dtype), out = att_dtype_size(p->dtype_o);
    int n = 0;
    list[n++] = (att_buffer){"o", a->o, e->o, out, vector, false, true};
    list[n++] =
        (att_buffer){"lse", a->lse, e->lse, sizeof(float), 0, !(p->features & ATT_LSE), true};
    for (int64_t i = 0; i < p->parts; i++) {
        list[n++] = (att_buffer){
            "part_o", a->part_o ? a->part_o[i] : NULL, e->part_o, in, vector, false, false};
        list[n++] = (att_buffer){"part_lse",  a->part_lse ? a->part_lse[i] : NULL,
                                 e->part_lse, sizeof(float),
                                 0,           false,
                                 false};
    }
    *workspace_size = a->workspace_size;
    return n;
}

const att_operation att_operation_merge = {
    .name = "merge",
    .problem_bytes = sizeof(att_merge_problem),
    .problem_first = ATT_MERGE_PROBLEM_0_2,
    .args_bytes = sizeof(att_merge_args),
    .args_first = ATT_MERGE_ARGS_0_2,
    .extents_bytes = sizeof(att_merge_extents),
    .check = att_merge_problem_check,
    .buffers = list_buffers,
};
