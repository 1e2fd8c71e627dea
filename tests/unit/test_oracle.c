/* test_oracle.c: the oracle and the plain reference compared with hand-computed numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "attention/ref/oracle.h"
#include "attention/ref/plain.h"
#include "lab/tensors/tensors.h"
#include "tests/support/check.h"
#include "tests/support/parsed.h"

enum { KEYS_MAX = 64, D_MAX = 32 };

static const double tiny = 1e-13; /* float64 compared with numbers that are exact on paper */
static const double small = 1e-7; /* where an input such as ln 3 was rounded to float32 */

/* One head, one batch entry, float32, scale 1, d = 1: the score of key j is q * k[j]. */
static att_problem scalar_problem(int64_t rows, int64_t keys) {
    att_problem p;
    att_problem_init(&p, 1, 1, 1, rows, keys, 1, 1, ATT_F32);
    p.scale = 1.0f;
    return p;
}

static void row_of(const att_problem *p, const att_args *a, int64_t b, int64_t h, int64_t i,
                   double *o, double *lse) {
    double logits[KEYS_MAX];
    att_ref_row(p, a, b, h, i, logits, o, lse);
}

/* Row i of a scalar problem must be `o` and `lse`. */
static void assert_row(const att_problem *p, const att_args *a, int64_t i, double o, double lse,
                       double tolerance) {
    double got_o[D_MAX], got_lse;
    row_of(p, a, 0, 0, i, got_o, &got_lse);
    assert_near(got_o[0], o, tolerance);
    assert_near(got_lse, lse, tolerance);
}

/* ------------------------------------------------------------ one feature each */

static void test_row__two_keys__known_softmax(void **state) {
    (void)state;
    /* scores 0 and ln 3: weights 1/4 and 3/4; 4 * 3/4 = 3; sum of exponentials 4 */
    const att_problem p = scalar_problem(1, 2);
    const float q[] = {1.0f}, k[] = {0.0f, logf(3.0f)}, v[] = {0.0f, 4.0f};
    const att_args a = {.q = q, .k = k, .v = v};
    assert_row(&p, &a, 0, 3.0, log(4.0), small);
}

static void test_row__scale__multiplies_scores(void **state) {
    (void)state;
    /* -2 * (0, -ln 3 / 2) = (0, ln 3) */
    att_problem p = scalar_problem(1, 2);
    p.scale = -2.0f;
    const float q[] = {1.0f}, k[] = {0.0f, -0.5f * logf(3.0f)}, v[] = {0.0f, 4.0f};
    const att_args a = {.q = q, .k = k, .v = v};
    assert_row(&p, &a, 0, 3.0, log(4.0), small);
}

static void test_row__scale_zero__mean_of_values(void **state) {
    (void)state;
    att_problem p = scalar_problem(1, 4);
    p.scale = 0.0f;
    const float q[] = {3.0f}, k[] = {1.0f, -5.0f, 70.0f, 2.0f}, v[] = {1.0f, 2.0f, 3.0f, 6.0f};
    const att_args a = {.q = q, .k = k, .v = v};
    assert_row(&p, &a, 0, 3.0, log(4.0), tiny);
}

static void test_row__many_columns__dot_product(void **state) {
    (void)state;
    /* q.k = 1*4 + 2*(-1) + 3*0 = 2 and 1*0 + 2*1 + 3*0 = 2: equal, so the mean, per column */
    att_problem p;
    att_problem_init(&p, 1, 1, 1, 1, 2, 3, 2, ATT_F32);
    p.scale = 0.5f;
    const float q[] = {1, 2, 3}, k[] = {4, -1, 0, 0, 1, 0}, v[] = {1, 10, 3, 30};
    const att_args a = {.q = q, .k = k, .v = v};
    double o[2], lse;
    row_of(&p, &a, 0, 0, 0, o, &lse);
    assert_near(o[0], 2.0, tiny);
    assert_near(o[1], 20.0, tiny);
    assert_near(lse, 1.0 + log(2.0), tiny);
}

static void test_row__softcap__bends_scores(void **state) {
    (void)state;
    /* 2 * tanh(2 atanh(1/2) / 2) = 1: scores 0 and 1, weight of the second e / (1 + e) */
    att_problem p = scalar_problem(1, 2);
    p.softcap = 2.0f;
    const float q[] = {1.0f}, k[] = {0.0f, 2.0f * atanhf(0.5f)}, v[] = {0.0f, 1.0f};
    const att_args a = {.q = q, .k = k, .v = v};
    assert_row(&p, &a, 0, exp(1.0) / (1.0 + exp(1.0)), log(1.0 + exp(1.0)), small);
}

static void test_row__alibi__halves_per_key_of_distance(void **state) {
    (void)state;
    /* slope ln 2, row 0: weights 1, 1/2, 1/4, sum 7/4; row 1: 1/2, 1, 1/2, sum 2 */
    att_problem p = scalar_problem(3, 3);
    p.features = ATT_ALIBI;
    const float q[] = {0, 0, 0}, k[] = {0, 0, 0}, v[] = {0, 0, 7}, slopes[] = {logf(2.0f)};
    const att_args a = {.q = q, .k = k, .v = v, .alibi = slopes};
    assert_row(&p, &a, 0, 1.0, log(1.75), small);
    assert_row(&p, &a, 1, 7.0 / 4.0, log(2.0), small);
}

static void test_row__alibi_bottom_right__distance_from_shifted_diagonal(void **state) {
    (void)state;
    /* 1 row, 3 keys: the diagonal is key 2: weights 1/4, 1/2, 1 */
    att_problem p = scalar_problem(1, 3);
    p.features = ATT_ALIBI;
    p.align = ATT_ALIGN_BOTTOM_RIGHT;
    const float q[] = {0}, k[] = {0, 0, 0}, v[] = {7, 0, 0}, slopes[] = {logf(2.0f)};
    const att_args a = {.q = q, .k = k, .v = v, .alibi = slopes};
    assert_row(&p, &a, 0, 1.0, log(1.75), small);
}

