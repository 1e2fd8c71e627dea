/* test_plan_errors.c: every problem that att_plan_create() must refuse, and some that it must
 * not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/problems.h"

typedef enum kind { WIDE, FLAGS, CHOICE, REAL } kind; /* int64_t, uint32_t, an enum, float */

/* One field of a valid problem set to one bad value. */
typedef struct bad_field {
    uint32_t features;
    size_t offset;
    kind kind;
    double real;
    int64_t value;
    att_status status;
    const char *field;
} bad_field;

#define AT(member) offsetof(att_problem, member)
#define BAD(features, member, value, status)                                                   \
    { features, AT(member), WIDE, 0.0, value, status, #member }
#define OVER(features, member, value, field)                                                   \
    { features, AT(member), WIDE, 0.0, value, ATT_E_OVERFLOW, field }
#define BAD_CHOICE(features, member, value)                                                    \
    { features, AT(member), CHOICE, 0.0, value, ATT_E_ARG, #member }
#define BAD_REAL(member, real)                                                                 \
    { 0, AT(member), REAL, real, 0, ATT_E_ARG, #member }

static const bad_field BAD_FIELDS[] = {
    BAD(0, batch, -1, ATT_E_ARG),
    BAD(0, batch, INT64_MIN, ATT_E_ARG),
    BAD(0, heads_q, 0, ATT_E_ARG),
    BAD(0, heads_q, -4, ATT_E_ARG),
    BAD(0, heads_q, 5, ATT_E_ARG),
    BAD(0, heads_q, 1, ATT_E_ARG),
    BAD(0, heads_kv, 0, ATT_E_ARG),
    BAD(0, heads_kv, -2, ATT_E_ARG),
    BAD(0, seq_q, -1, ATT_E_ARG),
    BAD(0, seq_k, -1, ATT_E_ARG),
    BAD(0, d_qk, 0, ATT_E_ARG),
    BAD(0, d_qk, -8, ATT_E_ARG),
    BAD(0, d_qk, 257, ATT_E_UNSUPPORTED),
    BAD(0, d_v, 0, ATT_E_ARG),
    BAD(0, d_v, -8, ATT_E_ARG),
    {0, AT(features), FLAGS, 0.0, ATT_FEATURES_ALL + 1, ATT_E_ARG, "features"},
    {0, AT(features), FLAGS, 0.0, 1u << 31, ATT_E_ARG, "features"},
    BAD_CHOICE(0, dtype, 0),
    BAD_CHOICE(0, dtype, ATT_BOOL8),
    BAD_CHOICE(0, dtype, 5),
    BAD_CHOICE(0, dtype, -1),
    BAD_CHOICE(0, dtype_o, 0),
    BAD_CHOICE(0, dtype_o, ATT_BOOL8),
    BAD_CHOICE(0, dtype_o, 5),
    BAD_CHOICE(0, causal, 3),
    BAD_CHOICE(0, causal, -1),
    BAD_CHOICE(0, align, 3),
    BAD_CHOICE(0, align, -1),
    BAD_CHOICE(ATT_BIAS, bias_dtype, 0),
    BAD_CHOICE(ATT_BIAS, bias_dtype, 5),
    BAD_CHOICE(ATT_ALIBI, align, ATT_ALIGN_UNSET),
    BAD(0, window_left, -2, ATT_E_ARG),
    BAD(0, window_left, INT64_MIN, ATT_E_ARG),
    BAD(0, window_right, -2, ATT_E_ARG),
    BAD_REAL(scale, (double)NAN),
    BAD_REAL(scale, (double)INFINITY),
    BAD_REAL(scale, -(double)INFINITY),
    BAD_REAL(softcap, -1.0),
    BAD_REAL(softcap, (double)NAN),
    BAD_REAL(softcap, (double)INFINITY),
    BAD(0, q.batch, -1, ATT_E_ARG),
    BAD(0, q.head, -8, ATT_E_ARG),
    BAD(0, q.row, -32, ATT_E_ARG),
    BAD(0, q.col, -1, ATT_E_ARG),
    BAD(0, q.col, 0, ATT_E_ARG),
    BAD(0, q.col, 2, ATT_E_ARG),
    BAD(0, k.batch, -1, ATT_E_ARG),
    BAD(0, k.head, -8, ATT_E_ARG),
    BAD(0, k.row, -16, ATT_E_ARG),
    BAD(0, k.col, 2, ATT_E_ARG),
    BAD(0, v.batch, -1, ATT_E_ARG),
    BAD(0, v.head, -6, ATT_E_ARG),
    BAD(0, v.row, -12, ATT_E_ARG),
    BAD(0, v.col, 2, ATT_E_ARG),
    BAD(0, o.batch, -1, ATT_E_ARG),
    BAD(0, o.head, -6, ATT_E_ARG),
    BAD(0, o.row, -24, ATT_E_ARG),
    BAD(0, o.col, 2, ATT_E_ARG),
    BAD(ATT_LSE, lse.batch, -1, ATT_E_ARG),
    BAD(ATT_LSE, lse.head, -1, ATT_E_ARG),
    BAD(ATT_LSE, lse.row, -1, ATT_E_ARG),
    BAD(ATT_BIAS, bias.batch, -1, ATT_E_ARG),
    BAD(ATT_BIAS, bias.head, -1, ATT_E_ARG),
    BAD(ATT_BIAS, bias.row, -1, ATT_E_ARG),
    BAD(ATT_BIAS, bias.col, -1, ATT_E_ARG),
    BAD(ATT_ALIBI, alibi_stride_batch, -1, ATT_E_ARG),
    BAD(ATT_CU_SEQLENS_Q, total_q, -1, ATT_E_ARG),
    BAD(ATT_CU_SEQLENS_K, total_k, -1, ATT_E_ARG),
    BAD(0, alignment, -16, ATT_E_ARG),
    BAD(0, alignment, 1, ATT_E_ARG),
    BAD(0, alignment, 24, ATT_E_ARG),
    BAD(ATT_PAGED, page_size, 0, ATT_E_ARG),
    BAD(ATT_PAGED, page_size, -4, ATT_E_ARG),
    BAD(ATT_PAGED, num_pages, -1, ATT_E_ARG),
    BAD(ATT_PAGED, page_table_stride, -1, ATT_E_ARG),
    /* an output that would be written twice */
    BAD(0, o.batch, 0, ATT_E_ALIAS),
    BAD(0, o.head, 0, ATT_E_ALIAS),
    BAD(0, o.row, 0, ATT_E_ALIAS),
    BAD(0, o.row, 23, ATT_E_ALIAS),
    BAD(0, o.head, 5, ATT_E_ALIAS),
    BAD(0, o.batch, 119, ATT_E_ALIAS),
    BAD(ATT_LSE, lse.batch, 0, ATT_E_ALIAS),
    BAD(ATT_LSE, lse.head, 0, ATT_E_ALIAS),
    BAD(ATT_LSE, lse.row, 0, ATT_E_ALIAS),
    /* sizes and strides whose product does not fit: the tensor or the product is named */
    OVER(0, batch, INT64_MAX, "batch"),
    OVER(0, seq_q, INT64_MAX, "seq_q"),
    OVER(0, seq_k, INT64_MAX, "seq_k"),
    OVER(0, heads_q, INT64_MAX - 1, "heads_q"),
    OVER(0, q.batch, INT64_MAX, "q"),
    OVER(0, q.head, INT64_MAX / 2, "q"),
    OVER(0, k.row, INT64_MAX / 4, "k"),
    OVER(0, v.row, INT64_MAX / 4, "v"),
    OVER(0, v.batch, INT64_MAX / 4 + 1, "v"),
    OVER(0, o.batch, INT64_MAX, "o"),
    OVER(ATT_LSE, lse.batch, INT64_MAX, "lse"),
    OVER(ATT_BIAS, bias.row, INT64_MAX / 2, "bias"),
    OVER(ATT_ALIBI, alibi_stride_batch, INT64_MAX, "alibi"),
    OVER(ATT_CU_SEQLENS_Q, total_q, INT64_MAX, "q"),
    OVER(ATT_CU_SEQLENS_K, total_k, INT64_MAX, "k"),
    OVER(ATT_PAGED, page_size, INT64_MAX, "k"),
    OVER(ATT_PAGED, page_table_stride, INT64_MAX, "page_table"),
    BAD(ATT_PAGED, num_pages, INT64_MAX, ATT_E_ARG),
};

static void apply(att_problem *p, const bad_field *bad) {
    char *at = (char *)p + bad->offset;
    const float real = (float)bad->real;
    const uint32_t flags = (uint32_t)bad->value;
    const int choice = (int)bad->value;
    switch (bad->kind) {
    case WIDE:
        memcpy(at, &bad->value, sizeof bad->value);
        break;
    case FLAGS:
        memcpy(at, &flags, sizeof flags);
        break;
    case CHOICE:
        memcpy(at, &choice, sizeof choice);
        break;
    case REAL:
        memcpy(at, &real, sizeof real);
        break;
    }
}

/* The failure is recorded completely: status, field, a text that names the field, and no
 * plan. */
static bool refused_as(att_context *ctx, const att_problem *p, att_status status,
                       const char *field) {
    att_plan *plan = (att_plan *)(void *)ctx; /* anything but NULL */
    const att_status got = att_plan_create(&plan, ctx, p);
    const att_error *e = att_last_error();
    const bool same_field = strcmp(e->field, field) == 0;
    if (got == status && e->status == status && same_field && strstr(e->text, field) && !plan)
        return true;
    print_error("%s: got %s, field \"%s\", \"%s\", plan %p; wanted %s\n", field,
                att_status_name(got), e->field, e->text, (void *)plan, att_status_name(status));
    if (got == ATT_OK)
        att_plan_destroy(plan);
    return false;
}

static void test_plan_create__each_field_out_of_range__named(void **state) {
    int wrong = 0;
    for (size_t i = 0; i < sizeof BAD_FIELDS / sizeof BAD_FIELDS[0]; i++) {
        att_problem p = problem_with(BAD_FIELDS[i].features, ATT_F32);
        apply(&p, &BAD_FIELDS[i]);
        if (!refused_as(*state, &p, BAD_FIELDS[i].status, BAD_FIELDS[i].field)) {
            print_error("    row %zu, value %lld or %g\n", i, (long long)BAD_FIELDS[i].value,
                        BAD_FIELDS[i].real);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void test_plan_create__starting_problems__accepted(void **state) {
    for (uint32_t features = 0; features <= ATT_FEATURES_ALL; features++) {
        if ((features & ATT_LENS_K) && (features & ATT_CU_SEQLENS_K))
            continue;
        const att_problem p = problem_with(features, ATT_F32);
        att_plan *plan;
        assert_ok(att_plan_create(&plan, *state, &p));
        att_plan_destroy(plan);
    }
}

/* A zero does not excuse a huge size beside it: no loop may run up to an unbounded number. */
static void test_plan_create__huge_size_beside_a_zero__named(void **state) {
    static const struct {
        int64_t batch, seq_q, seq_k;
        const char *field;
    } rows[] = {
        {0, INT64_MAX, 1, "seq_q"},         {0, 1, INT64_MAX, "seq_k"},
        {INT64_MAX, 0, 0, "batch"},         {INT64_C(1) << 60, 0, 0, "batch"},
        {0, INT64_C(1) << 59, 0, "seq_q"},  {1, 0, INT64_MAX - 7, "seq_k"},
        {0, INT64_MAX, INT64_MAX, "seq_q"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        att_problem p;
        att_problem_init(&p, rows[i].batch, 4, 2, rows[i].seq_q, rows[i].seq_k, 8, 8, ATT_F32);
        assert_true(refused_as(*state, &p, ATT_E_OVERFLOW, rows[i].field));
    }
}

static void test_plan_create__heads_not_divisible__both_numbers_said(void **state) {
    att_plan *plan;
    att_problem p;
    att_problem_init(&p, 1, 6, 4, 8, 8, 16, 16, ATT_F16);
    assert_fails(att_plan_create(&plan, *state, &p), ATT_E_ARG, "heads_q",
                 "heads_q=6 is not a multiple of heads_kv=4");
}

static void test_plan_create__d_too_large__nearest_kernel_said(void **state) {
    att_plan *plan;
    att_problem p;
    att_problem_init(&p, 1, 1, 1, 8, 8, 257, 64, ATT_F16);
    assert_fails(att_plan_create(&plan, *state, &p), ATT_E_UNSUPPORTED, "d_qk", "_cpu_");
    att_problem_init(&p, 1, 1, 1, 8, 8, 64, 257, ATT_F16);
    assert_fails(att_plan_create(&plan, *state, &p), ATT_E_UNSUPPORTED, "d_v", "_cpu_");
}

static void test_plan_create__null_pointers__named(void **state) {
    const att_problem p = problem_with(0, ATT_F32);
    att_plan *plan;
    assert_fails(att_plan_create(NULL, *state, &p), ATT_E_ARG, "out", "out");
    assert_fails(att_plan_create(&plan, NULL, &p), ATT_E_ARG, "ctx", "ctx");
    assert_null(plan);
    assert_fails(att_plan_create(&plan, *state, NULL), ATT_E_ARG, "problem", "problem");
    assert_null(plan);
}

static void test_plan_create__window_or_alibi_without_alignment__align_named(void **state) {
    att_problem p = problem_with(0, ATT_F32);
    p.window_left = 2;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "align"));
    p.window_left = -1;
    p.window_right = 0;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "align"));
    p.seq_q = p.seq_k;
    att_problem_layout_bshd(&p);
    att_plan *plan;
    assert_ok(att_plan_create(&plan, *state, &p));
    att_plan_destroy(plan);
}

/* Positions say where the diagonal is. */
static void test_plan_create__offsets__field_named(void **state) {
    att_problem p = problem_with(0, ATT_F32);
    p.q_offset = -1;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "q_offset"));
    p.q_offset = (INT64_C(1) << 60) + 1;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "q_offset"));
    p.q_offset = 0;
    p.k_offset = -5;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "k_offset"));
    p.k_offset = 5;
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "k_offset"));
    p.k_offset = 0;
    p.features = ATT_Q_OFFSETS;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "q_offsets"));
    p.causal = ATT_CAUSAL_NONE;
    p.align = ATT_ALIGN_BOTTOM_RIGHT;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "q_offsets"));
    p.align = ATT_ALIGN_UNSET;
    p.causal = ATT_CAUSAL_TOP_LEFT;
    att_plan *plan;
    assert_ok(att_plan_create(&plan, *state, &p));
    att_plan_destroy(plan);
}

