/* test_cuda_band.c: causal mask, window and offsets as GPU kernels get them. Every band is held
 * against the oracle, key by key. */
#include "attention/cuda/band.h"

#include "attention/ref/oracle.h"
#include "tests/support/check.h"

/* The keys of row i as kernels/fwd_sequence.cuh computes them. */
static void seen_by(const att_cuda_band *band, int64_t entry, int len_k, int i, int *lo,
                    int *hi) {
    int64_t shift = band->shift;
    if (entry) {
        shift = band->offset + entry;
        shift = shift < band->shift_least ? band->shift_least : shift;
        shift = shift > band->shift_most ? band->shift_most : shift;
    }
    const int diagonal = i + (int)shift;
    *lo = band->left < 0 || diagonal < band->left ? 0 : diagonal - band->left;
    *hi = band->right < 0 || diagonal + band->right + 1 > len_k ? len_k
                                                                : diagonal + band->right + 1;
}

static void assert_same_keys(const att_problem *p, int64_t entry) {
    const att_cuda_band band = att_cuda_band_of(p);
    const att_ref_sequence s = {p->seq_q, p->seq_k, 0, p->q_offset - p->k_offset + entry};
    for (int i = 0; i < p->seq_q; i++) {
        int lo, hi;
        int64_t lo_ref, hi_ref;
        seen_by(&band, entry, (int)p->seq_k, i, &lo, &hi);
        att_ref_visible(p, &s, i, &lo_ref, &hi_ref);
        for (int j = 0; j < p->seq_k; j++)
            assert_int_equal(j >= lo && j < hi, j >= lo_ref && j < hi_ref);
    }
}

static const int64_t OFFSETS[] = {
    0, 1, 6, 7, 30, 1000, INT32_MAX, INT64_C(1) << 40, INT64_C(1) << 60};
enum { COUNT = sizeof OFFSETS / sizeof OFFSETS[0] };

static att_problem band_problem(int64_t rows, int64_t keys, int64_t left, int64_t right) {
    att_problem p;
    att_problem_init(&p, 1, 1, 1, rows, keys, 64, 64, ATT_BF16);
    p.align = ATT_ALIGN_TOP_LEFT;
    p.window_left = left;
    p.window_right = right;
    return p;
}

static void test_band__any_offset_and_window__keys_of_the_oracle(void **state) {
    (void)state;
    static const int64_t sides[] = {-1, 0, 3, 20, 5000, INT64_MAX};
    for (int n = 0; n < COUNT * COUNT * 6 * 6 * 2; n++) {
        att_problem p = band_problem(n % 5 + 1, n % 7 + 3, sides[n / 2 % 6], sides[n / 12 % 6]);
        p.q_offset = OFFSETS[n / 72 % COUNT];
        p.k_offset = OFFSETS[n / 72 / COUNT];
        p.causal = n % 2 ? ATT_CAUSAL_TOP_LEFT : ATT_CAUSAL_NONE;
        const char *field;
        if (!att_cuda_band_refusal(&p, &field))
            assert_same_keys(&p, 0);
    }
}

static void test_band__offsets_of_entries__keys_of_the_oracle(void **state) {
    (void)state;
    static const int64_t sides[] = {-1, 0, 3, 20, 5000};
    static const int64_t entries[] = {1, -1, 5, -9, 40, -40, INT32_MAX, -INT32_MAX};
    for (int n = 0; n < 5 * 5 * 8 * 7; n++) {
        att_problem p = band_problem(6, 9, sides[n % 5], sides[n / 5 % 5]);
        p.features = ATT_Q_OFFSETS;
        p.q_offset = OFFSETS[n / 200 % 7];
        assert_same_keys(&p, entries[n / 25 % 8]);
    }
}

/* Kernels for problems without a mask are faster. */
static void test_band__mask_that_hides_nothing__is_none(void **state) {
    (void)state;
    att_problem p = band_problem(50, 40, -1, -1);
    assert_false(att_cuda_band_hides(&p));
    p.causal = ATT_CAUSAL_TOP_LEFT;
    assert_true(att_cuda_band_hides(&p));
    p.q_offset = 38; /* the first row does not see the last key */
    assert_true(att_cuda_band_hides(&p));
    p.q_offset = 39;
    assert_false(att_cuda_band_hides(&p));
    p.window_left = 87; /* nor the last row the first key */
    assert_true(att_cuda_band_hides(&p));
    p.window_left = 88;
    assert_false(att_cuda_band_hides(&p));
    p.features = ATT_K_OFFSETS; /* any diagonal is possible */
    assert_true(att_cuda_band_hides(&p));
}

static void test_band__distances_past_32_bits__field_named(void **state) {
    (void)state;
    const char *field = NULL;
    att_problem p = band_problem(50, 40, -1, -1);
    p.features = ATT_ALIBI;
    p.q_offset = INT64_C(1) << 30;
    assert_null(att_cuda_band_refusal(&p, &field) ? field : NULL);
    p.q_offset = INT64_C(1) << 31;
    assert_non_null(att_cuda_band_refusal(&p, &field));
    assert_string_equal(field, "q_offset");
    p.k_offset = INT64_C(1) << 33;
    assert_non_null(att_cuda_band_refusal(&p, &field));
    assert_string_equal(field, "k_offset");
    p.features = 0; /* of masks any distance is served */
    assert_null(att_cuda_band_refusal(&p, &field));
    p.features = ATT_Q_OFFSETS;
    p.window_left = INT64_C(1) << 31;
    assert_non_null(att_cuda_band_refusal(&p, &field));
    assert_string_equal(field, "window_left");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_band__any_offset_and_window__keys_of_the_oracle),
        cmocka_unit_test(test_band__offsets_of_entries__keys_of_the_oracle),
        cmocka_unit_test(test_band__mask_that_hides_nothing__is_none),
        cmocka_unit_test(test_band__distances_past_32_bits__field_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
