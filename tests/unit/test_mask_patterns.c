/* test_mask_patterns.c: the masks that the laboratory fills hide what they claim to hide. */
#include <unistd.h>

#include "lab/attention/attention_lab.h"
#include "lab/attention/mask_patterns.h"
#include "tests/support/check.h"

static bool hides(lab_bias_fill fill, int64_t batch, int64_t i, int64_t j) {
    const lab_mask_place at = {batch, i, j, 640, 640};
    return lab_mask_hides(fill, &at);
}

/* The visible keys of a row: how many, the first and the last. */
typedef struct seen {
    int64_t count, first, last;
} seen;

static seen row_of(lab_bias_fill fill, int64_t batch, int64_t i) {
    seen row = {0, -1, -1};
    for (int64_t j = 0; j < 640; j++)
        if (!hides(fill, batch, i, j)) {
            row.first = row.count++ ? row.first : j;
            row.last = j;
        }
    return row;
}

static void assert_row(lab_bias_fill fill, int64_t batch, int64_t i, int64_t first,
                       int64_t last) {
    const seen row = row_of(fill, batch, i);
    assert_int_equal(row.first, first);
    assert_int_equal(row.last, last);
    assert_int_equal(row.count, first < 0 ? 0 : last - first + 1);
}

static void test_patterns__of_intervals__their_ends(void **state) {
    (void)state;
    assert_row(LAB_BIAS_CLEAR, 1, 3, 0, 639);
    assert_row(LAB_BIAS_PADDING, 0, 3, 0, 639);
    assert_row(LAB_BIAS_PADDING, 2, 3, 0, 479);
    assert_row(LAB_BIAS_PADDED_CAUSAL, 4, 0, 0, 0);
    assert_row(LAB_BIAS_PADDED_CAUSAL, 3, 239, -1, -1); /* a row of padding */
    assert_row(LAB_BIAS_PADDED_CAUSAL, 3, 300, 240, 300);
    assert_row(LAB_BIAS_PREFIX, 0, 5, 0, 212);
    assert_row(LAB_BIAS_PREFIX, 0, 400, 0, 400);
    assert_row(LAB_BIAS_DOCUMENTS, 0, 9, 0, 9);
    assert_row(LAB_BIAS_DOCUMENTS, 0, 10, 10, 10);
    assert_row(LAB_BIAS_DOCUMENTS, 0, 639, 490, 639);
}

static void test_patterns__fewer_rows_than_keys__the_last_row_is_at_the_last_key(void **state) {
    (void)state;
    const lab_mask_place last = {0, 9, 99, 10, 100}, before = {0, 8, 99, 10, 100};
    assert_false(lab_mask_hides(LAB_BIAS_PADDED_CAUSAL, &last));
    assert_true(lab_mask_hides(LAB_BIAS_PADDED_CAUSAL, &before));
}

static void test_patterns__blocks__the_diagonal_and_a_third(void **state) {
    (void)state;
    for (int64_t i = 0; i < 640; i += 127)
        assert_false(hides(LAB_BIAS_BLOCKS, 0, i, i));
    assert_true(hides(LAB_BIAS_BLOCKS, 0, 0, 128));
    assert_true(hides(LAB_BIAS_BLOCKS, 0, 127, 383));
    assert_false(hides(LAB_BIAS_BLOCKS, 0, 127, 384));
    assert_false(hides(LAB_BIAS_BLOCKS, 0, 128, 256));
}

static int64_t counted(lab_bias_fill fill, lab_mask_place at, int64_t end) {
    int64_t count = 0;
    for (; at.j < end; at.j++)
        count += !lab_mask_hides(fill, &at);
    return count;
}

/* More rows than keys as well: the first rows are before every key. */
static void test_visible__any_keys_of_a_row__as_counted_one_by_one(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 7, 127, 128, 129, 400, 1031};
    enum { LENGTHS = sizeof lengths / sizeof lengths[0], CASES = 6 * 4 * LENGTHS * LENGTHS };
    for (int n = 0; n < CASES; n++) {
        const lab_bias_fill fill =
            n % 6 == 5 ? LAB_BIAS_CLEAR : (lab_bias_fill)(LAB_BIAS_PADDING + n % 6);
        const int64_t rows = lengths[n / 24 % LENGTHS], keys = lengths[n / 24 / LENGTHS];
        for (int64_t i = 0; i < rows; i += 1 + rows / 23)
            for (int64_t j = 0; j < keys; j += 1 + keys / 5)
                for (int64_t end = j - 1; end <= keys; end += 1 + keys / 6) {
                    const lab_mask_place at = {n / 6 % 4, i, j, rows, keys};
                    assert_int_equal(lab_mask_visible(fill, &at, end), counted(fill, at, end));
                }
    }
}

/* A loop over the keys would hit the alarm. */
static void test_visible__many_keys__at_once(void **state) {
    (void)state;
    alarm(60);
    const int64_t keys = INT64_C(1) << 40;
    const lab_mask_place at = {0, keys - 1, 0, keys, keys};
    assert_int_equal(lab_mask_visible(LAB_BIAS_PADDED_CAUSAL, &at, keys), keys);
    assert_int_equal(lab_mask_visible(LAB_BIAS_DOCUMENTS, &at, keys), keys / 64 * 15);
    assert_int_equal(lab_mask_visible(LAB_BIAS_BLOCKS, &at, keys),
                     128 * ((keys / 128 + 2) / 3));
    alarm(0);
}

static double pairs_of(const char *line) {
    lab_spec spec;
    lab_message why;
    lab_work work;
    if (!lab_spec_parse(&spec, line, &why))
        fail_msg("%s", why.text);
    lab_attention_work(&work, &spec);
    return work.pairs;
}

/* Hidden keys are not work: a kernel that skips them is not below its floor. */
static void test_work__of_patterns__what_they_leave(void **state) {
    (void)state;
    assert_near(pairs_of("b1h1s100d64,bias=bool,biasfill=tenth"), 100.0 * 100.0, 0.0);
    assert_near(pairs_of("b1h3s100d64,bias=bool,biasfill=padded-causal"), 3.0 * 5050.0, 0.0);
    assert_near(pairs_of("b4h1s80d64,bias=bool,biasfill=padding"), 80.0 * (80 + 70 + 60 + 50),
                0.0);
    assert_near(pairs_of("b4h1s80d64,bias=bool:11qk,biasfill=padding"), 4.0 * 80.0 * 80.0, 0.0);
    assert_near(pairs_of("b1h1s80d64,causal,bias=bool,biasfill=clear"), 3240.0, 0.0);
    assert_near(pairs_of("b1h1s80d64,bias=bool:11q1,biasfill=padding"), 80.0 * 80.0, 0.0);
    const double many = pairs_of("b1h1s3000d64,bias=bool,biasfill=padded-causal");
    assert_true(many > 0.99 * 4501500.0 && many < 1.01 * 4501500.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns__of_intervals__their_ends),
        cmocka_unit_test(test_patterns__fewer_rows_than_keys__the_last_row_is_at_the_last_key),
        cmocka_unit_test(test_patterns__blocks__the_diagonal_and_a_third),
        cmocka_unit_test(test_visible__any_keys_of_a_row__as_counted_one_by_one),
        cmocka_unit_test(test_visible__many_keys__at_once),
        cmocka_unit_test(test_work__of_patterns__what_they_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