/* With varying lengths, equal maxima do not make the two alignments agree. */
static void test_plan_create__window_on_varying_lengths__align_named(void **state) {
    att_problem p;
    att_problem_init(&p, 2, 1, 1, 7, 7, 8, 8, ATT_F32);
    p.window_left = 1;
    p.features = ATT_LENS_K;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "align"));
    p.align = ATT_ALIGN_TOP_LEFT;
    att_plan *plan;
    assert_ok(att_plan_create(&plan, *state, &p));
    att_plan_destroy(plan);
}

/* A struct from a newer header: the same fields, then ones that this library does not know. */
typedef struct newer_problem {
    att_problem known;
    uint64_t added[2];
} newer_problem;

static void test_plan_create__struct_sizes__known_or_refused(void **state) {
    att_plan *plan;
    newer_problem newer = {.known = problem_with(0, ATT_F32)};
    newer.known.size = sizeof newer;
    assert_ok(att_plan_create(&plan, *state, &newer.known));
    att_plan_destroy(plan);
    newer.added[1] = 1;
    assert_fails(att_plan_create(&plan, *state, &newer.known), ATT_E_STRUCT, "size",
                 "does not know");
    assert_null(plan);
    att_problem older = problem_with(0, ATT_F32); /* of 0.1, which had no `alignment` */
    older.size = offsetof(att_problem, alignment);
    older.alignment = 3;
    assert_ok(att_plan_create(&plan, *state, &older));
    att_plan_destroy(plan);
    static const size_t sizes[] = {0, 1, sizeof(size_t), sizeof(att_problem) - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        att_problem p = problem_with(0, ATT_F32);
        p.size = sizes[i];
        assert_true(refused_as(*state, &p, ATT_E_STRUCT, "size"));
    }
}