static void test_row__alibi_per_batch__uses_its_slopes(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 2, 2, 2, 1, 2, 1, 1, ATT_F32);
    p.features = ATT_ALIBI;
    p.align = ATT_ALIGN_TOP_LEFT;
    p.alibi_stride_batch = 2;
    const float q[4] = {0}, k[8] = {0}, v[8] = {0};
    const float slopes[] = {1, 2, 3, 4};
    const att_args a = {.q = q, .k = k, .v = v, .alibi = slopes};
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 2; h++) {
            double o, lse;
            row_of(&p, &a, b, h, 0, &o, &lse);
            assert_near(lse, log(1.0 + exp(-(1.0 + h + 2.0 * b))), tiny);
        }
}

static void test_row__softcap_before_alibi_before_bias__in_that_order(void **state) {
    (void)state;
    /* cap 1: tanh(100) = 1 to the last bit; then - 0.5 * |0 - 1| + 2 = 2.5 for key 1, and
     * key 0: tanh(0) - 0 + 0 = 0 */
    att_problem p = scalar_problem(1, 2);
    p.features = ATT_ALIBI | ATT_BIAS;
    p.align = ATT_ALIGN_TOP_LEFT;
    p.softcap = 1.0f;
    p.bias_dtype = ATT_F32;
    p.bias = (att_strides){0, 0, 2, 1};
    const float q[] = {1}, k[] = {0, 100}, v[] = {0, 1}, slopes[] = {0.5f}, bias[] = {0, 2};
    const att_args a = {.q = q, .k = k, .v = v, .alibi = slopes, .bias = bias};
    assert_row(&p, &a, 0, exp(2.5) / (1.0 + exp(2.5)), log(1.0 + exp(2.5)), tiny);
}

static void test_row__bias_of_each_dtype__adds(void **state) {
    (void)state;
    /* scores 0 + 0 and 0 + 1 */
    att_problem p = scalar_problem(1, 2);
    p.features = ATT_BIAS;
    p.bias = (att_strides){0, 0, 0, 1};
    const float q[] = {0}, k[] = {0, 0}, v[] = {0, 1};
    const float f32[] = {0, 1};
    const uint16_t f16[] = {0, 0x3c00}, bf16[] = {0, 0x3f80};
    const struct {
        att_dtype dtype;
        const void *bias;
    } cases[] = {{ATT_F32, f32}, {ATT_F16, f16}, {ATT_BF16, bf16}};
    for (int i = 0; i < 3; i++) {
        p.bias_dtype = cases[i].dtype;
        const att_args a = {.q = q, .k = k, .v = v, .bias = cases[i].bias};
        assert_row(&p, &a, 0, exp(1.0) / (1.0 + exp(1.0)), log(1.0 + exp(1.0)), tiny);
    }
}

static void test_row__bias_strides__index_and_broadcast(void **state) {
    (void)state;
    /* batch broadcast; element (h, i, j) at 8h + 4i + 2j holds 10h + 3i + j; the others are
     * NaN */
    att_problem p;
    att_problem_init(&p, 2, 2, 2, 2, 2, 1, 1, ATT_F32);
    p.features = ATT_BIAS;
    p.bias_dtype = ATT_F32;
    p.bias = (att_strides){0, 8, 4, 2};
    const float q[8] = {0}, k[8] = {0}, v[8] = {0};
    float bias[16];
    for (int n = 0; n < 16; n++)
        bias[n] = n % 2 ? NAN : (float)(10 * (n / 8) + 3 * (n / 4 % 2) + n / 2 % 2);
    const att_args a = {.q = q, .k = k, .v = v, .bias = bias};
    for (int b = 0; b < 2; b++)
        for (int h = 0; h < 2; h++)
            for (int i = 0; i < 2; i++) {
                double o, lse;
                row_of(&p, &a, b, h, i, &o, &lse);
                assert_near(lse, 10.0 * h + 3.0 * i + log(1.0 + exp(1.0)), 1e-12);
            }
}

static void test_row__boolean_bias__equals_minus_infinity(void **state) {
    (void)state;
    /* only key 1 is left: its value and its score */
    att_problem p = scalar_problem(1, 3);
    p.features = ATT_BIAS;
    p.bias = (att_strides){0, 0, 0, 1};
    const float q[] = {2}, k[] = {NAN, 3, 9}, v[] = {5, 7, INFINITY};
    const uint8_t boolean[] = {0, 255, 0};
    const float additive[] = {-INFINITY, 0, -INFINITY};
    p.bias_dtype = ATT_BOOL8;
    const att_args with_boolean = {.q = q, .k = k, .v = v, .bias = boolean};
    assert_row(&p, &with_boolean, 0, 7.0, 6.0, tiny);
    p.bias_dtype = ATT_F32;
    const att_args with_additive = {.q = q, .k = k, .v = v, .bias = additive};
    assert_row(&p, &with_additive, 0, 7.0, 6.0, tiny);
}

static void test_row__sink__takes_weight_and_gives_nothing(void **state) {
    (void)state;
    /* exp(0) + exp(ln 2) = 3 */
    att_problem p = scalar_problem(1, 1);
    p.features = ATT_SINKS;
    const float q[] = {0}, k[] = {0}, v[] = {3}, sinks[] = {logf(2.0f)};
    const att_args a = {.q = q, .k = k, .v = v, .sinks = sinks};
    assert_row(&p, &a, 0, 1.0, log(3.0), small);
}

static void test_row__large_sink__does_not_overflow(void **state) {
    (void)state;
    att_problem p = scalar_problem(1, 1);
    p.features = ATT_SINKS;
    const float q[] = {1}, k[] = {1000}, v[] = {8}, sinks[] = {1000};
    const att_args a = {.q = q, .k = k, .v = v, .sinks = sinks};
    assert_row(&p, &a, 0, 4.0, 1000.0 + log(2.0), tiny);
}

/* ---------------------------------------------------------------------- masks */

/* Zero scores and values 1, 2, 4, 8, ...: the output is a mean that identifies the visible
 * keys. */
