/* test_merge.c: merging partial results: answers on every instruction set, the edges of
 * log-sums, refusals. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "merge/ref/merge_oracle.h"
#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/guard.h"
#include "tests/support/rng.h"

enum { PARTS = ATT_MERGE_PARTS_MAX };

/* A merge with its arrays: inputs from a seed, guarded outputs, NaN in elements that must not
 * be read. */
typedef struct merging {
    att_merge_problem p;
    guarded part_o[PARTS], part_lse[PARTS], o, lse;
    const void *o_list[PARTS];
    const float *lse_list[PARTS];
    att_launch launch;
    att_merge_args args;
} merging;

static size_t reach(const att_strides *s, const att_merge_problem *p, int64_t cols) {
    if (p->batch * p->heads * p->seq * cols == 0)
        return 0;
    return (size_t)((p->batch - 1) * s->batch + (p->heads - 1) * s->head +
                    (p->seq - 1) * s->row + cols);
}

static int64_t at(const att_strides *s, int64_t b, int64_t h, int64_t i) {
    return b * s->batch + h * s->head + i * s->row;
}

static float *lse_of(const merging *m, int64_t part, int64_t b, int64_t h, int64_t i) {
    return (float *)(void *)m->part_lse[part].data + at(&m->p.part_lse, b, h, i);
}

static void merging_open(merging *m, const att_merge_problem *p, uint64_t seed) {
    uint64_t random = seed + 1;
    *m = (merging){.p = *p};
    const size_t in = att_dtype_size(p->dtype), out = att_dtype_size(p->dtype_o);
    for (int64_t n = 0; n < p->parts; n++) {
        m->part_o[n] = guard_open(reach(&p->part_o, p, p->d) * in, 16);
        m->part_lse[n] = guard_open(reach(&p->part_lse, p, 1) * sizeof(float), sizeof(float));
        memset(m->part_o[n].data, 0xff, m->part_o[n].bytes);
        memset(m->part_lse[n].data, 0xff, m->part_lse[n].bytes);
        for (int64_t b = 0; b < p->batch; b++)
            for (int64_t h = 0; h < p->heads; h++)
                for (int64_t i = 0; i < p->seq; i++) {
                    *lse_of(m, n, b, h, i) = 8.0f * rng_signed(&random);
                    for (int64_t c = 0; c < p->d; c++)
                        att_store(m->part_o[n].data, p->dtype, at(&p->part_o, b, h, i) + c,
                                  rng_signed(&random));
                }
        m->o_list[n] = m->part_o[n].data;
        m->lse_list[n] = (const float *)(const void *)m->part_lse[n].data;
    }
    m->o = guard_open(reach(&p->o, p, p->d) * out, 16);
    m->lse = guard_open(reach(&p->lse, p, 1) * sizeof(float), sizeof(float));
    memset(m->o.data, 0xff, m->o.bytes);
    memset(m->lse.data, 0xff, m->lse.bytes);
    m->args = (att_merge_args){.size = sizeof m->args,
                               .part_o = m->o_list,
                               .part_lse = m->lse_list,
                               .o = m->o.data,
                               .lse = p->features & ATT_LSE ? (void *)m->lse.data : NULL,
                               .launch = &m->launch};
}

static void merging_close(merging *m) {
    for (int64_t n = 0; n < m->p.parts; n++) {
        guard_close(&m->part_o[n]);
        guard_close(&m->part_lse[n]);
    }
    guard_close(&m->o);
    guard_close(&m->lse);
}

static att_status run(const merging *m, att_context *ctx) {
    att_plan *plan;
    const att_status status = att_merge_plan_create(&plan, ctx, &m->p);
    if (status != ATT_OK)
        return status;
    assert_int_equal(att_plan_workspace(plan), 0);
    const att_status ran = att_merge_run(plan, &m->args, NULL, NULL);
    att_plan_destroy(plan);
    return ran;
}

/* Every row is as close to the oracle as the type and float32 sums allow. */
static void check_answers(const merging *m) {
    const att_merge_problem *p = &m->p;
    const double unit = p->dtype_o == ATT_F32   ? 0x1p-22
                        : p->dtype_o == ATT_F16 ? 0x1p-11
                                                : 0x1p-8;
    double *want = malloc((size_t)p->d * sizeof *want);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < p->seq; i++) {
                double lse;
                att_merge_ref_row(p, &m->args, b, h, i, want, &lse);
                for (int64_t c = 0; c < p->d; c++)
                    assert_near((double)att_load(m->args.o, p->dtype_o, at(&p->o, b, h, i) + c),
                                want[c], 4.0 * unit * (1.0 + fabs(want[c])) + 0x1p-20);
                if (p->features & ATT_LSE)
                    assert_near((double)m->args.lse[at(&p->lse, b, h, i)], lse,
                                isfinite(lse) ? 0x1p-21 * (1.0 + fabs(lse)) : 0.0);
            }
    free(want);
    assert_true(guard_intact(&m->o));
    assert_true(guard_intact(&m->lse));
}

