/* moe_check.c: checks moe problems before a kernel sees them. Errors name the field. */
#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/field_checks.h"
#include "moe/moe.h"

#define LL(x) ((long long)(x))

/* Of hidden and inner: more than any memory holds, and small enough that no kernel's workspace
 * for a few tokens overflows. */
#define SIDE_MOST (INT64_C(1) << 48)

/* -------------------------------------------------------------------- values */

static att_status check_type(att_dtype dtype, att_dtype other, const char *field) {
    ATT_REQUIRE(dtype == ATT_F32 || dtype == other, ATT_E_ARG, field,
                "%s=%d is neither f32 nor dtype=%d", field, (int)dtype, (int)other);
    return ATT_OK;
}

static att_status check_types(const att_moe_problem *p) {
    ATT_TRY(att_check_float(p->dtype, "dtype"));
    ATT_TRY(check_type(p->dtype_y, p->dtype, "dtype_y"));
    ATT_TRY(check_type(p->dtype_logits, p->dtype, "dtype_logits"));
    ATT_TRY(check_type(p->dtype_bias, p->dtype, "dtype_bias"));
    return att_check_alignment(p->alignment, p->dtype, p->dtype_y);
}

static att_status check_enum(int value, int most, const char *field) {
    ATT_REQUIRE(value >= 0 && value <= most, ATT_E_ARG, field, "%s=%d is not in 0 .. %d", field,
                value, most);
    return ATT_OK;
}

static att_status check_bits(uint32_t value, uint32_t known, const char *field) {
    ATT_REQUIRE((value & ~known) == 0, ATT_E_ARG, field,
                "%s=0x%x has bits that are unknown to this library", field, value);
    return ATT_OK;
}

static att_status check_activation(const att_moe_problem *p) {
    ATT_TRY(check_enum((int)p->activation, ATT_MOE_GELU_TANH, "activation"));
    ATT_TRY(check_enum((int)p->gate, ATT_MOE_INTERLEAVED, "gate"));
    ATT_REQUIRE(att_moe_is_gated(p) || p->gate == ATT_MOE_CONCATENATED, ATT_E_ARG, "gate",
                "gate=%d is set, but activation=%d has no gate", (int)p->gate,
                (int)p->activation);
    if (p->activation != ATT_MOE_SWIGLU_CLAMPED)
        return ATT_OK;
    ATT_REQUIRE(isfinite(p->alpha), ATT_E_ARG, "alpha", "alpha=%g is not finite",
                (double)p->alpha);
    ATT_REQUIRE(isfinite(p->limit) && p->limit > 0.0f, ATT_E_ARG, "limit",
                "limit=%g is not a finite number above 0", (double)p->limit);
    return ATT_OK;
}

static att_status check_groups(const att_moe_problem *p) {
    ATT_REQUIRE(p->groups >= 1, ATT_E_ARG, "groups", "groups=%lld is below 1", LL(p->groups));
    ATT_REQUIRE(p->groups_kept >= 1 && p->groups_kept <= p->groups, ATT_E_ARG, "groups_kept",
                "groups_kept=%lld is not in 1 .. groups=%lld", LL(p->groups_kept),
                LL(p->groups));
    if (p->groups == 1)
        return ATT_OK;
    ATT_REQUIRE(p->routing == ATT_MOE_SIGMOID, ATT_E_ARG, "groups",
                "groups=%lld: only ATT_MOE_SIGMOID has groups", LL(p->groups));
    ATT_REQUIRE(p->experts % p->groups == 0 && p->experts / p->groups >= 2, ATT_E_ARG, "groups",
                "groups=%lld does not divide experts=%lld into groups of two or more",
                LL(p->groups), LL(p->experts));
    ATT_REQUIRE(p->groups_kept * (p->experts / p->groups) >= p->experts_per_token, ATT_E_ARG,
                "groups_kept", "groups_kept=%lld groups have fewer experts than a token takes",
                LL(p->groups_kept));
    return ATT_OK;
}

