/* test_numbers.c: answers that are known without an oracle, on every engine and dtype. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "lab/verify/verify.h"
#include "tests/support/cases.h"
#include "tests/support/fixture.h"
#include "tests/support/parsed.h"
#include "tests/support/rng.h"

/* More keys than several blocks of every kernel, and not a multiple of any; and a power of
 * two. */
enum { KEYS = 211, KEYS_EVEN = 256, D = 24 };

static att_problem problem_of(const test_case *c, int64_t keys) {
    att_problem p;
    att_problem_init(&p, 1, 4, 2, c->rows, keys, D, D, c->dtype);
    p.features = ATT_LSE;
    p.scale = 1.0f;
    return p;
}

/* How far an answer of magnitude 1 may be from the true one: one rounding of the output for 16
 * bits; for float32 the effect of rounding scores on the weights: here they reach 8, and are
 * sums of 24. */
static double slack(const test_case *c) {
    return c->dtype == ATT_F32 ? 0x1p-20 : c->dtype == ATT_F16 ? 0x1p-10 : 0x1p-7;
}

/* `x` rounded to the dtype. */
static float rounded(att_dtype dtype, double x) {
    float stored = 0.0f;
    att_store(&stored, dtype, 0, (float)x);
    return att_load(&stored, dtype, 0);
}

/* Integers of at most 2 in magnitude: every dtype holds them and every dot product is exact. */
static float small_integer(int64_t i) {
    return (float)(i * 7 % 5 - 2);
}

static void fill_integers(fixture *f, int tensor) {
    const att_dtype dtype = f->problem.dtype;
    const int64_t n = (int64_t)(f->buf[tensor].bytes / att_dtype_size(dtype));
    for (int64_t i = 0; i < n; i++)
        att_store(f->buf[tensor].data, dtype, i, small_integer(i + i / 11));
}

/* Every output row: row i of head h. */
#define EACH_ROW(f, h, i)                                                                      \
    for (int64_t h = 0; h < (f).problem.heads_q; h++)                                          \
        for (int64_t i = 0; i < (f).problem.seq_q; i++)

/* Two fixtures of one problem with the same numbers in them. */
static void open_both(fixture *a, fixture *b, const att_problem *p, uint64_t seed) {
    fixture_open(a, p, seed);
    fixture_open(b, p, seed);
}

static void run_both(fixture *a, fixture *b, att_context *ctx) {
    fixture_run_ok(a, ctx);
    fixture_run_ok(b, ctx);
}

static void close_both(fixture *a, fixture *b) {
    fixture_close(a);
    fixture_close(b);
}

static bool row_same(const fixture *f, const fixture *g, int64_t h, int64_t i) {
    bool same = fixture_lse(f, 0, h, i) == fixture_lse(g, 0, h, i);
    for (int64_t c = 0; c < f->problem.d_v; c++)
        same = same && fixture_get(f, BUF_O, 0, h, i, c) == fixture_get(g, BUF_O, 0, h, i, c);
    return same;
}

/* The same answer except for rounding: a row affected by junk is recomputed in float64. */
static void assert_row_near(const fixture *f, const fixture *g, int64_t h, int64_t i,
                            double tolerance) {
    assert_near(fixture_lse(f, 0, h, i), fixture_lse(g, 0, h, i), 3e-6);
    for (int64_t c = 0; c < f->problem.d_v; c++)
        assert_near(fixture_get(f, BUF_O, 0, h, i, c), fixture_get(g, BUF_O, 0, h, i, c),
                    tolerance);
}

/* O of the row is the mean of all of V. */
static void assert_mean_of_v(const fixture *f, int64_t h, int64_t i, double tolerance) {
    const int64_t keys = f->problem.seq_k;
    for (int64_t x = 0; x < f->problem.d_v; x++) {
        double sum = 0.0;
        for (int64_t j = 0; j < keys; j++)
            sum += (double)fixture_get(f, BUF_V, 0, h / 2, j, x);
        assert_near(fixture_get(f, BUF_O, 0, h, i, x), sum / (double)keys, tolerance);
    }
}

static bool row_nan(const fixture *f, int64_t h, int64_t i) {
    bool nan = isnan(fixture_lse(f, 0, h, i)) != 0;
    for (int64_t c = 0; c < f->problem.d_v; c++)
        nan = nan && isnan(fixture_get(f, BUF_O, 0, h, i, c));
    return nan;
}