static void test_merge__every_type_and_size__near_the_oracle(void **state) {
    const engines *e = *state;
    static const att_dtype types[] = {ATT_F32, ATT_F16, ATT_BF16};
    static const struct {
        int64_t parts, batch, heads, seq, d;
    } sizes[] = {{1, 1, 1, 1, 1},   {2, 2, 3, 5, 64},   {3, 1, 2, 97, 8}, {7, 2, 1, 33, 40},
                 {5, 1, 5, 3, 257}, {128, 1, 1, 4, 16}, {4, 3, 0, 2, 64}, {4, 0, 2, 2, 64}};
    for (int k = 0; k < e->count; k++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int in = 0; in < 3; in++)
                for (int out = 0; out < 3; out++) {
                    att_merge_problem p;
                    merging m;
                    att_merge_problem_init(&p, sizes[s].parts, sizes[s].batch, sizes[s].heads,
                                           sizes[s].seq, sizes[s].d, types[in]);
                    p.dtype_o = types[out];
                    merging_open(&m, &p, 100 * s + 10 * (size_t)in + (size_t)out);
                    assert_ok(run(&m, e->ctx[k]));
                    check_answers(&m);
                    assert_non_null(m.launch.kernel);
                    assert_int_equal(strncmp(m.launch.kernel, "merge_cpu_", 10), 0);
                    merging_close(&m);
                }
}

static void test_merge__any_strides__near_the_oracle_and_padding_untouched(void **state) {
    const engines *e = *state;
    att_merge_problem p;
    att_merge_problem_init(&p, 3, 2, 3, 7, 24, ATT_BF16);
    p.part_o = (att_strides){.batch = 0, .head = 40, .row = 131, .col = 1}; /* a shared batch */
    p.part_lse = (att_strides){.batch = 100, .head = 1, .row = 5, .col = 9};
    p.o = (att_strides){.batch = 24, .head = 2000, .row = 50, .col = 1};
    p.lse = (att_strides){.batch = 1, .head = 2, .row = 6, .col = 0};
    for (int k = 0; k < e->count; k++) {
        merging m;
        merging_open(&m, &p, 7);
        assert_ok(run(&m, e->ctx[k]));
        check_answers(&m);
        const uint16_t *o = (const uint16_t *)(const void *)m.o.data;
        assert_int_equal(o[48], 0xffff); /* between two rows */
        merging_close(&m);
    }
}

static void test_merge__empty_parts__count_for_nothing(void **state) {
    const engines *e = *state;
    att_merge_problem p;
    att_merge_problem_init(&p, 3, 1, 1, 3, 8, ATT_F32);
    for (int k = 0; k < e->count; k++) {
        merging m;
        merging_open(&m, &p, 3);
        *lse_of(&m, 1, 0, 0, 0) = -INFINITY; /* row 0: part 1 is empty, and holds NaN */
        for (int64_t c = 0; c < p.d; c++)
            ((float *)(void *)m.part_o[1].data)[c] = NAN;
        for (int64_t n = 0; n < p.parts; n++) /* row 1: all are */
            *lse_of(&m, n, 0, 0, 1) = -INFINITY;
        assert_ok(run(&m, e->ctx[k]));
        check_answers(&m);
        assert_true(isfinite(((const float *)m.args.o)[0]));
        assert_true(((const float *)m.args.o)[p.part_o.row] == 0.0f);
        assert_true(m.args.lse[1] == -INFINITY);
        merging_close(&m);
    }
}

static void test_merge__infinite_and_nan_log_sums__as_the_header_says(void **state) {
    const engines *e = *state;
    att_merge_problem p;
    att_merge_problem_init(&p, 3, 1, 1, 3, 8, ATT_F32);
    for (int k = 0; k < e->count; k++) {
        merging m;
        merging_open(&m, &p, 4);
        *lse_of(&m, 0, 0, 0, 0) = *lse_of(&m, 2, 0, 0, 0) = INFINITY;
        *lse_of(&m, 1, 0, 0, 1) = NAN;
        assert_ok(run(&m, e->ctx[k]));
        const float *o = m.args.o, *a = m.o_list[0], *c = m.o_list[2];
        assert_near((double)o[0], 0.5 * ((double)a[0] + (double)c[0]), 1e-6);
        assert_true(m.args.lse[0] == INFINITY);
        assert_true(isnan(o[p.o.row]) && isnan(m.args.lse[1]));
        assert_true(isfinite(o[2 * p.o.row]) && isfinite(m.args.lse[2]));
        merging_close(&m);
    }
}