static att_status check_routing(const att_moe_problem *p) {
    ATT_TRY(check_enum((int)p->routing, ATT_MOE_GIVEN, "routing"));
    ATT_TRY(check_bits(p->features, ATT_MOE_FEATURES_ALL, "features"));
    ATT_TRY(check_bits(p->flags, ATT_MOE_FLAGS_ALL, "flags"));
    ATT_REQUIRE(!(p->features & ATT_MOE_CORRECTION) || p->routing == ATT_MOE_SIGMOID, ATT_E_ARG,
                "features", "features has ATT_MOE_CORRECTION, which only ATT_MOE_SIGMOID has");
    ATT_REQUIRE(!(p->flags & ATT_MOE_RENORMALISE) || p->routing != ATT_MOE_GIVEN, ATT_E_ARG,
                "flags", "flags has ATT_MOE_RENORMALISE, but the weights are given");
    ATT_REQUIRE(isfinite(p->scaling), ATT_E_ARG, "scaling", "scaling=%g is not finite",
                (double)p->scaling);
    return check_groups(p);
}

static att_status check_sizes(const att_moe_problem *p) {
    const att_least sizes[] = {{"tokens", p->tokens, 0},
                               {"hidden", p->hidden, 1},
                               {"inner", p->inner, 1},
                               {"experts", p->experts, 1},
                               {"experts_per_token", p->experts_per_token, 1},
                               {"first_expert", p->first_expert, 0},
                               {"local_experts", p->local_experts, 1}};
    ATT_TRY(att_check_least(sizes, sizeof sizes / sizeof sizes[0]));
    ATT_REQUIRE(p->experts <= ATT_MOE_EXPERTS_MAX, ATT_E_ARG, "experts",
                "experts=%lld is above %d", LL(p->experts), ATT_MOE_EXPERTS_MAX);
    ATT_REQUIRE(p->experts_per_token <= p->experts, ATT_E_ARG, "experts_per_token",
                "experts_per_token=%lld is above experts=%lld", LL(p->experts_per_token),
                LL(p->experts));
    ATT_REQUIRE(p->first_expert < p->experts, ATT_E_ARG, "first_expert",
                "first_expert=%lld is not below experts=%lld", LL(p->first_expert),
                LL(p->experts));
    ATT_REQUIRE(p->local_experts <= p->experts - p->first_expert, ATT_E_ARG, "local_experts",
                "first_expert=%lld + local_experts=%lld is above experts=%lld",
                LL(p->first_expert), LL(p->local_experts), LL(p->experts));
    ATT_REQUIRE(p->tokens <= INT32_MAX / p->experts_per_token, ATT_E_OVERFLOW, "tokens",
                "tokens=%lld x experts_per_token=%lld does not fit 31 bits", LL(p->tokens),
                LL(p->experts_per_token));
    ATT_REQUIRE(p->hidden <= SIDE_MOST, ATT_E_OVERFLOW, "hidden", "hidden=%lld is above 2^48",
                LL(p->hidden));
    ATT_REQUIRE(p->inner <= SIDE_MOST, ATT_E_OVERFLOW, "inner", "inner=%lld is above 2^48",
                LL(p->inner));
    return ATT_OK;
}

/* -------------------------------------------------------------------- arrays */

/* An array of up to three dimensions, outermost first, the last contiguous. */
typedef struct array {
    const char *name;
    const char *fields[2]; /* with the strides of the first two; "" if a dimension is 1 */
    int64_t size[3], stride[2];
    size_t element;
} array;

static att_status measure(const array *a, int64_t *extent) {
    int64_t last = a->size[2] - 1, reach;
    bool fits = true;
    for (int i = 0; i < 2; i++) {
        if (a->size[i] <= 1)
            continue;
        ATT_REQUIRE(a->stride[i] >= 0, ATT_E_ARG, a->fields[i],
                    "%s=%lld: strides may not be negative", a->fields[i], LL(a->stride[i]));
        fits = fits && att_mul(a->size[i] - 1, a->stride[i], &reach) &&
               att_add(last, reach, &last);
    }
    fits = fits && att_add(last, 1, &last) && att_mul(last, (int64_t)a->element, &last);
    ATT_REQUIRE(fits, ATT_E_OVERFLOW, a->name,
                "%s: its sizes and strides reach past 2^63 bytes", a->name);
    *extent = last;
    return ATT_OK;
}

static array rows_of(const char *name, const char *field, int64_t rows, int64_t cols,
                     int64_t stride, size_t element) {
    return (array){name, {"", field}, {1, rows, cols}, {0, stride}, element};
}