static const float zeros[KEYS_MAX];
static const float powers[] = {1, 2, 4, 8, 16, 32, 64, 128};

static void assert_sees(const att_problem *p, int64_t i, int lo, int hi) {
    const att_args a = {.q = zeros, .k = zeros, .v = powers};
    const double count = hi - lo;
    const double sum = exp2(hi) - exp2(lo); /* 2^lo + .. + 2^(hi-1) */
    assert_row(p, &a, i, count > 0 ? sum / count : 0.0, count > 0 ? log(count) : -INFINITY,
               tiny);
}

static void test_mask__causal_top_left__row_i_sees_i_plus_1(void **state) {
    (void)state;
    att_problem p = scalar_problem(4, 6);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    for (int i = 0; i < 4; i++)
        assert_sees(&p, i, 0, i + 1);
    p = scalar_problem(6, 4);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    for (int i = 0; i < 6; i++)
        assert_sees(&p, i, 0, i < 4 ? i + 1 : 4);
}

static void test_mask__causal_bottom_right__last_row_sees_all(void **state) {
    (void)state;
    att_problem p = scalar_problem(4, 6);
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    for (int i = 0; i < 4; i++)
        assert_sees(&p, i, 0, i + 3);
    p = scalar_problem(6, 4); /* rows 0 and 1 see nothing */
    p.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    for (int i = 0; i < 6; i++)
        assert_sees(&p, i, 0, i < 2 ? 0 : i - 1);
}

static void test_mask__window__counts_keys_from_diagonal(void **state) {
    (void)state;
    att_problem p = scalar_problem(8, 8);
    p.window_left = 2;
    p.window_right = 1;
    assert_sees(&p, 0, 0, 2);
    assert_sees(&p, 1, 0, 3);
    assert_sees(&p, 4, 2, 6);
    assert_sees(&p, 7, 5, 8);
    p.window_left = p.window_right = 0;
    assert_sees(&p, 5, 5, 6);
    p.window_left = -1;
    assert_sees(&p, 5, 0, 6);
    p.window_left = 3;
    p.window_right = -1;
    assert_sees(&p, 5, 2, 8);
    p.window_left = p.window_right = INT64_MAX;
    assert_sees(&p, 5, 0, 8);
}

static void test_mask__window_aligned_bottom_right__moves_with_the_diagonal(void **state) {
    (void)state;
    att_problem p = scalar_problem(3, 8); /* diagonal i + 5 */
    p.window_left = 1;
    p.window_right = 1;
    p.align = ATT_ALIGN_BOTTOM_RIGHT;
    assert_sees(&p, 0, 4, 7);
    assert_sees(&p, 2, 6, 8);
    p.align = ATT_ALIGN_TOP_LEFT;
    assert_sees(&p, 0, 0, 2);
    p = scalar_problem(8, 3); /* diagonal i - 5: rows 0 to 3 see nothing */
    p.window_left = 1;
    p.window_right = 1;
    p.align = ATT_ALIGN_BOTTOM_RIGHT;
    assert_sees(&p, 3, 0, 0);
    assert_sees(&p, 4, 0, 1);
    assert_sees(&p, 7, 1, 3);
}

static void test_mask__causal_and_window__both_hide(void **state) {
    (void)state;
    att_problem p = scalar_problem(8, 8);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    p.window_left = 2;
    p.window_right = 3; /* causal is stricter */
    assert_sees(&p, 6, 4, 7);
}

static void test_mask__window_beside_all_keys__nothing_visible(void **state) {
    (void)state;
    att_problem p = scalar_problem(8, 3); /* row 7, top-left: keys 6 .. 8 of 3 */
    p.window_left = p.window_right = 1;
    p.align = ATT_ALIGN_TOP_LEFT;
    assert_sees(&p, 7, 0, 0);
}

static void test_mask__no_keys__zero_and_minus_infinity(void **state) {
    (void)state;
    const att_problem p = scalar_problem(1, 0);
    assert_sees(&p, 0, 0, 0);
}

static void test_mask__fully_hidden_row_with_sink__lse_is_the_sink(void **state) {
    (void)state;
    att_problem p = scalar_problem(1, 2);
    p.features = ATT_SINKS | ATT_BIAS;
    p.bias_dtype = ATT_BOOL8;
    p.bias = (att_strides){0, 0, 0, 1};
    const uint8_t none[] = {0, 0};
    const float sinks[] = {-2.5f};
    const att_args a = {.q = zeros, .k = zeros, .v = powers, .bias = none, .sinks = sinks};
    assert_row(&p, &a, 0, 0.0, -2.5, 0.0);
}

/* -------------------------------------------------------------------- specials */

static void test_specials__nan_in_hidden_key__does_not_reach(void **state) {
    (void)state;
    att_problem p = scalar_problem(3, 3);
    p.causal = ATT_CAUSAL_TOP_LEFT;
    const float q[] = {1, 1, 1}, k[] = {0, 0, NAN}, v[] = {2, 4, INFINITY};
    const att_args a = {.q = q, .k = k, .v = v};
    assert_row(&p, &a, 0, 2.0, 0.0, tiny);
    assert_row(&p, &a, 1, 3.0, log(2.0), tiny);
    assert_row(&p, &a, 2, NAN, NAN, tiny);
}

static void test_specials__nan_in_value__reaches_its_column_only(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 1, 1, 1, 1, 2, 1, 2, ATT_F32);
    const float v[] = {1, NAN, 3, 5};
    const att_args a = {.q = zeros, .k = zeros, .v = v};
    double o[2], lse;
    row_of(&p, &a, 0, 0, 0, o, &lse);
    assert_near(o[0], 2.0, tiny);
    assert_near(o[1], NAN, tiny);
    assert_near(lse, log(2.0), tiny);
}

static void test_specials__infinite_score__row_is_nan(void **state) {
    (void)state;
    att_problem p = scalar_problem(1, 2);
    const float q[] = {1}, k[] = {0, INFINITY}, v[] = {1, 2};
    const att_args a = {.q = q, .k = k, .v = v};
    assert_row(&p, &a, 0, NAN, NAN, tiny);
}