static bool row_empty(const fixture *f, int64_t h, int64_t i) {
    bool empty = fixture_lse(f, 0, h, i) == -INFINITY;
    for (int64_t c = 0; c < f->problem.d_v; c++)
        empty = empty && fixture_get(f, BUF_O, 0, h, i, c) == 0.0f;
    return empty;
}

/* ------------------------------------------------------------ plain answers */

static void test_run__equal_logits__mean_of_v(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c, KEYS_EVEN);
    fixture f;
    fixture_open(&f, &p, 1);
    fill_integers(&f, BUF_Q);
    fill_integers(&f, BUF_V);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t j = 0; j < KEYS_EVEN; j++)
            for (int64_t x = 0; x < D; x++)
                fixture_set(&f, BUF_K, 0, h, j, x, small_integer(x));
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_mean_of_v(&f, h, i, slack(c));
    }
    fixture_close(&f);
}

static void test_run__scale_zero__mean_of_v(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS_EVEN);
    p.scale = 0.0f;
    fixture f;
    fixture_open(&f, &p, 1);
    fill_integers(&f, BUF_V);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_near(fixture_lse(&f, 0, h, i), log(KEYS_EVEN), 1e-6);
        assert_mean_of_v(&f, h, i, slack(c));
    }
    fixture_close(&f);
}

/* Key `hot` is so far above the rest that their weights vanish: O is its V. */
static void check_one_hot(const test_case *c, int64_t hot, float q, float k) {
    const att_problem p = problem_of(c, KEYS);
    fixture f;
    fixture_open(&f, &p, 2);
    fixture_fill(&f, BUF_Q, q);
    fixture_fill(&f, BUF_K, 0.0f);
    for (int64_t h = 0; h < 2; h++)
        fixture_fill_row(&f, BUF_K, 0, h, hot, k);
    fixture_run_ok(&f, c->ctx);
    const double logit = (double)rounded(c->dtype, q) * (double)rounded(c->dtype, k) * D;
    EACH_ROW(f, h, i) {
        assert_near(fixture_lse(&f, 0, h, i), logit, fabs(logit) * FLT_EPSILON);
        for (int64_t x = 0; x < D; x++)
            assert_near(fixture_get(&f, BUF_O, 0, h, i, x),
                        fixture_get(&f, BUF_V, 0, h / 2, hot, x), slack(c));
    }
    fixture_close(&f);
}

static void test_run__one_hot_anywhere__that_row_of_v(void **state) {
    static const int64_t places[] = {0, 1, 15, 16, 63, 64, KEYS / 2, KEYS - 2, KEYS - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        check_one_hot(*state, places[i], 4.0f, 4.0f);
}

/* 24 * 75 * 75 = 135000, past the range of float16; and logits of 133120 as bfloat16 spells
 * them. */
static void test_run__huge_logits__that_row_of_v(void **state) {
    check_one_hot(*state, 5, 75.0f, 75.0f);
    check_one_hot(*state, KEYS - 1, 133120.0f / 24.0f, 8.0f);
    check_one_hot(*state, 100, 2000.0f, 30000.0f);
}

/* Finite inputs whose products overflow float32: this must not give NaN. */
static void test_run__logits_past_float32__no_nan(void **state) {
    const test_case *c = *state;
    if (c->dtype == ATT_F16)
        return; /* 65504 squared, 256 times, is far inside */
    const att_problem p = problem_of(c, KEYS);
    fixture f;
    fixture_open(&f, &p, 2);
    fixture_fill(&f, BUF_Q, 0x1p126f);
    fixture_fill(&f, BUF_K, -0x1p126f);
    for (int64_t h = 0; h < 2; h++)
        fixture_fill_row(&f, BUF_K, 0, h, 77, 0x1p126f);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_true(fixture_lse(&f, 0, h, i) ==
                    INFINITY); /* the true one is past float32 too */
        for (int64_t x = 0; x < D; x++)
            assert_near(fixture_get(&f, BUF_O, 0, h, i, x),
                        fixture_get(&f, BUF_V, 0, h / 2, 77, x), slack(c));
    }
    fixture_close(&f);
}

/* Every logit is below the smallest float32, and all are equal: the mean of V, not an empty
 * row. */
