/* test_moe_errors.c: why a mixture of experts is refused, by field, and that nothing is written
 * then. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/engines.h"
#include "tests/support/mixture.h"

static void test_moe__bad_problems__refused_by_field(void **state) {
    const engines *e = *state;
    att_moe_problem good;
    att_moe_problem_init(&good, 5, 16, 12, 8, 2, ATT_BF16);
    good.features = ATT_MOE_BIAS1 | ATT_MOE_BIAS2;
#define BAD(change, status, field)                                                             \
    do {                                                                                       \
        att_moe_problem p = good;                                                              \
        att_plan *plan = NULL;                                                                 \
        change;                                                                                \
        assert_fails(att_moe_plan_create(&plan, e->ctx[0], &p), status, field, field);         \
        assert_null(plan);                                                                     \
    } while (0)
    BAD(p.size = 8, ATT_E_STRUCT, "size");
    BAD(p.tokens = -1, ATT_E_ARG, "tokens");
    BAD(p.tokens = INT64_MAX, ATT_E_OVERFLOW, "tokens");
    BAD(p.tokens = INT64_C(1) << 30, ATT_E_OVERFLOW, "tokens");
    BAD(p.hidden = 0, ATT_E_ARG, "hidden");
    BAD(p.inner = 0, ATT_E_ARG, "inner");
    BAD(p.inner = INT64_MAX, ATT_E_OVERFLOW, "inner");
    BAD(p.inner = (INT64_C(1) << 48) + 1, ATT_E_OVERFLOW, "inner");
    BAD(p.hidden = (INT64_C(1) << 48) + 1, ATT_E_OVERFLOW, "hidden");
    BAD(p.experts = 0, ATT_E_ARG, "experts");
    BAD(p.experts = ATT_MOE_EXPERTS_MAX + 1, ATT_E_ARG, "experts");
    BAD(p.experts_per_token = 0, ATT_E_ARG, "experts_per_token");
    BAD(p.experts_per_token = 9, ATT_E_ARG, "experts_per_token");
    BAD(p.first_expert = -1, ATT_E_ARG, "first_expert");
    BAD(p.first_expert = 8, ATT_E_ARG, "first_expert");
    BAD(p.local_experts = 0, ATT_E_ARG, "local_experts");
    BAD(p.first_expert = 1, ATT_E_ARG, "local_experts");
    BAD(p.local_experts = INT64_MAX, ATT_E_ARG, "local_experts");
    BAD(p.dtype = ATT_BOOL8, ATT_E_ARG, "dtype");
    BAD(p.dtype_y = ATT_F16, ATT_E_ARG, "dtype_y");
    BAD(p.dtype_logits = ATT_F16, ATT_E_ARG, "dtype_logits");
    BAD(p.dtype_bias = (att_dtype)0, ATT_E_ARG, "dtype_bias");
    BAD(p.activation = (att_moe_activation)8, ATT_E_ARG, "activation");
    BAD(p.activation = (att_moe_activation)-1, ATT_E_ARG, "activation");
    BAD(p.routing = (att_moe_routing)4, ATT_E_ARG, "routing");
    BAD(p.gate = (att_moe_gate)3, ATT_E_ARG, "gate");
    BAD((p.activation = ATT_MOE_RELU2, p.gate = ATT_MOE_APART), ATT_E_ARG, "gate");
    BAD(p.features |= 1u << 7, ATT_E_ARG, "features");
    BAD(p.flags |= 1u << 2, ATT_E_ARG, "flags");
    BAD(p.features |= ATT_MOE_CORRECTION, ATT_E_ARG, "features");
    BAD(p.routing = ATT_MOE_GIVEN, ATT_E_ARG, "flags");
    BAD(p.scaling = NAN, ATT_E_ARG, "scaling");
    BAD((p.activation = ATT_MOE_SWIGLU_CLAMPED, p.alpha = INFINITY), ATT_E_ARG, "alpha");
    BAD((p.activation = ATT_MOE_SWIGLU_CLAMPED, p.limit = 0.0f), ATT_E_ARG, "limit");
    BAD((p.activation = ATT_MOE_SWIGLU_CLAMPED, p.limit = NAN), ATT_E_ARG, "limit");
    BAD(p.groups = 0, ATT_E_ARG, "groups");
    BAD(p.groups = 2, ATT_E_ARG, "groups");
    BAD((p.groups = 3, p.routing = ATT_MOE_SIGMOID), ATT_E_ARG, "groups");
    BAD((p.groups = 8, p.routing = ATT_MOE_SIGMOID), ATT_E_ARG, "groups");
    BAD(p.groups_kept = 2, ATT_E_ARG, "groups_kept");
    BAD((p.groups = 4, p.experts_per_token = 3, p.routing = ATT_MOE_SIGMOID), ATT_E_ARG,
        "groups_kept");
    BAD(p.x_row = -1, ATT_E_ARG, "x_row");
    BAD(p.y_row = -1, ATT_E_ARG, "y_row");
    BAD(p.y_row = 15, ATT_E_ALIAS, "y_row");
    BAD(p.logits_row = -8, ATT_E_ARG, "logits_row");
    BAD(p.w1.expert = -1, ATT_E_ARG, "w1.expert");
    BAD(p.w1.row = -1, ATT_E_ARG, "w1.row");
    BAD(p.w2.expert = -1, ATT_E_ARG, "w2.expert");
    BAD(p.w2.row = -1, ATT_E_ARG, "w2.row");
    BAD((p.gate = ATT_MOE_APART, p.w3.row = -1), ATT_E_ARG, "w3.row");
    BAD((p.gate = ATT_MOE_APART, p.w3.expert = -1), ATT_E_ARG, "w3.expert");
    BAD(p.b1_expert = -1, ATT_E_ARG, "b1_expert");
    BAD(p.b2_expert = -1, ATT_E_ARG, "b2_expert");
    BAD((p.gate = ATT_MOE_APART, p.b3_expert = -1), ATT_E_ARG, "b3_expert");
    BAD(p.w1.expert = INT64_MAX / 4, ATT_E_OVERFLOW, "w1");
    BAD(p.w2.row = INT64_MAX / 4, ATT_E_OVERFLOW, "w2");
    BAD(p.x_row = INT64_MAX / 4, ATT_E_OVERFLOW, "x");
    BAD(p.logits_row = INT64_MAX / 4, ATT_E_OVERFLOW, "logits");
    BAD(p.b1_expert = INT64_MAX / 4, ATT_E_OVERFLOW, "b1");
    BAD(p.alignment = 3, ATT_E_ARG, "alignment");
#undef BAD
    att_plan *plan;
    assert_fails(att_moe_plan_create(&plan, e->ctx[0], NULL), ATT_E_ARG, "problem", "NULL");
    assert_fails(att_moe_plan_create(&plan, NULL, &good), ATT_E_ARG, "ctx", "NULL");
    assert_fails(att_moe_plan_create(NULL, e->ctx[0], &good), ATT_E_ARG, "out", "NULL");
}

/* Sizes that fit in the strides, and whose chunk does not fit in a workspace. */
static void test_moe__huge_sizes__overflow_not_wrapped(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    att_plan *plan;
    att_moe_problem_init(&p, 4096, 64, INT64_C(1) << 48, 1, 1, ATT_BF16);
    p.w1.row = p.w2.row = 0;
    p.flags |= ATT_MOE_TRANSPOSED;
    assert_fails(att_moe_plan_create(&plan, e->ctx[0], &p), ATT_E_OVERFLOW, "inner",
                 "overflows a workspace");
}

