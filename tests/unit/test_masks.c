/* test_masks.c: which keys a row sees, read from the output itself.
 *
 * All logits are equal and V is the identity matrix, so O[i][j] is 1/n if key j is one of the n
 * that row i sees, and 0 elsewhere. The rule is written again here, from its definition. */
#include <math.h>
#include <stdio.h>

#include "base/dtype.h"
#include "tests/support/cases.h"
#include "tests/support/fixture.h"

enum { KEYS_MAX = 64 };

typedef struct mask {
    att_causal causal;
    att_align align;
    int64_t left, right;
} mask;

static bool visible(const mask *m, int64_t i, int64_t j, int64_t len_q, int64_t len_k) {
    const bool bottom_right =
        m->causal == ATT_CAUSAL_BOTTOM_RIGHT ||
        (m->causal == ATT_CAUSAL_NONE && m->align == ATT_ALIGN_BOTTOM_RIGHT);
    const int64_t diagonal = bottom_right ? i + len_k - len_q : i;
    if (j >= len_k)
        return false;
    if (m->causal != ATT_CAUSAL_NONE && j > diagonal)
        return false;
    if (m->left >= 0 && diagonal - j > m->left)
        return false;
    return !(m->right >= 0 && j - diagonal > m->right);
}

static void open_identity(fixture *f, const att_problem *p) {
    fixture_open(f, p, 1);
    fixture_fill(f, BUF_Q, 0.0f);
    fixture_fill(f, BUF_V, 0.0f);
}

/* Rows of sequence b, head 0: `seen` keys have equal weight, the others none. */
static void assert_row_sees(const fixture *f, int64_t b, int64_t i, const bool *seen) {
    int64_t count = 0;
    for (int64_t j = 0; j < f->problem.d_v; j++)
        count += seen[j];
    const double weight = count ? 1.0 / (double)count : 0.0;
    assert_near(fixture_lse(f, b, 0, i), count ? log((double)count) : -(double)INFINITY, 1e-6);
    for (int64_t j = 0; j < f->problem.d_v; j++) {
        const double got = (double)fixture_get(f, BUF_O, b, 0, i, j);
        if (seen[j] != (got > 0.0))
            print_error("row %d, key %d\n", (int)i, (int)j);
        assert_near(got, seen[j] ? weight : 0.0, weight * 0x1p-7);
    }
}

static void check_mask(const test_case *c, const mask *m, int64_t keys) {
    att_problem p;
    att_problem_init(&p, 1, 1, 1, c->rows, keys, 4, keys, c->dtype);
    p.features = ATT_LSE;
    p.causal = m->causal;
    p.align = m->align;
    p.window_left = m->left;
    p.window_right = m->right;
    fixture f;
    open_identity(&f, &p);
    for (int64_t j = 0; j < keys; j++)
        fixture_set(&f, BUF_V, 0, 0, j, j, 1.0f);
    fixture_run_ok(&f, c->ctx);
    for (int64_t i = 0; i < c->rows; i++) {
        bool seen[KEYS_MAX];
        for (int64_t j = 0; j < keys; j++)
            seen[j] = visible(m, i, j, c->rows, keys);
        assert_row_sees(&f, 0, i, seen);
    }
    fixture_close(&f);
}

/* Fewer, as many and more keys than rows, one key, and counts near the width of a vector. */
static const int64_t KEYS[] = {1, 2, 15, 16, 17, 36, 37, 38, 63, 64};
enum { KEYS_COUNT = sizeof KEYS / sizeof KEYS[0] };

static void test_mask__causal_either_way__by_definition(void **state) {
    for (int i = 0; i < KEYS_COUNT; i++)
        for (int causal = ATT_CAUSAL_NONE; causal <= ATT_CAUSAL_BOTTOM_RIGHT; causal++) {
            const mask m = {(att_causal)causal, ATT_ALIGN_UNSET, -1, -1};
            check_mask(*state, &m, KEYS[i]);
        }
}

static void test_mask__window_with_and_without_causal__by_definition(void **state) {
    static const int64_t sides[] = {-1, 0, 1, 5, 1000, INT64_MAX};
    for (int i = 0; i < KEYS_COUNT; i += 3)
        for (size_t l = 0; l < 6; l++)
            for (size_t r = 0; r < 6; r++)
                for (int causal = ATT_CAUSAL_NONE; causal <= ATT_CAUSAL_BOTTOM_RIGHT;
                     causal++) {
                    mask m = {(att_causal)causal, ATT_ALIGN_UNSET, sides[l], sides[r]};
                    if (causal == ATT_CAUSAL_NONE)
                        m.align = ATT_ALIGN_BOTTOM_RIGHT;
                    check_mask(*state, &m, KEYS[i]);
                    if (causal == ATT_CAUSAL_NONE) {
                        m.align = ATT_ALIGN_TOP_LEFT;
                        check_mask(*state, &m, KEYS[i]);
                    }
                }
}