static void test_run__all_logits_below_float32__mean_of_v(void **state) {
    const test_case *c = *state;
    if (c->dtype == ATT_F16)
        return;
    const att_problem p = problem_of(c, KEYS_EVEN);
    fixture f;
    fixture_open(&f, &p, 2);
    fixture_fill(&f, BUF_Q, 0x1p126f);
    fixture_fill(&f, BUF_K, -0x1p126f);
    fill_integers(&f, BUF_V);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_true(fixture_lse(&f, 0, h, i) == -INFINITY);
        assert_mean_of_v(&f, h, i, slack(c));
    }
    fixture_close(&f);
}

/* Every key raises the maximum, so that everything accumulated so far is rescaled each time. */
static void test_run__maximum_arrives_last__matches_float64(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c, KEYS);
    fixture f;
    fixture_open(&f, &p, 3);
    fixture_fill(&f, BUF_Q, 0.0f);
    for (int64_t h = 0; h < 4; h++)
        for (int64_t i = 0; i < c->rows; i++)
            fixture_set(&f, BUF_Q, 0, h, i, 0, 0.25f);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t j = 0; j < KEYS; j++)
            fixture_set(&f, BUF_K, 0, h, j, 0, (float)j);
    fixture_run_ok(&f, c->ctx);
    double sum = 0.0, answer[2][D] = {{0}};
    for (int64_t j = 0; j < KEYS; j++) {
        const double weight = exp(0.25 * (double)(j - (KEYS - 1)));
        sum += weight;
        for (int64_t h = 0; h < 2; h++)
            for (int64_t x = 0; x < D; x++)
                answer[h][x] += weight * (double)fixture_get(&f, BUF_V, 0, h, j, x);
    }
    EACH_ROW(f, h, i) {
        assert_near(fixture_lse(&f, 0, h, i), 0.25 * (KEYS - 1) + log(sum), 1e-5);
        for (int64_t x = 0; x < D; x++)
            assert_near(fixture_get(&f, BUF_O, 0, h, i, x), answer[h / 2][x] / sum, slack(c));
    }
    fixture_close(&f);
}

/* A constant added to every key adds the same to every logit of a row. */
static void test_run__k_shifted_by_a_constant__o_unchanged(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c, KEYS);
    fixture f, g;
    open_both(&f, &g, &p, 4);
    fill_integers(&f, BUF_Q);
    fill_integers(&g, BUF_Q);
    fill_integers(&f, BUF_K);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t j = 0; j < KEYS; j++)
            for (int64_t x = 0; x < D; x++)
                fixture_set(&g, BUF_K, 0, h, j, x, fixture_get(&f, BUF_K, 0, h, j, x) + 16.0f);
    run_both(&f, &g, c->ctx);
    const double tolerance = fmax(slack(c), 1e-4); /* logits of 700 are known to 6e-5 */
    EACH_ROW(f, h, i) {
        double shift = 0.0;
        for (int64_t x = 0; x < D; x++)
            shift += 16.0 * (double)fixture_get(&f, BUF_Q, 0, h, i, x);
        assert_near(fixture_lse(&g, 0, h, i), (double)fixture_lse(&f, 0, h, i) + shift, 1e-4);
        for (int64_t x = 0; x < D; x++)
            assert_near(fixture_get(&g, BUF_O, 0, h, i, x), fixture_get(&f, BUF_O, 0, h, i, x),
                        tolerance);
    }
    close_both(&f, &g);
}

static void test_run__scale_negative__as_q_negated(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS);
    p.scale = 0.3f;
    fixture f, g;
    fixture_open(&f, &p, 5);
    p.scale = -0.3f;
    fixture_open(&g, &p, 5);
    for (int64_t h = 0; h < 4; h++)
        for (int64_t i = 0; i < c->rows; i++)
            for (int64_t x = 0; x < D; x++)
                fixture_set(&g, BUF_Q, 0, h, i, x, -fixture_get(&f, BUF_Q, 0, h, i, x));
    run_both(&f, &g, c->ctx);
    EACH_ROW(f, h, i) {
        assert_row_near(&f, &g, h, i, slack(c));
    }
    close_both(&f, &g);
}

static void test_lse__random_problem__matches_float64(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS);
    p.scale = 0.7f;
    fixture f;
    fixture_open(&f, &p, 6);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        double sum = 0.0;
        for (int64_t j = 0; j < KEYS; j++) {
            double s = 0.0;
            for (int64_t x = 0; x < D; x++)
                s += (double)fixture_get(&f, BUF_Q, 0, h, i, x) *
                     (double)fixture_get(&f, BUF_K, 0, h / 2, j, x);
            sum += exp((double)p.scale * s);
        }
        assert_near(fixture_lse(&f, 0, h, i), log(sum), 3e-6);
    }
    fixture_close(&f);
}