/* The largest hidden of one token, on every instruction set: its workspace does not wrap. */
static void test_moe__longest_token__served_with_a_workspace_for_it(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    att_plan *plan;
    att_moe_problem_init(&p, 1, INT64_C(1) << 48, 1, 1, 1, ATT_BF16);
    for (int k = 0; k < e->count; k++) {
        assert_ok(att_moe_plan_create(&plan, e->ctx[k], &p));
        assert_true(att_plan_workspace(plan) < SIZE_MAX / 8);
        att_plan_destroy(plan);
    }
}

/* Strides of a dimension of size 1, and of arrays that the problem does not have, are
 * ignored. */
static void test_moe__strides_nobody_follows__taken(void **state) {
    const engines *e = *state;
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, -5, 0};
    for (int n = 0; n < 4; n++)
        for (int transposed = 0; transposed < 2; transposed++) {
            att_moe_problem p;
            mixture m;
            att_moe_problem_init(&p, 1, transposed ? 1 : 16, 1, 1, 1, ATT_F32);
            p.activation = ATT_MOE_SILU;
            p.features = ATT_MOE_BIAS1;
            p.flags |= transposed ? ATT_MOE_TRANSPOSED : 0;
            att_moe_problem_layout(&p);
            p.x_row = p.y_row = p.logits_row = p.w1.expert = p.w1.row = p.w2.expert = odd[n];
            p.w2.row = transposed ? odd[n] : p.w2.row;
            p.w3 = (att_moe_strides){odd[n], odd[n]};
            p.b1_expert = p.b2_expert = p.b3_expert = odd[n];
            mixture_open(&m, &p, 1);
            for (int k = 0; k < e->count; k++) {
                assert_ok(mixture_run(&m, e->ctx[k]));
                mixture_check(&m);
            }
            mixture_close(&m);
        }
    att_moe_problem p;
    mixture m;
    att_moe_problem_init(&p, 7, 16, 12, 4, 2, ATT_BF16);
    p.w3 = (att_moe_strides){INT64_MAX, INT64_MAX};
    p.b1_expert = p.b2_expert = p.b3_expert = INT64_MAX;
    mixture_open(&m, &p, 1);
    for (int k = 0; k < e->count; k++)
        assert_ok(mixture_run(&m, e->ctx[k]));
    mixture_close(&m);
}