static void test_merge__huge_values__stay_finite(void **state) {
    const engines *e = *state;
    att_merge_problem p;
    att_merge_problem_init(&p, 4, 1, 1, 1, 8, ATT_F32);
    for (int k = 0; k < e->count; k++) {
        merging m;
        merging_open(&m, &p, 5);
        for (int64_t n = 0; n < p.parts; n++) {
            *lse_of(&m, n, 0, 0, 0) = 3e38f;
            for (int64_t c = 0; c < p.d; c++)
                ((float *)(void *)m.part_o[n].data)[c] = 3e38f;
        }
        assert_ok(run(&m, e->ctx[k]));
        assert_near((double)((const float *)m.args.o)[0], 3e38, 1e32);
        merging_close(&m);
    }
}

static void test_merge__other_threads_and_repeats__same_bits(void **state) {
    (void)state;
    att_merge_problem p;
    att_merge_problem_init(&p, 6, 3, 4, 129, 72, ATT_F16);
    merging m, again;
    merging_open(&m, &p, 11);
    merging_open(&again, &p, 11);
    att_context *one = context_open(ATT_ISA_AUTO, 1), *four = context_open(ATT_ISA_AUTO, 4);
    assert_ok(run(&m, one));
    for (int n = 0; n < 3; n++) {
        memset(again.o.data, 0xff, again.o.bytes);
        assert_ok(run(&again, four));
        assert_memory_equal(again.o.data, m.o.data, m.o.bytes);
        assert_memory_equal(again.lse.data, m.lse.data, m.lse.bytes);
    }
    att_context_destroy(one);
    att_context_destroy(four);
    merging_close(&m);
    merging_close(&again);
}

static void test_merge__bad_problems__refused_by_field(void **state) {
    const engines *e = *state;
    att_merge_problem good;
    att_merge_problem_init(&good, 2, 1, 2, 3, 8, ATT_F32);
#define BAD(change, status, field)                                                             \
    do {                                                                                       \
        att_merge_problem p = good;                                                            \
        att_plan *plan = NULL;                                                                 \
        change;                                                                                \
        assert_fails(att_merge_plan_create(&plan, e->ctx[0], &p), status, field, field);       \
        assert_null(plan);                                                                     \
    } while (0)
    BAD(p.parts = 0, ATT_E_ARG, "parts");
    BAD(p.parts = PARTS + 1, ATT_E_ARG, "parts");
    BAD(p.d = 0, ATT_E_ARG, "d");
    BAD(p.batch = -1, ATT_E_ARG, "batch");
    BAD(p.heads = -1, ATT_E_ARG, "heads");
    BAD(p.seq = -1, ATT_E_ARG, "seq");
    BAD(p.seq = INT64_MAX, ATT_E_OVERFLOW, "seq");
    BAD(p.dtype = ATT_BOOL8, ATT_E_ARG, "dtype");
    BAD(p.dtype_o = (att_dtype)9, ATT_E_ARG, "dtype_o");
    BAD(p.features = ATT_ALIBI, ATT_E_ARG, "features");
    BAD(p.alignment = 3, ATT_E_ARG, "alignment");
    BAD(p.part_o.col = 2, ATT_E_ARG, "part_o.col");
    BAD(p.o.row = 0, ATT_E_ALIAS, "o.row");
    BAD(p.lse.head = 0, ATT_E_ALIAS, "lse.head");
    BAD(p.part_lse.row = -1, ATT_E_ARG, "part_lse.row");
    BAD(p.o.head = INT64_MAX, ATT_E_OVERFLOW, "o");
    BAD(p.size = 8, ATT_E_STRUCT, "size");
#undef BAD
    att_plan *plan;
    assert_fails(att_merge_plan_create(&plan, e->ctx[0], NULL), ATT_E_ARG, "problem", "NULL");
    assert_fails(att_merge_plan_create(&plan, NULL, &good), ATT_E_ARG, "ctx", "NULL");
    assert_fails(att_merge_plan_create(NULL, e->ctx[0], &good), ATT_E_ARG, "out", "NULL");
}