/* ------------------------------------------------------- NaN and infinities */

/* Keys at which a NaN is planted: the first, inside a vector, at the edge of one, and one that
 * only the last row sees. */
static const int64_t nan_places[] = {0, 7, 16, 36};
enum { NAN_PLACES = sizeof nan_places / sizeof nan_places[0] };

/* Run a causal problem clean, and with a NaN in column 3 of key `at` of K or V, K/V head 1. */
static void run_with_nan(const test_case *c, int tensor, int64_t at, fixture *clean,
                         fixture *f) {
    att_problem p = problem_of(c, 40);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    open_both(clean, f, &p, 7);
    fixture_set(f, tensor, 0, 1, at, 3, NAN);
    run_both(clean, f, c->ctx);
}

static void test_run__nan_in_visible_k__reaches_exactly_who_sees_it(void **state) {
    const test_case *c = *state;
    for (size_t place = 0; place < NAN_PLACES; place++) {
        const int64_t at = nan_places[place];
        fixture clean, f;
        run_with_nan(c, BUF_K, at, &clean, &f);
        EACH_ROW(f, h, i) {
            const bool sees = h / 2 == 1 && i >= at;
            assert_true(sees ? row_nan(&f, h, i) : row_same(&f, &clean, h, i));
        }
        close_both(&clean, &f);
    }
}

/* A NaN in V reaches its own column of the rows that see it, and does not affect the
 * weights. */
static void test_run__nan_in_visible_v__reaches_exactly_who_sees_it(void **state) {
    const test_case *c = *state;
    for (size_t place = 0; place < NAN_PLACES; place++) {
        const int64_t at = nan_places[place];
        fixture clean, f;
        run_with_nan(c, BUF_V, at, &clean, &f);
        EACH_ROW(f, h, i) {
            const bool sees = h / 2 == 1 && i >= at;
            if (!sees) {
                assert_row_near(&f, &clean, h, i, slack(c));
                continue;
            }
            assert_near(fixture_lse(&f, 0, h, i), fixture_lse(&clean, 0, h, i), 3e-6);
            for (int64_t x = 0; x < D; x++) {
                if (x == 3)
                    assert_true(isnan(fixture_get(&f, BUF_O, 0, h, i, x)));
                else
                    assert_near(fixture_get(&f, BUF_O, 0, h, i, x),
                                fixture_get(&clean, BUF_O, 0, h, i, x), slack(c));
            }
        }
        close_both(&clean, &f);
    }
}

static void test_run__nan_in_q__its_row_alone(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c, KEYS);
    fixture clean, f;
    open_both(&clean, &f, &p, 8);
    fixture_set(&f, BUF_Q, 0, 2, c->rows / 2, D - 1, NAN);
    run_both(&clean, &f, c->ctx);
    EACH_ROW(f, h, i) {
        const bool hit = h == 2 && i == c->rows / 2;
        assert_true(hit ? row_nan(&f, h, i) : row_same(&f, &clean, h, i));
    }
    close_both(&clean, &f);
}

static void test_run__infinity_in_visible_v__infinite_or_nan(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c, KEYS_EVEN);
    fixture f;
    fixture_open(&f, &p, 9);
    fixture_fill(&f, BUF_K, 0.0f);
    for (int64_t h = 0; h < 2; h++) {
        fixture_set(&f, BUF_V, 0, h, 200, 0, INFINITY);
        fixture_set(&f, BUF_V, 0, h, 3, 1, -INFINITY);
        fixture_set(&f, BUF_V, 0, h, 3, 2, INFINITY);
        fixture_set(&f, BUF_V, 0, h, 100, 2, -INFINITY);
    }
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_true(fixture_get(&f, BUF_O, 0, h, i, 0) == INFINITY);
        assert_true(fixture_get(&f, BUF_O, 0, h, i, 1) == -INFINITY);
        assert_true(isnan(fixture_get(&f, BUF_O, 0, h, i, 2)));
        assert_near(fixture_lse(&f, 0, h, i), log(KEYS_EVEN), 1e-6);
        for (int64_t x = 3; x < D; x++)
            assert_true(isfinite(fixture_get(&f, BUF_O, 0, h, i, x)));
    }
    fixture_close(&f);
}