static void test_plan_create__refusals__leave_no_memory(void **state) {
    const long live = att_alloc_live();
    for (size_t i = 0; i < sizeof BAD_FIELDS / sizeof BAD_FIELDS[0]; i++) {
        att_problem p = problem_with(BAD_FIELDS[i].features, ATT_F32);
        apply(&p, &BAD_FIELDS[i]);
        att_plan *plan;
        assert_int_not_equal(att_plan_create(&plan, *state, &p), ATT_OK);
    }
    assert_int_equal(att_alloc_live(), live);
}

static void test_plan_create__success__leaves_last_error_as_it_is(void **state) {
    att_problem p = problem_with(0, ATT_F32);
    p.batch = -1;
    assert_true(refused_as(*state, &p, ATT_E_ARG, "batch"));
    p.batch = 2;
    att_plan *plan;
    assert_ok(att_plan_create(&plan, *state, &p));
    assert_int_equal(att_last_error()->status, ATT_E_ARG);
    att_plan_destroy(plan);
}

static void test_plan_destroy__null__fine(void **state) {
    (void)state;
    att_plan_destroy(NULL);
}

static void test_explain__bad_arguments__named(void **state) {
    const att_problem p = problem_with(0, ATT_F32);
    att_plan *plan;
    char text[ATT_EXPLAIN_MAX];
    assert_ok(att_plan_create(&plan, *state, &p));
    assert_fails(att_plan_explain(NULL, text, sizeof text), ATT_E_ARG, "plan", "plan");
    assert_fails(att_plan_explain(plan, NULL, 10), ATT_E_ARG, "buf", "buf");
    assert_fails(att_context_explain(NULL, &p, text, sizeof text), ATT_E_ARG, "ctx", "ctx");
    assert_fails(att_context_explain(*state, NULL, text, sizeof text), ATT_E_ARG, "problem",
                 "problem");
    assert_fails(att_context_explain(*state, &p, NULL, 10), ATT_E_ARG, "buf", "buf");
    att_problem bad = p;
    bad.seq_q = -3;
    assert_fails(att_context_explain(*state, &bad, text, sizeof text), ATT_E_ARG, "seq_q",
                 "-3");
    bad = p;
    bad.size = 3;
    assert_fails(att_context_explain(*state, &bad, text, sizeof text), ATT_E_STRUCT, "size",
                 "size");
    att_plan_destroy(plan);
}

static int open_context(void **state) {
    *state = context_open(ATT_ISA_AUTO, 1);
    return 0;
}

static int close_context(void **state) {
    att_context_destroy(*state);
    return att_alloc_live() == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_create__each_field_out_of_range__named),
        cmocka_unit_test(test_plan_create__starting_problems__accepted),
        cmocka_unit_test(test_plan_create__huge_size_beside_a_zero__named),
        cmocka_unit_test(test_plan_create__heads_not_divisible__both_numbers_said),
        cmocka_unit_test(test_plan_create__d_too_large__nearest_kernel_said),
        cmocka_unit_test(test_plan_create__null_pointers__named),
        cmocka_unit_test(test_plan_create__window_or_alibi_without_alignment__align_named),
        cmocka_unit_test(test_plan_create__window_on_varying_lengths__align_named),
        cmocka_unit_test(test_plan_create__offsets__field_named),
        cmocka_unit_test(test_plan_create__struct_sizes__known_or_refused),
        cmocka_unit_test(test_plan_create__refusals__leave_no_memory),
        cmocka_unit_test(test_plan_create__success__leaves_last_error_as_it_is),
        cmocka_unit_test(test_plan_destroy__null__fine),
        cmocka_unit_test(test_explain__bad_arguments__named),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