static void test_specials__huge_scores__do_not_overflow(void **state) {
    (void)state;
    const att_problem p = scalar_problem(1, 3);
    const float q[] = {133120}, k[] = {1000, 1000, -1000}, v[] = {2, 4, 1e30f};
    const att_args a = {.q = q, .k = k, .v = v};
    assert_row(&p, &a, 0, 3.0, 133120000.0 + log(2.0), 1e-7);
}

/* ----------------------------------------- dtypes, heads, strides, lengths, pages */

static void test_dtypes__16_bit_inputs__are_widened_exactly(void **state) {
    (void)state;
    /* q.k = 1.5 * 2 = 3 for key 0 and 0 for key 1; v = -0.5 and 2 */
    const uint16_t f16[3][2] = {{0x3e00, 0}, {0x4000, 0}, {0xb800, 0x4000}};
    const uint16_t bf16[3][2] = {{0x3fc0, 0}, {0x4000, 0}, {0xbf00, 0x4000}};
    for (int type = 0; type < 2; type++) {
        att_problem p = scalar_problem(1, 2);
        p.dtype = type ? ATT_BF16 : ATT_F16;
        const uint16_t(*x)[2] = type ? bf16 : f16;
        const att_args a = {.q = x[0], .k = x[1], .v = x[2]};
        assert_row(&p, &a, 0, (-0.5 * exp(3.0) + 2.0) / (1.0 + exp(3.0)), log(1.0 + exp(3.0)),
                   tiny);
    }
}

/* Values that all differ, to tell indices apart. */
static void fill_distinct(float *x, int n, float seed) {
    for (int i = 0; i < n; i++)
        x[i] = sinf(seed + 0.7f * (float)i);
}

static void assert_rows_equal(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                              int64_t i, const att_problem *p2, const att_args *a2, int64_t b2,
                              int64_t h2, int64_t i2) {
    double o[D_MAX], o2[D_MAX], lse, lse2;
    row_of(p, a, b, h, i, o, &lse);
    row_of(p2, a2, b2, h2, i2, o2, &lse2);
    assert_near(lse, lse2, 0.0);
    for (int64_t c = 0; c < p->d_v; c++)
        assert_near(o[c], o2[c], 0.0);
}

static void test_heads__grouped__equal_repeated_heads(void **state) {
    (void)state;
    enum { B = 2, HQ = 6, HKV = 2, S = 5, D = 3 };
    float q[B * S * HQ * D], k[B * S * HKV * D], v[B * S * HKV * D];
    float k_full[B * S * HQ * D], v_full[B * S * HQ * D];
    fill_distinct(q, B * S * HQ * D, 0.1f);
    fill_distinct(k, B * S * HKV * D, 0.2f);
    fill_distinct(v, B * S * HKV * D, 0.3f);
    for (int row = 0; row < B * S; row++)
        for (int h = 0; h < HQ; h++)
            for (int c = 0; c < D; c++) {
                k_full[(row * HQ + h) * D + c] = k[(row * HKV + h / 3) * D + c];
                v_full[(row * HQ + h) * D + c] = v[(row * HKV + h / 3) * D + c];
            }
    att_problem grouped, full;
    att_problem_init(&grouped, B, HQ, HKV, S, S, D, D, ATT_F32);
    att_problem_init(&full, B, HQ, HQ, S, S, D, D, ATT_F32);
    const att_args a = {.q = q, .k = k, .v = v}, a_full = {.q = q, .k = k_full, .v = v_full};
    for (int b = 0; b < B; b++)
        for (int h = 0; h < HQ; h++)
            for (int i = 0; i < S; i++)
                assert_rows_equal(&grouped, &a, b, h, i, &full, &a_full, b, h, i);
}

static void test_strides__bhsd__equals_bshd(void **state) {
    (void)state;
    enum { B = 2, H = 3, S = 4, D = 5, N = B * H * S * D };
    float x[3][N], y[3][N];
    for (int t = 0; t < 3; t++)
        fill_distinct(x[t], N, (float)t);
    for (int t = 0; t < 3; t++)
        for (int b = 0; b < B; b++)
            for (int h = 0; h < H; h++)
                for (int s = 0; s < S; s++)
                    memcpy(&y[t][((b * H + h) * S + s) * D], &x[t][((b * S + s) * H + h) * D],
                           D * sizeof(float));
    att_problem bshd, bhsd;
    att_problem_init(&bshd, B, H, H, S, S, D, D, ATT_F32);
    bhsd = bshd;
    att_problem_layout_bhsd(&bhsd);
    const att_args a = {.q = x[0], .k = x[1], .v = x[2]},
                   a2 = {.q = y[0], .k = y[1], .v = y[2]};
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < S; i++)
                assert_rows_equal(&bshd, &a, b, h, i, &bhsd, &a2, b, h, i);
}

static void test_varlen__packed__equals_separate_problems(void **state) {
    (void)state;
    enum { B = 4, H = 2, D = 3, TOTAL_Q = 9, TOTAL_K = 11 };
    const int32_t cu_q[B + 1] = {0, 3, 3, 8, 9}, cu_k[B + 1] = {0, 5, 7, 7, 11};
    float q[TOTAL_Q * H * D], k[TOTAL_K * H * D], v[TOTAL_K * H * D];
    fill_distinct(q, TOTAL_Q * H * D, 0.1f);
    fill_distinct(k, TOTAL_K * H * D, 0.2f);
    fill_distinct(v, TOTAL_K * H * D, 0.3f);
    att_problem packed;
    att_problem_init(&packed, B, H, H, 5, 5, D, D, ATT_F32);
    packed.features = ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K;
    packed.causal = ATT_CAUSAL_BOTTOM_RIGHT;
    packed.total_q = TOTAL_Q;
    packed.total_k = TOTAL_K;
    const att_args a = {.q = q, .k = k, .v = v, .cu_seqlens_q = cu_q, .cu_seqlens_k = cu_k};
    for (int b = 0; b < B; b++) {
        const int rows = cu_q[b + 1] - cu_q[b], keys = cu_k[b + 1] - cu_k[b];
        assert_int_equal(att_ref_len_q(&packed, &a, b), rows);
        assert_int_equal(att_ref_len_k(&packed, &a, b), keys);
        att_problem alone;
        att_problem_init(&alone, 1, H, H, rows, keys, D, D, ATT_F32);
        alone.causal = ATT_CAUSAL_BOTTOM_RIGHT;
        const att_args a_alone = {
            .q = q + cu_q[b] * H * D, .k = k + cu_k[b] * H * D, .v = v + cu_k[b] * H * D};
        for (int h = 0; h < H; h++)
            for (int i = 0; i < rows; i++)
                assert_rows_equal(&packed, &a, b, h, i, &alone, &a_alone, 0, h, i);
    }
}