static void test_run__infinite_visible_logit__row_is_nan(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, 40);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    fixture f;
    fixture_open(&f, &p, 9);
    fixture_fill(&f, BUF_Q, 1.0f);
    fixture_set(&f, BUF_K, 0, 0, 20, 0, INFINITY);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_int_equal(isnan(fixture_get(&f, BUF_O, 0, h, i, 0)) != 0, h / 2 == 0 && i >= 20);
    }
    fixture_close(&f);
}

/* The contents of hidden places, in K or in V. */
static const float JUNK[] = {NAN, INFINITY, -INFINITY};

/* Run once with clean and once with spoiled hidden keys: the same answers. hidden(j) applies to
 * all rows. */
static void check_hidden(const test_case *c, fixture *clean, fixture *f, int64_t keys,
                         bool (*hidden)(int64_t j, int64_t keys)) {
    for (int64_t j = 0; j < keys; j++) {
        if (!hidden(j, keys))
            continue;
        for (int64_t h = 0; h < 2; h++) {
            fixture_fill_row(f, BUF_K, 0, h, j, JUNK[j % 3]);
            fixture_fill_row(f, BUF_V, 0, h, j, JUNK[(j + h + 1) % 3]);
        }
    }
    run_both(clean, f, c->ctx);
    EACH_ROW(*f, h, i) {
        assert_row_near(f, clean, h, i, slack(c));
    }
    close_both(clean, f);
}

static bool hidden_tail(int64_t j, int64_t keys) {
    return j >= keys - 43;
}

static bool hidden_thirds(int64_t j, int64_t keys) {
    return j % 3 == 1 || j > keys - 3;
}

static bool hidden_outside_window(int64_t j, int64_t keys) {
    return j < 30 || j > keys - 60;
}

static void test_run__junk_past_lens_k__never_leaks(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS);
    p.features |= ATT_LENS_K;
    fixture clean, f;
    open_both(&clean, &f, &p, 10);
    ((int32_t *)(void *)clean.buf[BUF_LENS_K].data)[0] = KEYS - 43;
    ((int32_t *)(void *)f.buf[BUF_LENS_K].data)[0] = KEYS - 43;
    check_hidden(c, &clean, &f, KEYS, hidden_tail);
}

static bool hidden_head(int64_t j, int64_t keys) {
    (void)keys;
    return j < 43;
}

static void test_run__junk_before_starts_k__never_leaks(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS);
    p.features |= ATT_STARTS_K;
    fixture clean, f;
    open_both(&clean, &f, &p, 10);
    ((int32_t *)(void *)clean.buf[BUF_STARTS_K].data)[0] = 43;
    ((int32_t *)(void *)f.buf[BUF_STARTS_K].data)[0] = 43;
    check_hidden(c, &clean, &f, KEYS, hidden_head);
}

static void test_run__junk_past_the_causal_edge__never_leaks(void **state) {
    const test_case *c = *state;
    const int64_t keys = c->rows + 43;
    att_problem p = problem_of(c, keys);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    fixture clean, f;
    open_both(&clean, &f, &p, 10);
    check_hidden(c, &clean, &f, keys, hidden_tail);
}

/* Row i has its diagonal at key 120 + i, and a window of 90 reaches back to 30 + i. */
static void test_run__junk_outside_the_window__never_leaks(void **state) {
    const test_case *c = *state;
    const int64_t keys = c->rows + 120;
    att_problem p = problem_of(c, keys);
    p.causal = ATT_CAUSAL_NONE;
    p.align = ATT_ALIGN_BOTTOM_RIGHT;
    p.window_left = 90;
    p.window_right = 0;
    fixture clean, f;
    open_both(&clean, &f, &p, 10);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t j = 0; j < 30; j++) {
            fixture_fill_row(&f, BUF_K, 0, h, j, JUNK[j % 3]);
            fixture_fill_row(&f, BUF_V, 0, h, j, JUNK[(j + 1) % 3]);
        }
    run_both(&clean, &f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_true(row_same(&f, &clean, h, i));
    }
    close_both(&clean, &f);
}

static void open_with_bias(fixture *f, const test_case *c, att_dtype bias_dtype,
                           bool (*hidden)(int64_t j, int64_t keys)) {
    att_problem p = problem_of(c, KEYS);
    p.features |= ATT_BIAS;
    p.bias_dtype = bias_dtype;
    p.bias = (att_strides){0, 0, 0, 1};
    fixture_open(f, &p, 10);
    for (int64_t j = 0; j < KEYS; j++) {
        const float open = bias_dtype == ATT_BOOL8 ? 1.0f : 0.25f;
        const float shut = bias_dtype == ATT_BOOL8 ? 0.0f : -INFINITY;
        fixture_set_bias(f, 0, 0, 0, j, hidden(j, KEYS) ? shut : open);
    }
}

