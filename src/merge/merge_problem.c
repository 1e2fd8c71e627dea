/* merge_problem.c: fills in merge problems, and checks them before a kernel sees them. */
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/field_checks.h"
#include "base/tensor_shape.h"
#include "merge/merge.h"

#define LL(x) ((long long)(x))

/* a * b, wrapping on overflow: filling in does not check. */
static int64_t times(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

void att_merge_problem_init_sized(att_merge_problem *problem, size_t size, int64_t parts,
                                  int64_t batch, int64_t heads, int64_t seq, int64_t d,
                                  att_dtype dtype) {
    const att_strides rows = {
        .batch = times(times(seq, heads), d), .head = d, .row = times(heads, d), .col = 1};
    const att_strides sums = {.batch = times(heads, seq), .head = seq, .row = 1, .col = 1};
    const att_merge_problem p = {.size = size,
                                 .features = ATT_LSE,
                                 .dtype = dtype,
                                 .dtype_o = dtype,
                                 .parts = parts,
                                 .batch = batch,
                                 .heads = heads,
                                 .seq = seq,
                                 .d = d,
                                 .part_o = rows,
                                 .part_lse = sums,
                                 .o = rows,
                                 .lse = sums};
    memset(problem, 0, size);
    memcpy(problem, &p, size < sizeof p ? size : sizeof p);
}

static att_status check_values(const att_merge_problem *p) {
    ATT_TRY(att_check_float(p->dtype, "dtype"));
    ATT_TRY(att_check_float(p->dtype_o, "dtype_o"));
    ATT_REQUIRE((p->features & ~(uint32_t)ATT_LSE) == 0, ATT_E_ARG, "features",
                "features=0x%x has bits other than ATT_LSE", p->features);
    ATT_REQUIRE(p->parts >= 1 && p->parts <= ATT_MERGE_PARTS_MAX, ATT_E_ARG, "parts",
                "parts=%lld is not in 1 .. %d", LL(p->parts), ATT_MERGE_PARTS_MAX);
    return att_check_alignment(p->alignment, p->dtype, p->dtype_o);
}

static att_status check_sizes(const att_merge_problem *p) {
    const att_least sizes[] = {
        {"batch", p->batch, 0}, {"heads", p->heads, 0}, {"seq", p->seq, 0}, {"d", p->d, 1}};
    ATT_TRY(att_check_least(sizes, sizeof sizes / sizeof sizes[0]));
    int64_t n;
    ATT_REQUIRE(att_mul(p->batch, p->heads, &n) && att_mul(n, p->seq, &n) &&
                    att_mul(n, p->d, &n) && att_mul(n, p->parts, &n),
                ATT_E_OVERFLOW, "seq", "parts x batch x heads x seq x d overflows");
    return ATT_OK;
}

att_status att_merge_problem_check(const void *problem, void *extents) {
    const att_merge_problem *p = problem;
    att_merge_extents *e = extents;
    *e = (att_merge_extents){0};
    ATT_TRY(check_values(p));
    ATT_TRY(check_sizes(p));
    const size_t in = att_dtype_size(p->dtype), out = att_dtype_size(p->dtype_o);
    const att_shape part_o =
        att_shape_of("part_o", p->batch, p->heads, p->seq, p->d, &p->part_o, in);
    const att_shape part_lse =
        att_shape_of("part_lse", p->batch, p->heads, p->seq, 1, &p->part_lse, sizeof(float));
    const att_shape o = att_shape_of("o", p->batch, p->heads, p->seq, p->d, &p->o, out);
    ATT_TRY(att_shape_measure(&part_o, &e->part_o));
    ATT_TRY(att_shape_contiguous(&part_o));
    ATT_TRY(att_shape_measure(&part_lse, &e->part_lse));
    ATT_TRY(att_shape_measure(&o, &e->o));
    ATT_TRY(att_shape_contiguous(&o));
    if (e->o)
        ATT_TRY(att_shape_disjoint(&o));
    if (p->features & ATT_LSE) {
        const att_shape lse =
            att_shape_of("lse", p->batch, p->heads, p->seq, 1, &p->lse, sizeof(float));
        ATT_TRY(att_shape_measure(&lse, &e->lse));
        if (e->lse)
            ATT_TRY(att_shape_disjoint(&lse));
    }
    return ATT_OK;
}
