/* test_checked.c: size arithmetic at its edges. */
#include "base/checked.h"
#include "tests/support/check.h"

static void test_mul__at_and_past_the_limit__reported(void **state) {
    (void)state;
    static const struct {
        int64_t a, b, product;
        bool fits;
    } rows[] = {
        {0, INT64_MAX, 0, true},
        {1, INT64_MAX, INT64_MAX, true},
        {2, INT64_MAX / 2, INT64_MAX - 1, true},
        {2, INT64_MAX / 2 + 1, 0, false},
        {INT64_C(1) << 31, INT64_C(1) << 31, INT64_C(1) << 62, true},
        {INT64_C(1) << 32, INT64_C(1) << 31, 0, false},
        {3037000499, 3037000499, INT64_C(9223372030926249001), true},
        {3037000500, 3037000500, 0, false},
        {INT64_MIN, 1, INT64_MIN, true},
        {INT64_MIN, -1, 0, false},
        {-3, 5, -15, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t r = 0;
        assert_int_equal(att_mul(rows[i].a, rows[i].b, &r), rows[i].fits);
        if (rows[i].fits)
            assert_true(r == rows[i].product);
    }
}

static void test_add__at_and_past_the_limit__reported(void **state) {
    (void)state;
    int64_t r = 0;
    assert_true(att_add(INT64_MAX - 1, 1, &r) && r == INT64_MAX);
    assert_false(att_add(INT64_MAX, 1, &r));
    assert_true(att_add(INT64_MIN, 0, &r) && r == INT64_MIN);
    assert_false(att_add(INT64_MIN, -1, &r));
    assert_true(att_add(-7, 9, &r) && r == 2);
}

static void test_ceil_div_and_round_up__around_multiples__up(void **state) {
    (void)state;
    assert_true(att_ceil_div(0, 64) == 0);
    assert_true(att_ceil_div(1, 64) == 1);
    assert_true(att_ceil_div(64, 64) == 1);
    assert_true(att_ceil_div(65, 64) == 2);
    assert_true(att_ceil_div(INT64_MAX, 2) == INT64_MAX / 2 + 1);
    assert_true(att_ceil_div(INT64_MAX, 1) == INT64_MAX);
    assert_true(att_round_up(0, 16) == 0);
    assert_true(att_round_up(1, 16) == 16);
    assert_true(att_round_up(16, 16) == 16);
    assert_true(att_round_up(17, 16) == 32);
    assert_true(att_round_up(INT64_MAX - 15, 16) == INT64_MAX - 15);
    assert_true(att_round_up(INT64_MAX, 1) == INT64_MAX);
    assert_true(att_round_up(INT64_MAX, 16) == INT64_MAX - 15); /* the last multiple there is */
    assert_true(att_round_up(INT64_MAX - 1, INT64_MAX) == INT64_MAX);
}

static void test_min_max__ordered_and_not__pick(void **state) {
    (void)state;
    assert_true(att_min(-1, 2) == -1 && att_min(2, -1) == -1 && att_min(3, 3) == 3);
    assert_true(att_max(-1, 2) == 2 && att_max(2, -1) == 2 && att_max(3, 3) == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mul__at_and_past_the_limit__reported),
        cmocka_unit_test(test_add__at_and_past_the_limit__reported),
        cmocka_unit_test(test_ceil_div_and_round_up__around_multiples__up),
        cmocka_unit_test(test_min_max__ordered_and_not__pick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