static void test_lens_k__shorter_cache__equals_fewer_keys(void **state) {
    (void)state;
    enum { B = 3, S = 7, D = 2 };
    const int32_t lens[B] = {7, 0, 3};
    float q[B * D], k[B * S * D], v[B * S * D];
    fill_distinct(q, B * D, 0.1f);
    fill_distinct(k, B * S * D, 0.2f);
    fill_distinct(v, B * S * D, 0.3f);
    att_problem p;
    att_problem_init(&p, B, 1, 1, 1, S, D, D, ATT_F32);
    p.features = ATT_LENS_K;
    const att_args a = {.q = q, .k = k, .v = v, .lens_k = lens};
    for (int b = 0; b < B; b++) {
        att_problem alone;
        att_problem_init(&alone, 1, 1, 1, 1, lens[b], D, D, ATT_F32);
        const att_args a_alone = {.q = q + b * D, .k = k + b * S * D, .v = v + b * S * D};
        assert_rows_equal(&p, &a, b, 0, 0, &alone, &a_alone, 0, 0, 0);
    }
}

/* As without the keys before the start; the diagonal then moves by as many keys. */
static void test_starts_k__left_padding__equals_the_keys_after_it(void **state) {
    (void)state;
    enum { B = 4, S = 7, D = 2 };
    const int32_t starts[B] = {0, 3, 5, 6}, lens[B] = {7, 7, 5, 4};
    float q[B * S * D], k[B * S * D], v[B * S * D];
    fill_distinct(q, B * S * D, 0.1f);
    fill_distinct(k, B * S * D, 0.2f);
    fill_distinct(v, B * S * D, 0.3f);
    att_problem p;
    att_problem_init(&p, B, 1, 1, S, S, D, D, ATT_F32);
    p.features = ATT_STARTS_K | ATT_LENS_K;
    p.causal = ATT_CAUSAL_TOP_LEFT;
    const att_args a = {.q = q, .k = k, .v = v, .lens_k = lens, .starts_k = starts};
    for (int b = 0; b < B; b++) {
        const int keys = lens[b] - starts[b];
        assert_int_equal(att_ref_start_k(&p, &a, b), starts[b]);
        for (int i = 0; i < S; i++) {
            const int seen = keys <= 0 || i < starts[b] ? 0
                             : i - starts[b] + 1 < keys ? i - starts[b] + 1
                                                        : keys;
            att_problem alone;
            att_problem_init(&alone, 1, 1, 1, 1, seen, D, D, ATT_F32);
            const float *first_k = seen ? k + (b * S + starts[b]) * D : k;
            const float *first_v = seen ? v + (b * S + starts[b]) * D : v;
            const att_args a_alone = {.q = q + (b * S + i) * D, .k = first_k, .v = first_v};
            assert_rows_equal(&p, &a, b, 0, i, &alone, &a_alone, 0, 0, 0);
        }
    }
}

/* A start does not move the diagonal, with either alignment, and a window may begin after
 * it. */
static void test_visible__with_a_start__the_later_of_both(void **state) {
    (void)state;
    att_problem p;
    int64_t lo, hi;
    att_problem_init(&p, 1, 1, 1, 4, 10, 8, 8, ATT_F32);
    p.window_left = 2;
    p.window_right = 1;
    p.align = ATT_ALIGN_BOTTOM_RIGHT;
    att_ref_sequence s = {.len_q = 4, .len_k = 10, .start_k = 5};
    att_ref_visible(&p, &s, 0, &lo, &hi); /* the diagonal is at key 6 */
    assert_int_equal(lo, 5);
    assert_int_equal(hi, 8);
    att_ref_visible(&p, &s, 3, &lo, &hi);
    assert_int_equal(lo, 7);
    assert_int_equal(hi, 10);
    p.align = ATT_ALIGN_TOP_LEFT;
    s.start_k = 3;
    att_ref_visible(&p, &s, 2, &lo, &hi);
    assert_int_equal(lo, 3);
    assert_int_equal(hi, 4);
}

/* Rows and keys of a shard, at their positions, are those of the whole sequence, keys outside of
 * the shard hidden. */