/* `outputs` columns from `inputs`, for every local expert. */
static att_status measure_weights(const att_moe_problem *p, const char *name,
                                  const char *expert, const char *row, int64_t outputs,
                                  int64_t inputs, const att_moe_strides *s, int64_t *extent) {
    const bool transposed = p->flags & ATT_MOE_TRANSPOSED;
    const array a = {
        name,
        {expert, row},
        {p->local_experts, transposed ? inputs : outputs, transposed ? outputs : inputs},
        {s->expert, s->row},
        att_dtype_size(p->dtype)};
    return measure(&a, extent);
}

static att_status measure_bias(const att_moe_problem *p, const char *name, const char *field,
                               int64_t cols, int64_t stride, int64_t *extent) {
    const array a =
        rows_of(name, field, p->local_experts, cols, stride, att_dtype_size(p->dtype_bias));
    return measure(&a, extent);
}

static att_status measure_experts(const att_moe_problem *p, att_moe_extents *e) {
    const int64_t rows = att_moe_w1_rows(p);
    ATT_TRY(measure_weights(p, "w1", "w1.expert", "w1.row", rows, p->hidden, &p->w1, &e->w1));
    ATT_TRY(
        measure_weights(p, "w2", "w2.expert", "w2.row", p->hidden, p->inner, &p->w2, &e->w2));
    if (att_moe_is_apart(p))
        ATT_TRY(measure_weights(p, "w3", "w3.expert", "w3.row", p->inner, p->hidden, &p->w3,
                                &e->w3));
    if (p->features & ATT_MOE_BIAS1)
        ATT_TRY(measure_bias(p, "b1", "b1_expert", rows, p->b1_expert, &e->b1));
    if (p->features & ATT_MOE_BIAS1 && att_moe_is_apart(p))
        ATT_TRY(measure_bias(p, "b3", "b3_expert", p->inner, p->b3_expert, &e->b3));
    if (p->features & ATT_MOE_BIAS2)
        ATT_TRY(measure_bias(p, "b2", "b2_expert", p->hidden, p->b2_expert, &e->b2));
    return ATT_OK;
}

/* Routing inputs and outputs. Products of tokens and experts per token fit in 31 bits. */
static att_status measure_routing(const att_moe_problem *p, att_moe_extents *e) {
    const int64_t slots = p->tokens * p->experts_per_token;
    if (p->routing == ATT_MOE_GIVEN) {
        e->given_ids = slots * (int64_t)sizeof(int32_t);
        e->given_weights = slots * (int64_t)sizeof(float);
    } else {
        const array logits = rows_of("logits", "logits_row", p->tokens, p->experts,
                                     p->logits_row, att_dtype_size(p->dtype_logits));
        ATT_TRY(measure(&logits, &e->logits));
    }
    e->correction = p->features & ATT_MOE_CORRECTION ? p->experts * (int64_t)sizeof(float) : 0;
    e->mask = p->features & ATT_MOE_MASK ? p->tokens : 0;
    e->ids = p->features & ATT_MOE_IDS ? slots * (int64_t)sizeof(int32_t) : 0;
    e->weights = p->features & ATT_MOE_WEIGHTS ? slots * (int64_t)sizeof(float) : 0;
    return ATT_OK;
}

att_status att_moe_problem_check(const void *problem, void *extents) {
    const att_moe_problem *p = problem;
    att_moe_extents *e = extents;
    *e = (att_moe_extents){0};
    ATT_TRY(check_types(p));
    ATT_TRY(check_sizes(p));
    ATT_TRY(check_activation(p));
    ATT_TRY(check_routing(p));
    e->counts = p->features & ATT_MOE_COUNTS ? (p->experts + 1) * (int64_t)sizeof(int32_t) : 0;
    if (p->tokens == 0) /* nothing else is read or written */
        return ATT_OK;
    const array x =
        rows_of("x", "x_row", p->tokens, p->hidden, p->x_row, att_dtype_size(p->dtype));
    const array y =
        rows_of("y", "y_row", p->tokens, p->hidden, p->y_row, att_dtype_size(p->dtype_y));
    ATT_TRY(measure(&x, &e->x));
    ATT_TRY(measure(&y, &e->y));
    ATT_REQUIRE(p->tokens == 1 || p->y_row >= p->hidden, ATT_E_ALIAS, "y_row",
                "y_row=%lld: rows of the output would share memory", LL(p->y_row));
    ATT_TRY(measure_experts(p, e));
    return measure_routing(p, e);
}