static bool is_poisoned(const mixture *m) {
    for (int i = MIX_Y; i <= MIX_COUNTS; i++)
        for (size_t n = 0; n < m->array[i].bytes; n++)
            if (m->array[i].data[n] != (i == MIX_Y || i == MIX_WEIGHTS ? 0xff : 0x7f))
                return false;
    return true;
}

static void test_moe__bad_arguments__refused_and_nothing_written(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    mixture m;
    att_moe_problem_init(&p, 5, 16, 12, 8, 2, ATT_F32);
    p.routing = ATT_MOE_SIGMOID;
    p.gate = ATT_MOE_APART;
    p.features = ATT_MOE_FEATURES_ALL;
    att_moe_problem_layout(&p);
    mixture_open(&m, &p, 1);
    const att_moe_args good = m.args;
#define BAD(change, status, field)                                                             \
    do {                                                                                       \
        m.args = good;                                                                         \
        change;                                                                                \
        assert_fails(mixture_run(&m, e->ctx[0]), status, field, field);                        \
        assert_true(is_poisoned(&m));                                                          \
    } while (0)
    BAD(m.args.size = 3, ATT_E_STRUCT, "size");
    BAD(m.args.x = NULL, ATT_E_ARG, "x");
    BAD(m.args.logits = NULL, ATT_E_ARG, "logits");
    BAD(m.args.w1 = NULL, ATT_E_ARG, "w1");
    BAD(m.args.w2 = NULL, ATT_E_ARG, "w2");
    BAD(m.args.w3 = NULL, ATT_E_ARG, "w3");
    BAD(m.args.b1 = NULL, ATT_E_ARG, "b1");
    BAD(m.args.b2 = NULL, ATT_E_ARG, "b2");
    BAD(m.args.b3 = NULL, ATT_E_ARG, "b3");
    BAD(m.args.correction = NULL, ATT_E_ARG, "correction");
    BAD(m.args.mask = NULL, ATT_E_ARG, "mask");
    BAD(m.args.y = NULL, ATT_E_ARG, "y");
    BAD(m.args.ids = NULL, ATT_E_ARG, "ids");
    BAD(m.args.weights = NULL, ATT_E_ARG, "weights");
    BAD(m.args.counts = NULL, ATT_E_ARG, "counts");
    BAD(m.args.given_ids = (const int32_t *)good.x, ATT_E_ARG, "given_ids");
    BAD(m.args.given_weights = good.x, ATT_E_ARG, "given_weights");
    BAD(m.args.x = (const char *)good.x + 1, ATT_E_ARG, "x");
    BAD(m.args.w2 = (const char *)good.w2 + 2, ATT_E_ARG, "w2");
    BAD(m.args.y = (void *)(uintptr_t)good.x, ATT_E_ALIAS, "y");
    BAD(m.args.y = (void *)(uintptr_t)good.w1, ATT_E_ALIAS, "y");
    BAD(m.args.y = (float *)(uintptr_t)good.w2 + 7, ATT_E_ALIAS, "y");
    BAD(m.args.ids = (int32_t *)good.y, ATT_E_ALIAS, "y");
    BAD(m.args.weights = (float *)(uintptr_t)good.logits, ATT_E_ALIAS, "weights");
    BAD(m.args.counts = good.ids, ATT_E_ALIAS, "ids");
    BAD(m.args.workspace_size = 8, ATT_E_WORKSPACE, "workspace_size");
#undef BAD
    m.args = good;
    assert_ok(mixture_run(&m, e->ctx[0]));
    mixture_check(&m);
    m.p.features = 0;
    assert_fails(mixture_run(&m, e->ctx[0]), ATT_E_ARG, "ids", "features");
    mixture_close(&m);
}