static void test_run__junk_behind_a_boolean_mask__never_leaks(void **state) {
    const test_case *c = *state;
    fixture clean, f;
    open_with_bias(&clean, c, ATT_BOOL8, hidden_thirds);
    open_with_bias(&f, c, ATT_BOOL8, hidden_thirds);
    check_hidden(c, &clean, &f, KEYS, hidden_thirds);
    open_with_bias(&clean, c, ATT_BOOL8, hidden_outside_window);
    open_with_bias(&f, c, ATT_BOOL8, hidden_outside_window);
    check_hidden(c, &clean, &f, KEYS, hidden_outside_window);
}

static void test_run__junk_behind_a_bias_of_minus_infinity__never_leaks(void **state) {
    const test_case *c = *state;
    fixture clean, f;
    open_with_bias(&clean, c, c->dtype, hidden_thirds);
    open_with_bias(&f, c, c->dtype, hidden_thirds);
    check_hidden(c, &clean, &f, KEYS, hidden_thirds);
}

/* ------------------------------------------------------------------- edges */

static void test_run__bias_row_of_minus_infinity__zero_and_minus_infinity(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS);
    p.features |= ATT_BIAS;
    p.bias_dtype = ATT_F32;
    p.bias = (att_strides){0, 0, KEYS, 1};
    fixture f;
    fixture_open(&f, &p, 11);
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < KEYS; j++)
            if (i % 2 == 0)
                fixture_set_bias(&f, 0, 0, i, j, -INFINITY);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_int_equal(row_empty(&f, h, i), i % 2 == 0);
    }
    fixture_close(&f);
}

static void test_run__bias_of_plus_infinity__row_is_nan(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS);
    p.features |= ATT_BIAS;
    p.bias_dtype = ATT_F32;
    p.bias = (att_strides){0, 0, KEYS, 1};
    fixture f;
    fixture_open(&f, &p, 11);
    fixture_set_bias(&f, 0, 0, c->rows - 1, 150, INFINITY);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_int_equal(isnan(fixture_get(&f, BUF_O, 0, h, i, 0)) != 0, i == c->rows - 1);
    }
    fixture_close(&f);
}

static void test_run__no_keys__zero_and_minus_infinity(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c, 0);
    fixture f;
    fixture_open(&f, &p, 12);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_true(row_empty(&f, h, i));
    }
    fixture_close(&f);
}

static void test_run__no_keys_but_a_sink__zero_and_the_sink(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, 0);
    p.features |= ATT_SINKS;
    fixture f;
    fixture_open(&f, &p, 12);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_near(fixture_lse(&f, 0, h, i), f.args.sinks[h], 1e-6);
        for (int64_t x = 0; x < D; x++)
            assert_true(fixture_get(&f, BUF_O, 0, h, i, x) == 0.0f);
    }
    fixture_close(&f);
}

/* A very low sink changes nothing, one of log(n) halves the mean of n equal keys. */
static void test_run__sink__takes_its_share(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS_EVEN);
    p.features |= ATT_SINKS;
    p.dtype_o = ATT_F32;
    p.scale = 0.0f;
    fixture f;
    fixture_open(&f, &p, 13);
    fixture_fill(&f, BUF_V, 1.0f);
    float *sinks = (float *)(void *)f.buf[BUF_SINKS].data;
    sinks[0] = -1000.0f;
    sinks[1] = (float)log(KEYS_EVEN);
    sinks[2] = -INFINITY;
    sinks[3] = 1000.0f;
    fixture_run_ok(&f, c->ctx);
    static const double share[] = {1.0, 0.5, 1.0, 0.0};
    EACH_ROW(f, h, i) {
        const double lse = h == 3 ? 1000.0 : log(KEYS_EVEN / share[h]);
        assert_near(fixture_lse(&f, 0, h, i), lse, 1e-6 * lse);
        for (int64_t x = 0; x < D; x++)
            assert_near(fixture_get(&f, BUF_O, 0, h, i, x), share[h], 1e-6);
    }
    fixture_close(&f);
}