/* Window, causal and lengths that differ between sequences, including a length of zero. */
static void test_mask__varying_lengths__by_definition(void **state) {
    const test_case *c = *state;
    enum { BATCH = 4, LONGEST = 40 };
    const int32_t rows[BATCH] = {(int32_t)c->rows, 0, (int32_t)(c->rows + 1) / 2, 1};
    const int32_t keys[BATCH] = {17, 5, 0, LONGEST};
    const mask masks[] = {{ATT_CAUSAL_BOTTOM_RIGHT, ATT_ALIGN_UNSET, 6, -1},
                          {ATT_CAUSAL_TOP_LEFT, ATT_ALIGN_UNSET, -1, -1},
                          {ATT_CAUSAL_NONE, ATT_ALIGN_BOTTOM_RIGHT, 3, 2}};
    for (size_t m = 0; m < 3; m++) {
        att_problem p;
        att_problem_init(&p, BATCH, 1, 1, c->rows, LONGEST, 4, LONGEST, c->dtype);
        p.features = ATT_LSE | ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K;
        p.total_q = rows[0] + rows[1] + rows[2] + rows[3];
        p.total_k = keys[0] + keys[1] + keys[2] + keys[3] + 3;
        att_problem_layout_bshd(&p);
        p.causal = masks[m].causal;
        p.align = masks[m].align;
        p.window_left = masks[m].left;
        p.window_right = masks[m].right;
        fixture f;
        open_identity(&f, &p);
        int32_t *cu_q = (int32_t *)(void *)f.buf[BUF_CU_Q].data;
        int32_t *cu_k = (int32_t *)(void *)f.buf[BUF_CU_K].data;
        for (int b = 0; b < BATCH; b++) {
            cu_q[b + 1] = cu_q[b] + rows[b];
            cu_k[b + 1] = cu_k[b] + keys[b];
        }
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t j = 0; j < keys[b]; j++)
                fixture_set(&f, BUF_V, b, 0, j, j, 1.0f);
        fixture_run_ok(&f, c->ctx);
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t i = 0; i < rows[b]; i++) {
                bool seen[KEYS_MAX] = {false};
                for (int64_t j = 0; j < LONGEST; j++)
                    seen[j] = visible(&masks[m], i, j, rows[b], keys[b]);
                assert_row_sees(&f, b, i, seen);
            }
        fixture_close(&f);
    }
}

/* Boolean masks of every broadcast shape, and the equivalent additive masks of 0 and -inf. */
static void test_mask__boolean_and_additive__same_answer(void **state) {
    const test_case *c = *state;
    enum { KEYS_HERE = 45 };
    for (int shape = 0; shape < 16; shape++) {
        att_problem p;
        att_problem_init(&p, 2, 2, 1, c->rows, KEYS_HERE, 8, 8, c->dtype);
        p.features = ATT_LSE | ATT_BIAS;
        p.bias = (att_strides){.batch = shape & 1 ? 2 * c->rows * KEYS_HERE : 0,
                               .head = shape & 2 ? c->rows * KEYS_HERE : 0,
                               .row = shape & 4 ? KEYS_HERE : 0,
                               .col = shape & 8 ? 1 : 0};
        static const att_dtype dtypes[] = {ATT_BOOL8, ATT_F32, ATT_F16, ATT_BF16};
        fixture f[4];
        for (int t = 0; t < 4; t++) {
            p.bias_dtype = dtypes[t];
            fixture_open(&f[t], &p, 9);
            const int64_t n = (int64_t)(f[t].buf[BUF_BIAS].bytes / att_dtype_size(dtypes[t]));
            for (int64_t i = 0; i < n; i++) {
                const bool open = i * 5 % 7 < 4;
                if (t == 0)
                    f[t].buf[BUF_BIAS].data[i] = open ? (unsigned char)(1 + i % 255) : 0;
                else
                    att_store(f[t].buf[BUF_BIAS].data, dtypes[t], i, open ? 0.0f : -INFINITY);
            }
            fixture_run_ok(&f[t], c->ctx);
        }
        for (int t = 1; t < 4; t++) {
            assert_memory_equal(f[t].buf[BUF_O].data, f[0].buf[BUF_O].data,
                                f[0].buf[BUF_O].bytes);
            assert_memory_equal(f[t].buf[BUF_LSE].data, f[0].buf[BUF_LSE].data,
                                f[0].buf[BUF_LSE].bytes);
        }
        for (int t = 0; t < 4; t++)
            fixture_close(&f[t]);
    }
}

/* A bias whose keys are not contiguous is the same bias. */
static void test_bias__strided_keys__same_as_contiguous(void **state) {
    const test_case *c = *state;
    enum { KEYS_HERE = 45, STRIDE = 3 };
    att_problem p;
    att_problem_init(&p, 1, 2, 2, c->rows, KEYS_HERE, 8, 8, c->dtype);
    p.features = ATT_LSE | ATT_BIAS;
    p.bias_dtype = c->dtype;
    p.bias = (att_strides){0, c->rows * KEYS_HERE, KEYS_HERE, 1};
    fixture f, g;
    fixture_open(&f, &p, 9);
    p.bias = (att_strides){0, 1, 2 * KEYS_HERE * STRIDE, 2 * STRIDE};
    fixture_open(&g, &p, 9);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < c->rows; i++)
            for (int64_t j = 0; j < KEYS_HERE; j++) {
                const float value = (float)((h + 3 * i + 5 * j) % 8) * 0.25f;
                fixture_set_bias(&f, 0, h, i, j, value);
                fixture_set_bias(&g, 0, h, i, j, value);
            }
    fixture_run_ok(&f, c->ctx);
    fixture_run_ok(&g, c->ctx);
    assert_memory_equal(f.buf[BUF_O].data, g.buf[BUF_O].data, f.buf[BUF_O].bytes);
    fixture_close(&f);
    fixture_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask__causal_either_way__by_definition),
        cmocka_unit_test(test_mask__window_with_and_without_causal__by_definition),
        cmocka_unit_test(test_mask__varying_lengths__by_definition),
        cmocka_unit_test(test_mask__boolean_and_additive__same_answer),
        cmocka_unit_test(test_bias__strided_keys__same_as_contiguous),
    };
    return cases_run(tests, sizeof tests / sizeof tests[0]);
}