static void test_moe__given_ids_out_of_range__named_with_their_token(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    mixture m;
    att_moe_problem_init(&p, 5, 16, 12, 8, 2, ATT_F32);
    p.routing = ATT_MOE_GIVEN;
    p.flags = 0;
    p.features = ATT_MOE_MASK | ATT_MOE_IDS;
    mixture_open(&m, &p, 1);
    int32_t *ids = (int32_t *)(void *)m.array[MIX_GIVEN_IDS].data;
    static const int32_t bad[] = {8, -2, INT32_MAX, INT32_MIN};
    for (int n = 0; n < 4; n++) {
        ids[7] = bad[n];
        assert_fails(mixture_run(&m, e->ctx[0]), ATT_E_DATA, "given_ids", "given_ids[3][1]");
        assert_true(is_poisoned(&m));
    }
    m.array[MIX_MASK].data[3] = 0; /* ignored for a masked token */
    assert_ok(mixture_run(&m, e->ctx[0]));
    assert_int_equal(mixture_ids(&m, 3)[1], -1);
    mixture_close(&m);
}

static void test_moe__plan_of_another_operation__refused(void **state) {
    const engines *e = *state;
    att_moe_problem p;
    att_merge_problem merge;
    att_plan *own, *other;
    att_moe_problem_init(&p, 1, 8, 8, 2, 1, ATT_F32);
    att_merge_problem_init(&merge, 2, 1, 1, 2, 8, ATT_F32);
    assert_ok(att_moe_plan_create(&own, e->ctx[0], &p));
    assert_ok(att_merge_plan_create(&other, e->ctx[0], &merge));
    const att_moe_args args = {.size = sizeof args};
    const att_merge_args merge_args = {.size = sizeof merge_args};
    assert_fails(att_moe_run(other, &args, NULL, NULL), ATT_E_ARG, "plan", "merge, not moe");
    assert_fails(att_merge_run(own, &merge_args, NULL, NULL), ATT_E_ARG, "plan",
                 "moe, not merge");
    att_plan_destroy(own);
    att_plan_destroy(other);
}

static void test_moe__init__fills_no_more_than_the_caller_has(void **state) {
    att_moe_problem p;
    (void)state;
    memset(&p, 0x5a, sizeof p);
    att_moe_problem_init_sized(&p, offsetof(att_moe_problem, w1), 3, 4, 5, 6, 2, ATT_F16);
    assert_int_equal(p.size, offsetof(att_moe_problem, w1));
    assert_int_equal(p.x_row, 4);
    assert_int_equal(((const unsigned char *)&p)[offsetof(att_moe_problem, w1)], 0x5a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moe__bad_problems__refused_by_field),
        cmocka_unit_test(test_moe__huge_sizes__overflow_not_wrapped),
        cmocka_unit_test(test_moe__longest_token__served_with_a_workspace_for_it),
        cmocka_unit_test(test_moe__strides_nobody_follows__taken),
        cmocka_unit_test(test_moe__bad_arguments__refused_and_nothing_written),
        cmocka_unit_test(test_moe__given_ids_out_of_range__named_with_their_token),
        cmocka_unit_test(test_moe__plan_of_another_operation__refused),
        cmocka_unit_test(test_moe__init__fills_no_more_than_the_caller_has),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