/* Scale and softcap are far apart, and their quotient is 0 in float32; the scaled scores are not. */
static void test_run__softcap_far_above_the_scale__leaves_the_scores(void **state) {
    const test_case *c = *state;
    enum { GREATEST = 150 };
    if (c->dtype == ATT_F16)
        return; /* does not reach such scores */
    att_problem p = problem_of(c, KEYS);
    p.dtype_o = ATT_F32;
    p.scale = 0x1p-100f;
    p.softcap = 0x1p60f;
    fixture f;
    fixture_open(&f, &p, 14);
    fixture_fill(&f, BUF_Q, 0x1p50f);
    fixture_fill(&f, BUF_K, 0.0f);
    for (int64_t h = 0; h < p.heads_kv; h++)
        fixture_fill_row(&f, BUF_K, 0, h, GREATEST, 0x1p50f);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_near(fixture_lse(&f, 0, h, i), D, 1e-5);
        for (int64_t x = 0; x < D; x++)
            assert_near(fixture_get(&f, BUF_O, 0, h, i, x),
                        fixture_get(&f, BUF_V, 0, h / 2, GREATEST, x), 1e-6);
    }
    fixture_close(&f);
}

/* Scores beyond the range of float32: above, the greatest takes all of the weight; below, a sink
 * does, unless it is -inf. */
static void test_run__sink_beside_scores_beyond_float32__one_takes_all(void **state) {
    const test_case *c = *state;
    enum { GREATEST = 150, LEAST = 70 };
    att_problem p = problem_of(c, KEYS);
    p.features |= ATT_SINKS;
    p.dtype_o = ATT_F32;
    for (int sign = -1; sign <= 1; sign += 2) {
        p.scale = (float)sign * 1.6e38f;
        fixture f;
        fixture_open(&f, &p, 13);
        fixture_fill(&f, BUF_Q, 1.0f);
        fixture_fill(&f, BUF_K, 2.0f);
        for (int64_t h = 0; h < p.heads_kv; h++) {
            fixture_fill_row(&f, BUF_K, 0, h, GREATEST, 3.0f);
            fixture_fill_row(&f, BUF_K, 0, h, LEAST, 1.0f);
        }
        float *sinks = (float *)(void *)f.buf[BUF_SINKS].data;
        sinks[0] = -INFINITY;
        sinks[1] = -FLT_MAX;
        sinks[2] = 0.0f;
        sinks[3] = FLT_MAX;
        fixture_run_ok(&f, c->ctx);
        EACH_ROW(f, h, i) {
            const int64_t key = sign > 0 ? GREATEST : LEAST;
            const bool sink = sign < 0 && h > 0;
            assert_true(fixture_lse(&f, 0, h, i) == (sink ? sinks[h] : (float)sign * INFINITY));
            for (int64_t x = 0; x < D; x++) {
                const float v = sink ? 0.0f : fixture_get(&f, BUF_V, 0, h / 2, key, x);
                assert_true(fixture_get(&f, BUF_O, 0, h, i, x) == v);
            }
        }
        fixture_close(&f);
    }
}

/* Subnormal inputs of float16 are normal numbers in float32; an engine may flush those of the
 * other types. */
static void test_run__denormals__mean_within_the_least_normal(void **state) {
    const test_case *c = *state;
    att_problem p = problem_of(c, KEYS_EVEN);
    p.dtype_o = ATT_F32;
    const float tiny = c->dtype == ATT_F16    ? 0x1p-24f
                       : c->dtype == ATT_BF16 ? 0x1p-133f
                                              : 0x1p-149f;
    fixture f;
    fixture_open(&f, &p, 14);
    fixture_fill(&f, BUF_K, tiny);
    fixture_fill(&f, BUF_V, 3.0f * tiny);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_near(fixture_lse(&f, 0, h, i), log(KEYS_EVEN), 1e-5);
        for (int64_t x = 0; x < D; x++)
            assert_near(fixture_get(&f, BUF_O, 0, h, i, x), 3.0 * (double)tiny,
                        c->dtype == ATT_F16 ? 1e-12 : (double)FLT_MIN);
    }
    fixture_close(&f);
}

static void test_run__zeros_of_either_sign__zero(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c, KEYS);
    fixture f;
    fixture_open(&f, &p, 15);
    fixture_fill(&f, BUF_Q, -0.0f);
    fixture_fill(&f, BUF_V, -0.0f);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        assert_near(fixture_lse(&f, 0, h, i), log(KEYS), 1e-6);
        for (int64_t x = 0; x < D; x++)
            assert_true(fixture_get(&f, BUF_O, 0, h, i, x) == 0.0f);
    }
    fixture_close(&f);
}

