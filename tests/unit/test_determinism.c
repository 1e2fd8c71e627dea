/* test_determinism.c: the same bits every time, and no row depends on its neighbours. */
#include <math.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/engines.h"
#include "tests/support/fixture.h"
#include "tests/support/instrumented.h"
#include "tests/support/problems.h"

static const att_dtype DTYPES[] = {ATT_F32, ATT_F16, ATT_BF16};

static int repeats(void) {
    return is_instrumented() ? 10 : 250;
}

static void repeat(att_context *ctx, const att_problem *problem) {
    fixture f;
    att_plan *plan;
    fixture_open(&f, problem, 9);
    fixture_run_ok(&f, ctx);
    void *o = fixture_copy(&f, BUF_O);
    void *lse = fixture_copy(&f, BUF_LSE);
    assert_ok(att_plan_create(&plan, ctx, problem));
    for (int i = 0; i < repeats(); i++) {
        fixture_poison(&f);
        assert_ok(
            att_plan_run(plan, &f.args, f.workspace.bytes ? f.workspace.data : NULL, NULL));
        assert_true(fixture_same(&f, BUF_O, o));
        assert_true(fixture_same(&f, BUF_LSE, lse));
    }
    att_plan_destroy(plan);
    free(o);
    free(lse);
    fixture_close(&f);
}

static void test_run__many_repeats_on_each_engine__bit_equal(void **state) {
    engines *e = *state;
    for (int i = 0; i < e->count; i++)
        for (size_t t = 0; t < 3; t++) {
            att_problem p;
            att_problem_init(&p, 1, 4, 2, 37, 67, 20, 12, DTYPES[t]);
            p.features = ATT_LSE;
            repeat(e->ctx[i], &p);
            att_problem_init(&p, 1, 2, 1, 1, 1030, 16, 16, DTYPES[t]);
            p.features = ATT_LSE;
            repeat(e->ctx[i], &p);
        }
}

/* The same if several threads share the work, in any order. */
static void test_run__many_repeats_by_several_threads__bit_equal(void **state) {
    engines *e = *state;
    att_context *top = e->ctx[e->count - 1];
    for (size_t t = 0; t < 3; t++) {
        att_problem p;
        att_problem_init(&p, 1, 4, 2, 1, 8192, 64, 64, DTYPES[t]);
        p.features = ATT_LSE;
        repeat(top, &p);
        att_problem_init(&p, 1, 4, 2, 128, 96, 48, 40, DTYPES[t]);
        p.features = ATT_LSE;
        repeat(top, &p);
    }
}

/* O and LSE of batch entry b, row i, are the same bits in both fixtures. */
static void assert_row_equal(const fixture *f, const fixture *g, int64_t b, int64_t i) {
    for (int64_t h = 0; h < f->problem.heads_q; h++) {
        for (int64_t c = 0; c < f->problem.d_v; c++)
            assert_true(fixture_get(f, BUF_O, b, h, i, c) == fixture_get(g, BUF_O, b, h, i, c));
        assert_true(fixture_lse(f, b, h, i) == fixture_lse(g, b, h, i));
    }
}

/* What a neighbour in the batch may contain that is most likely to disturb: large values, NaN,
 * infinities. */
static const float DISTURBANCES[] = {1000.0f, -3.0f, NAN, INFINITY};

static void test_row__batch_mates_change__same_bits(void **state) {
    engines *e = *state;
    static const int64_t rows[] = {1, 33};
    for (int i = 0; i < e->count; i++)
        for (size_t t = 0; t < 3; t++)
            for (size_t r = 0; r < 2; r++) {
                att_problem p;
                att_problem_init(&p, 3, 2, 1, rows[r], 50, 24, 24, DTYPES[t]);
                p.features = ATT_LSE;
                fixture f, g;
                fixture_open(&f, &p, 4);
                fixture_run_ok(&f, e->ctx[i]);
                fixture_open(&g, &p, 4);
                for (int64_t j = 0; j < 50; j++) {
                    fixture_fill_row(&g, BUF_K, 0, 0, j, DISTURBANCES[j % 4]);
                    fixture_fill_row(&g, BUF_V, 2, 0, j, DISTURBANCES[j % 4]);
                }
                fixture_run_ok(&g, e->ctx[i]);
                for (int64_t row = 0; row < rows[r]; row++)
                    assert_row_equal(&f, &g, 1, row);
                assert_true(isnan(fixture_get(&g, BUF_O, 0, 0, 0, 0)));
                fixture_close(&f);
                fixture_close(&g);
            }
}

/* Rows of one tile share their K/V block and nothing else. */
static void test_row__other_rows_of_its_tile_change__same_bits(void **state) {
    engines *e = *state;
    for (int i = 0; i < e->count; i++)
        for (size_t t = 0; t < 3; t++) {
            att_problem p;
            att_problem_init(&p, 1, 2, 1, 21, 80, 24, 24, DTYPES[t]);
            p.features = ATT_LSE;
            fixture f, g;
            fixture_open(&f, &p, 4);
            fixture_run_ok(&f, e->ctx[i]);
            fixture_open(&g, &p, 4);
            for (int64_t row = 0; row < 21; row += 2)
                for (int64_t h = 0; h < 2; h++)
                    fixture_fill_row(&g, BUF_Q, 0, h, row, DISTURBANCES[row / 2 % 4]);
            fixture_run_ok(&g, e->ctx[i]);
            for (int64_t row = 1; row < 21; row += 2)
                assert_row_equal(&f, &g, 0, row);
            fixture_close(&f);
            fixture_close(&g);
        }
}

/* One row over many keys, split between 8 threads and not split at all. */
static void test_run__keys_split_and_not__agree(void **state) {
    (void)state;
    att_isa isas[ENGINES_MAX];
    const int count = machine_isas(isas);
    for (int i = 0; i < count; i++)
        for (size_t t = 0; t < 3; t++) {
            att_problem p;
            att_problem_init(&p, 1, 2, 1, 1, 20000, 64, 64, DTYPES[t]);
            p.features = ATT_LSE;
            p.dtype_o = ATT_F32;
            att_context *one = context_open(isas[i], 1);
            att_context *eight = context_open(isas[i], 8);
            fixture whole, split;
            fixture_open(&whole, &p, 6);
            fixture_run_ok(&whole, one);
            fixture_open(&split, &p, 6);
            fixture_run_ok(&split, eight);
            assert_int_equal(whole.launch.grid[1], 1);
            assert_true(split.launch.grid[1] > 1);
            /* P is rounded to the input type, relative to another maximum in each split */
            const double tolerance = DTYPES[t] == ATT_BF16 ? 1e-4 : 2e-6;
            for (int64_t h = 0; h < 2; h++) {
                assert_near(fixture_lse(&split, 0, h, 0), fixture_lse(&whole, 0, h, 0), 2e-6);
                for (int64_t c = 0; c < 64; c++)
                    assert_near(fixture_get(&split, BUF_O, 0, h, 0, c),
                                fixture_get(&whole, BUF_O, 0, h, 0, c), tolerance);
            }
            fixture_close(&whole);
            fixture_close(&split);
            att_context_destroy(one);
            att_context_destroy(eight);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run__many_repeats_on_each_engine__bit_equal),
        cmocka_unit_test(test_run__many_repeats_by_several_threads__bit_equal),
        cmocka_unit_test(test_row__batch_mates_change__same_bits),
        cmocka_unit_test(test_row__other_rows_of_its_tile_change__same_bits),
        cmocka_unit_test(test_run__keys_split_and_not__agree),
    };
    return cmocka_run_group_tests(tests, engines_setup, engines_teardown);
}