static void test_merge__bad_arguments__refused_and_nothing_written(void **state) {
    const engines *e = *state;
    att_merge_problem p;
    att_merge_problem_init(&p, 2, 1, 2, 3, 8, ATT_F32);
    merging m;
    merging_open(&m, &p, 1);
    const att_merge_args good = m.args;
#define BAD(change, status, field)                                                             \
    do {                                                                                       \
        m.args = good;                                                                         \
        change;                                                                                \
        assert_fails(run(&m, e->ctx[0]), status, field, field);                                \
        for (size_t i = 0; i < m.o.bytes; i++)                                                 \
            assert_int_equal(m.o.data[i], 0xff);                                               \
    } while (0)
    BAD(m.args.part_o = NULL, ATT_E_ARG, "part_o");
    BAD(m.args.part_lse = NULL, ATT_E_ARG, "part_lse");
    BAD(m.args.o = NULL, ATT_E_ARG, "o");
    BAD(m.args.lse = NULL, ATT_E_ARG, "lse");
    BAD(m.args.o = (void *)(uintptr_t)m.o_list[1], ATT_E_ALIAS, "o");
    BAD(m.args.lse = (float *)(void *)m.o.data, ATT_E_ALIAS, "o");
    BAD(m.args.size = 3, ATT_E_STRUCT, "size");
    const void *before = m.o_list[1];
    m.o_list[1] = NULL;
    BAD((void)0, ATT_E_ARG, "part_o");
    m.o_list[1] = (const char *)before + 1;
    BAD((void)0, ATT_E_ARG, "part_o");
    m.o_list[1] = before;
#undef BAD
    m.p.features = 0;
    m.args = good;
    assert_fails(run(&m, e->ctx[0]), ATT_E_ARG, "lse", "features");
    m.args.lse = NULL;
    assert_ok(run(&m, e->ctx[0]));
    merging_close(&m);
}

static void test_merge__plan_of_another_operation__refused(void **state) {
    const engines *e = *state;
    att_merge_problem p;
    att_merge_problem_init(&p, 2, 1, 1, 2, 8, ATT_F32);
    merging m;
    merging_open(&m, &p, 1);
    att_problem attention;
    att_problem_init(&attention, 1, 1, 1, 2, 2, 8, 8, ATT_F32);
    att_plan *merge, *other;
    assert_ok(att_merge_plan_create(&merge, e->ctx[0], &p));
    assert_ok(att_plan_create(&other, e->ctx[0], &attention));
    const att_args args = {.size = sizeof args};
    assert_fails(att_merge_run(other, &m.args, NULL, NULL), ATT_E_ARG, "plan",
                 "attention, not merge");
    assert_fails(att_plan_run(merge, &args, NULL, NULL), ATT_E_ARG, "plan",
                 "merge, not attention");
    att_plan_destroy(merge);
    att_plan_destroy(other);
    merging_close(&m);
}

static void test_merge__explain__lists_the_kernels_of_merge_alone(void **state) {
    const engines *e = *state;
    att_merge_problem p;
    att_merge_problem_init(&p, 2, 1, 1, 2, 8, ATT_F32);
    char text[ATT_EXPLAIN_MAX];
    assert_ok(att_merge_explain(e->ctx[0], &p, text, sizeof text));
    assert_non_null(strstr(text, "chosen   merge_cpu_portable"));
    assert_null(strstr(text, "fwd_cpu"));
    att_kernel_info info = {.size = sizeof info};
    size_t merges = 0;
    for (size_t i = 0; i < att_kernel_count(); i++) {
        assert_ok(att_kernel_query(e->ctx[0], i, &info));
        merges += strcmp(info.operation, "merge") == 0;
    }
    assert_int_equal(merges, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge__every_type_and_size__near_the_oracle),
        cmocka_unit_test(test_merge__any_strides__near_the_oracle_and_padding_untouched),
        cmocka_unit_test(test_merge__empty_parts__count_for_nothing),
        cmocka_unit_test(test_merge__infinite_and_nan_log_sums__as_the_header_says),
        cmocka_unit_test(test_merge__huge_values__stay_finite),
        cmocka_unit_test(test_merge__other_threads_and_repeats__same_bits),
        cmocka_unit_test(test_merge__bad_problems__refused_by_field),
        cmocka_unit_test(test_merge__bad_arguments__refused_and_nothing_written),
        cmocka_unit_test(test_merge__plan_of_another_operation__refused),
        cmocka_unit_test(test_merge__explain__lists_the_kernels_of_merge_alone),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