static void test_offsets__a_shard__as_within_the_whole(void **state) {
    (void)state;
    enum { S = 12, ROWS = 4, ROW0 = 5, KEYS = 6, KEY0 = 3, D = 2, B = 2 };
    float q[S * D], k[S * D], v[S * D];
    fill_distinct(q, S * D, 0.1f);
    fill_distinct(k, S * D, 0.2f);
    fill_distinct(v, S * D, 0.3f);
    const float slope = 0.25f;
    const int32_t starts[1] = {KEY0}, lens[1] = {KEY0 + KEYS};
    att_problem whole, shard;
    att_problem_init(&whole, 1, 1, 1, S, S, D, D, ATT_F32);
    whole.features = ATT_ALIBI | ATT_STARTS_K | ATT_LENS_K;
    whole.causal = ATT_CAUSAL_TOP_LEFT;
    whole.window_left = 4;
    const att_args of_whole = {
        .q = q, .k = k, .v = v, .alibi = &slope, .starts_k = starts, .lens_k = lens};
    /* Both batch entries of the shard are the same one; their own offsets make up for the
     * problem's. */
    att_problem_init(&shard, B, 1, 1, ROWS, KEYS, D, D, ATT_F32);
    shard.q.batch = shard.k.batch = shard.v.batch = 0;
    shard.causal = ATT_CAUSAL_TOP_LEFT;
    shard.window_left = 4;
    static const struct {
        int64_t q, k;
        int32_t each_q[B], each_k[B];
        uint32_t features;
    } ways[] = {
        {ROW0, KEY0, {0, 0}, {0, 0}, 0},
        {ROW0 - 1, 0, {1, 1}, {KEY0, KEY0}, ATT_Q_OFFSETS | ATT_K_OFFSETS},
        {(INT64_C(1) << 60) - 7, (INT64_C(1) << 60) - 7 - ROW0 + KEY0, {0, 0}, {0, 0}, 0},
        {0, 0, {ROW0, ROW0 + 100}, {KEY0, KEY0 + 100}, ATT_Q_OFFSETS | ATT_K_OFFSETS},
    };
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        shard.q_offset = ways[w].q;
        shard.k_offset = ways[w].k;
        shard.features = ATT_ALIBI | ways[w].features;
        const att_args of_shard = {.q = q + ROW0 * D,
                                   .k = k + KEY0 * D,
                                   .v = v + KEY0 * D,
                                   .alibi = &slope,
                                   .q_offsets = ways[w].each_q,
                                   .k_offsets = ways[w].each_k};
        for (int b = 0; b < B; b++)
            for (int i = 0; i < ROWS; i++)
                assert_rows_equal(&shard, &of_shard, b, 0, i, &whole, &of_whole, 0, 0,
                                  ROW0 + i);
    }
}

static void test_paged__permuted_and_shared_pages__equal_contiguous(void **state) {
    (void)state;
    enum { B = 2, H = 2, S = 7, D = 3, PAGE = 3, PAGES = 6, ROW = H * D };
    /* page 4 is the first of both sequences; page 1 belongs to nobody */
    const int32_t table[B][4] = {{4, 0, 5, -1}, {4, 3, 2, -1}};
    float q[B * ROW], k[B * S * ROW], v[B * S * ROW];
    float k_pages[PAGES * PAGE * ROW], v_pages[PAGES * PAGE * ROW];
    fill_distinct(q, B * ROW, 0.1f);
    for (int n = 0; n < PAGES * PAGE * ROW; n++)
        k_pages[n] = v_pages[n] = NAN;
    for (int b = 0; b < B; b++)
        for (int j = 0; j < S; j++) {
            const float seed = (float)(j < PAGE ? j : 10 * b + j); /* what is shared is equal */
            fill_distinct(&k[(b * S + j) * ROW], ROW, seed);
            fill_distinct(&v[(b * S + j) * ROW], ROW, seed + 0.5f);
            const int slot = table[b][j / PAGE] * PAGE + j % PAGE;
            memcpy(&k_pages[slot * ROW], &k[(b * S + j) * ROW], ROW * sizeof(float));
            memcpy(&v_pages[slot * ROW], &v[(b * S + j) * ROW], ROW * sizeof(float));
        }
    att_problem contiguous, paged;
    att_problem_init(&contiguous, B, H, H, 1, S, D, D, ATT_F32);
    paged = contiguous;
    paged.features = ATT_PAGED;
    paged.page_size = PAGE;
    paged.num_pages = PAGES;
    paged.page_table_stride = 4;
    paged.k.batch = paged.v.batch = PAGE * ROW;
    const att_args a = {.q = q, .k = k, .v = v};
    const att_args a_paged = {.q = q, .k = k_pages, .v = v_pages, .page_table = &table[0][0]};
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            assert_rows_equal(&contiguous, &a, b, h, 0, &paged, &a_paged, b, h, 0);
}

static void test_index__every_output__follows_its_strides(void **state) {
    (void)state;
    att_problem p = scalar_problem(4, 4);
    p.o = (att_strides){1000, 100, 10, 1};
    p.lse = (att_strides){500, 50, 5, 1};
    p.q = (att_strides){700, 70, 7, 1};
    att_args a = {0};
    assert_int_equal(att_ref_index_o(&p, &a, 2, 3, 1), 2310);
    assert_int_equal(att_ref_index_lse(&p, &a, 2, 3, 1), 1155);
    assert_int_equal(att_ref_index_q(&p, &a, 2, 3, 1), 1617);
    const int32_t cu[] = {0, 4, 6, 9};
    p.features = ATT_CU_SEQLENS_Q;
    a.cu_seqlens_q = cu; /* row 1 of sequence 2 is row 7 */
    assert_int_equal(att_ref_index_o(&p, &a, 2, 3, 1), 370);
    assert_int_equal(att_ref_index_lse(&p, &a, 2, 3, 1), 185);
    assert_int_equal(att_ref_index_q(&p, &a, 2, 3, 1), 259);
}

/* --------------------------------------------------------------- the plain reference */

static void plain_row(const att_problem *p, const att_args *a, int64_t i, float *o,
                      float *lse) {
    float logits[KEYS_MAX];
    att_plain_row(p, a, 0, 0, i, ATT_PLAIN_FORWARD, logits, o, lse);
}

static void test_plain__float32__close_to_oracle_on_every_feature(void **state) {
    (void)state;
    att_problem p = scalar_problem(8, 8);
    p.features = ATT_ALIBI | ATT_BIAS | ATT_SINKS;
    p.causal = ATT_CAUSAL_TOP_LEFT;
    p.window_left = 4;
    p.softcap = 3.0f;
    p.bias_dtype = ATT_F32;
    p.bias = (att_strides){0, 0, 8, 1};
    float q[8], k[8], v[8], bias[64];
    const float slopes[] = {0.25f}, sinks[] = {0.5f};
    fill_distinct(q, 8, 0.1f);
    fill_distinct(k, 8, 0.2f);
    fill_distinct(v, 8, 0.3f);
    fill_distinct(bias, 64, 0.4f);
    bias[8 * 5 + 3] = -INFINITY;
    const att_args a = {.q = q, .k = k, .v = v, .alibi = slopes, .bias = bias, .sinks = sinks};
    for (int i = 0; i < 8; i++) {
        float o, lse;
        plain_row(&p, &a, i, &o, &lse);
        assert_row(&p, &a, i, (double)o, (double)lse, 1e-6);
    }
}