/* The largest finite values in V with equal weights: the mean is finite. */
static void test_run__largest_finite_v__stays_finite(void **state) {
    const test_case *c = *state;
    const att_problem p = problem_of(c, KEYS_EVEN);
    const float largest = c->dtype == ATT_F16    ? 65504.0f
                          : c->dtype == ATT_BF16 ? 0x1.fep127f
                                                 : FLT_MAX;
    fixture f;
    fixture_open(&f, &p, 16);
    fixture_fill(&f, BUF_K, 0.0f);
    fixture_fill(&f, BUF_V, largest);
    fixture_run_ok(&f, c->ctx);
    EACH_ROW(f, h, i) {
        for (int64_t x = 0; x < D; x++)
            assert_near(fixture_get(&f, BUF_O, 0, h, i, x) / largest, 1.0, 1e-2);
    }
    fixture_close(&f);
}

/* 128k keys into one row: the error stays under the bar that the plain reference sets. */
static void test_run__128k_keys__no_drift(void **state) {
    const test_case *c = *state;
    if (c->rows != 1)
        return;
    static const char *const names[] = {
        [ATT_F32] = "f32", [ATT_F16] = "fp16", [ATT_BF16] = "bf16"};
    char text[64];
    snprintf(text, sizeof text, "b1h1s1sk131072d16,%s,o=f32,lse", names[c->dtype]);
    const lab_spec spec = parsed(text);
    const lab_verify_options options = {.seed = 3};
    lab_verify_result result;
    lab_verify_spec(&result, c->ctx, &spec, &options);
    if (result.outcome != LAB_PASS)
        fail_msg("%s", result.message);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run__equal_logits__mean_of_v),
        cmocka_unit_test(test_run__scale_zero__mean_of_v),
        cmocka_unit_test(test_run__one_hot_anywhere__that_row_of_v),
        cmocka_unit_test(test_run__huge_logits__that_row_of_v),
        cmocka_unit_test(test_run__logits_past_float32__no_nan),
        cmocka_unit_test(test_run__all_logits_below_float32__mean_of_v),
        cmocka_unit_test(test_run__maximum_arrives_last__matches_float64),
        cmocka_unit_test(test_run__k_shifted_by_a_constant__o_unchanged),
        cmocka_unit_test(test_run__scale_negative__as_q_negated),
        cmocka_unit_test(test_lse__random_problem__matches_float64),
        cmocka_unit_test(test_run__nan_in_visible_k__reaches_exactly_who_sees_it),
        cmocka_unit_test(test_run__nan_in_visible_v__reaches_exactly_who_sees_it),
        cmocka_unit_test(test_run__nan_in_q__its_row_alone),
        cmocka_unit_test(test_run__infinity_in_visible_v__infinite_or_nan),
        cmocka_unit_test(test_run__infinite_visible_logit__row_is_nan),
        cmocka_unit_test(test_run__junk_past_lens_k__never_leaks),
        cmocka_unit_test(test_run__junk_before_starts_k__never_leaks),
        cmocka_unit_test(test_run__junk_past_the_causal_edge__never_leaks),
        cmocka_unit_test(test_run__junk_outside_the_window__never_leaks),
        cmocka_unit_test(test_run__junk_behind_a_boolean_mask__never_leaks),
        cmocka_unit_test(test_run__junk_behind_a_bias_of_minus_infinity__never_leaks),
        cmocka_unit_test(test_run__bias_row_of_minus_infinity__zero_and_minus_infinity),
        cmocka_unit_test(test_run__bias_of_plus_infinity__row_is_nan),
        cmocka_unit_test(test_run__no_keys__zero_and_minus_infinity),
        cmocka_unit_test(test_run__no_keys_but_a_sink__zero_and_the_sink),
        cmocka_unit_test(test_run__sink__takes_its_share),
        cmocka_unit_test(test_run__softcap_far_above_the_scale__leaves_the_scores),
        cmocka_unit_test(test_run__sink_beside_scores_beyond_float32__one_takes_all),
        cmocka_unit_test(test_run__denormals__mean_within_the_least_normal),
        cmocka_unit_test(test_run__zeros_of_either_sign__zero),
        cmocka_unit_test(test_run__largest_finite_v__stays_finite),
        cmocka_unit_test(test_run__128k_keys__no_drift),
    };
    return cases_run(tests, sizeof tests / sizeof tests[0]);
}