static void test_plain__orders__round_in_their_own_way(void **state) {
    (void)state;
    enum { KEYS = 64, D = 16 };
    att_problem p;
    att_problem_init(&p, 1, 1, 1, 1, KEYS, D, D, ATT_F32);
    float q[D], k[KEYS * D], v[KEYS * D], logits[KEYS], o[ATT_PLAIN_ORDERS][D], lse;
    double exact_logits[KEYS], exact[D], exact_lse;
    fill_distinct(q, D, 0.1f);
    fill_distinct(k, KEYS * D, 0.2f);
    fill_distinct(v, KEYS * D, 0.3f);
    const att_args a = {.size = sizeof a, .q = q, .k = k, .v = v};
    att_ref_row(&p, &a, 0, 0, 0, exact_logits, exact, &exact_lse);
    for (int order = 0; order < ATT_PLAIN_ORDERS; order++) {
        att_plain_row(&p, &a, 0, 0, 0, (att_plain_order)order, logits, o[order], &lse);
        assert_true(fabs((double)lse - exact_lse) < 1e-5);
        for (int c = 0; c < D; c++)
            assert_true(fabs((double)o[order][c] - exact[c]) < 1e-5);
        for (int other = 0; other < order; other++)
            assert_memory_not_equal(o[order], o[other], sizeof o[order]);
    }
}

static void test_plain__bfloat16__rounds_weights_but_not_their_sum(void **state) {
    (void)state;
    /* exp(-1) = 0.36788 is 0.3671875 in bfloat16, and stays 0.36788 in the sum */
    att_problem p = scalar_problem(1, 2);
    p.dtype = ATT_BF16;
    p.dtype_o = ATT_F32;
    const uint16_t q[] = {0x3f80}, k[] = {0, 0xbf80}, v[] = {0, 0x3f80};
    const att_args a = {.q = q, .k = k, .v = v};
    float o, lse;
    plain_row(&p, &a, 0, &o, &lse);
    assert_near((double)o, 0.3671875 / (1.0 + exp(-1.0)), 3e-8);
    assert_near((double)lse, log(1.0 + exp(-1.0)), 6e-8);
}

static void test_plain__output__is_rounded_to_its_dtype(void **state) {
    (void)state;
    /* the mean of 1 and 1 + 2^-10 lies between two float16 numbers and goes to the even one */
    att_problem p = scalar_problem(1, 2);
    p.dtype = ATT_F16;
    p.dtype_o = ATT_F16;
    const uint16_t q[] = {0}, k[] = {0, 0}, v[] = {0x3c00, 0x3c01};
    const att_args a = {.q = q, .k = k, .v = v};
    float o, lse;
    plain_row(&p, &a, 0, &o, &lse);
    assert_near((double)o, 1.0, 0.0);
}

static void test_plain__hidden_row__zero_and_minus_infinity(void **state) {
    (void)state;
    const att_problem p = scalar_problem(1, 0);
    const att_args a = {.q = zeros, .k = zeros, .v = powers};
    float o, lse;
    plain_row(&p, &a, 0, &o, &lse);
    assert_near((double)o, 0.0, 0.0);
    assert_near((double)lse, -INFINITY, 0.0);
}

/* ------------------------------------------------------ the formula once more */

/* Element by element, in the order of columns and of keys that the references promise. */
static void naive_oracle(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                         int64_t i, double *o, double *lse) {
    static double s[400];
    const int64_t kv = h / (p->heads_q / p->heads_kv), keys = p->seq_k;
    double max = -INFINITY, total = 0.0;
    for (int64_t j = 0; j < keys; j++) {
        double dot = 0.0;
        for (int64_t c = 0; c < p->d_qk; c++)
            dot += (double)att_load(a->q, p->dtype, att_ref_index_q(p, a, b, h, i) + c) *
                   (double)att_load(a->k, p->dtype, att_ref_index_k(p, a, b, kv, j) + c);
        s[j] = (double)p->scale * dot;
        max = fmax(max, s[j]);
    }
    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = 0.0;
    for (int64_t j = 0; j < keys; j++) {
        total += exp(s[j] - max);
        for (int64_t c = 0; c < p->d_v; c++)
            o[c] += exp(s[j] - max) *
                    (double)att_load(a->v, p->dtype, att_ref_index_v(p, a, b, kv, j) + c);
    }
    for (int64_t c = 0; c < p->d_v; c++)
        o[c] /= total;
    *lse = max + log(total);
}

static float through(float x, att_dtype dtype) {
    float stored = 0.0f;
    att_store(&stored, dtype, 0, x);
    return att_load(&stored, dtype, 0);
}

static void naive_plain(const att_problem *p, const att_args *a, int64_t b, int64_t h,
                        int64_t i, int order, float *o, float *lse) {
    static float s[400];
    const int64_t kv = h / (p->heads_q / p->heads_kv), keys = p->seq_k, d = p->d_qk;
    float max = -INFINITY, total = 0.0f;
    for (int64_t j = 0; j < keys; j++) {
        float dot = 0.0f;
        for (int64_t n = 0; n < d; n++) {
            const int64_t c = order & ATT_PLAIN_COLUMNS_BACK ? d - 1 - n : n;
            dot += att_load(a->q, p->dtype, att_ref_index_q(p, a, b, h, i) + c) *
                   att_load(a->k, p->dtype, att_ref_index_k(p, a, b, kv, j) + c);
        }
        s[j] = p->scale * dot;
        max = fmaxf(max, s[j]);
    }
    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = 0.0f;
    for (int64_t n = 0; n < keys; n++) {
        const int64_t j = order & ATT_PLAIN_KEYS_BACK ? keys - 1 - n : n;
        total += expf(s[j] - max);
        for (int64_t c = 0; c < p->d_v; c++)
            o[c] += through(expf(s[j] - max), p->dtype) *
                    att_load(a->v, p->dtype, att_ref_index_v(p, a, b, kv, j) + c);
    }
    for (int64_t c = 0; c < p->d_v; c++)
        o[c] = through(o[c] / total, p->dtype_o);
    *lse = max + logf(total);
}

static void assert_naive(const char *line) {
    const lab_spec spec = parsed(line);
    const att_problem *p = &spec.problem;
    lab_tensors *t;
    lab_message why;
    double logits[400], o[256], wanted[256], lse, wanted_lse;
    float plain_logits[400], plain[256], wanted_plain[256], plain_lse, wanted_plain_lse;
    assert_true(lab_tensors_create(&t, &spec, 3, &why));
    for (int64_t i = 0; i < p->seq_q; i++) {
        att_ref_row(p, &t->args, 0, 1, i, logits, o, &lse);
        naive_oracle(p, &t->args, 0, 1, i, wanted, &wanted_lse);
        assert_memory_equal(o, wanted, (size_t)p->d_v * sizeof *o);
        assert_memory_equal(&lse, &wanted_lse, sizeof lse);
        for (int order = 0; order < ATT_PLAIN_ORDERS; order++) {
            att_plain_row(p, &t->args, 0, 1, i, (att_plain_order)order, plain_logits, plain,
                          &plain_lse);
            naive_plain(p, &t->args, 0, 1, i, order, wanted_plain, &wanted_plain_lse);
            assert_memory_equal(plain, wanted_plain, (size_t)p->d_v * sizeof *plain);
            assert_memory_equal(&plain_lse, &wanted_plain_lse, sizeof plain_lse);
        }
    }
    lab_tensors_destroy(t);
}

/* Keys and columns on both sides of every block boundary of the references. */
static void test_row__keys_side_by_side__bits_of_one_after_the_other(void **state) {
    static const int sizes[] = {1, 7, 8, 9, 63, 64, 65, 200};
    static const char *const types[] = {"f32", "fp16", "bf16"};
    (void)state;
    for (int n = 0; n < 8; n++)
        for (int t = 0; t < 3; t++) {
            char line[96];
            snprintf(line, sizeof line, "b1h2hkv1s3sk%dd%ddv%d,%s", sizes[n],
                     sizes[(n + 3) % 8], sizes[(n + 5) % 8], types[t]);
            assert_naive(line);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row__keys_side_by_side__bits_of_one_after_the_other),
        cmocka_unit_test(test_row__two_keys__known_softmax),
        cmocka_unit_test(test_row__scale__multiplies_scores),
        cmocka_unit_test(test_row__scale_zero__mean_of_values),
        cmocka_unit_test(test_row__many_columns__dot_product),
        cmocka_unit_test(test_row__softcap__bends_scores),
        cmocka_unit_test(test_row__alibi__halves_per_key_of_distance),
        cmocka_unit_test(test_row__alibi_bottom_right__distance_from_shifted_diagonal),
        cmocka_unit_test(test_row__alibi_per_batch__uses_its_slopes),
        cmocka_unit_test(test_row__softcap_before_alibi_before_bias__in_that_order),
        cmocka_unit_test(test_row__bias_of_each_dtype__adds),
        cmocka_unit_test(test_row__bias_strides__index_and_broadcast),
        cmocka_unit_test(test_row__boolean_bias__equals_minus_infinity),
        cmocka_unit_test(test_row__sink__takes_weight_and_gives_nothing),
        cmocka_unit_test(test_row__large_sink__does_not_overflow),
        cmocka_unit_test(test_mask__causal_top_left__row_i_sees_i_plus_1),
        cmocka_unit_test(test_mask__causal_bottom_right__last_row_sees_all),
        cmocka_unit_test(test_mask__window__counts_keys_from_diagonal),
        cmocka_unit_test(test_mask__window_aligned_bottom_right__moves_with_the_diagonal),
        cmocka_unit_test(test_mask__causal_and_window__both_hide),
        cmocka_unit_test(test_mask__window_beside_all_keys__nothing_visible),
        cmocka_unit_test(test_mask__no_keys__zero_and_minus_infinity),
        cmocka_unit_test(test_mask__fully_hidden_row_with_sink__lse_is_the_sink),
        cmocka_unit_test(test_specials__nan_in_hidden_key__does_not_reach),
        cmocka_unit_test(test_specials__nan_in_value__reaches_its_column_only),
        cmocka_unit_test(test_specials__infinite_score__row_is_nan),
        cmocka_unit_test(test_specials__huge_scores__do_not_overflow),
        cmocka_unit_test(test_dtypes__16_bit_inputs__are_widened_exactly),
        cmocka_unit_test(test_heads__grouped__equal_repeated_heads),
        cmocka_unit_test(test_strides__bhsd__equals_bshd),
        cmocka_unit_test(test_varlen__packed__equals_separate_problems),
        cmocka_unit_test(test_lens_k__shorter_cache__equals_fewer_keys),
        cmocka_unit_test(test_starts_k__left_padding__equals_the_keys_after_it),
        cmocka_unit_test(test_offsets__a_shard__as_within_the_whole),
        cmocka_unit_test(test_visible__with_a_start__the_later_of_both),
        cmocka_unit_test(test_paged__permuted_and_shared_pages__equal_contiguous),
        cmocka_unit_test(test_index__every_output__follows_its_strides),
        cmocka_unit_test(test_plain__float32__close_to_oracle_on_every_feature),
        cmocka_unit_test(test_plain__orders__round_in_their_own_way),
        cmocka_unit_test(test_plain__bfloat16__rounds_weights_but_not_their_sum),
        cmocka_unit_test(test_plain__output__is_rounded_to_its_dtype),
        cmocka_unit_test(test_plain__hidden_row__zero_and_minus_infinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
