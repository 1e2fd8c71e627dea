/* test_bf16_pairs.c: the emulation of AVX512-BF16 compared with hand-computed numbers. */
#include <math.h>
#include <string.h>

#undef ATT_AVX512_EMULATE
#define ATT_AVX512_EMULATE
#include "cpu/bf16_pairs.h"
#include "tests/support/check.h"

static vf pairs_of(float first, float second) {
    const uint32_t bits = (uint32_t)att_f32_to_bf16(second) << 16 | att_f32_to_bf16(first);
    return vf_set1(att_bits_f32(bits));
}

static float dot(float a0, float a1, float b0, float b1, float sum) {
    return vf_dot_pairs(pairs_of(a0, a1), pairs_of(b0, b1), vf_set1(sum)).lane[VF_W - 1];
}

static void test_dot_pairs__both_products__added(void **state) {
    (void)state;
    assert_true(dot(2.0f, 3.0f, 5.0f, 7.0f, 0.5f) == 31.5f);
    assert_true(dot(2.0f, 0.0f, 5.0f, 7.0f, 0.0f) == 10.0f);
    assert_true(dot(0.0f, 3.0f, 5.0f, 7.0f, 0.0f) == 21.0f);
}

/* 2^24 + 1 is not a float32: the last bit shows which product is added first. */
static void test_dot_pairs__second_product__added_first_and_rounded(void **state) {
    (void)state;
    assert_true(dot(-0x1p24f, 1.0f, 1.0f, 1.0f, 0x1p24f) == 0.0f);
    assert_true(dot(1.0f, -0x1p24f, 1.0f, 1.0f, 0x1p24f) == 1.0f);
}

static void test_dot_pairs__subnormals__count_as_zero(void **state) {
    (void)state;
    assert_true(dot(0x1p-127f, 0.0f, 0x1p20f, 0.0f, 1.0f) == 1.0f);      /* an operand */
    assert_true(dot(0x1p-64f, 0.0f, 0x1p-64f, 0.0f, 0.0f) == 0.0f);      /* a result */
    assert_true(dot(0.0f, 0.0f, 0.0f, 0.0f, 0x1p-127f) == 0.0f);         /* the sum */
    assert_true(dot(0x1p-63f, 0.0f, 0x1p-63f, 0.0f, 0.0f) == 0x1p-126f); /* the least */
}

static void test_dot_pairs__not_finite__kept(void **state) {
    (void)state;
    assert_true(isinf(dot(INFINITY, 0.0f, 1.0f, 0.0f, 0.0f)));
    assert_true(isnan(dot(INFINITY, 0.0f, 0.0f, 0.0f, 0.0f)));
    assert_true(isinf(dot(0x1p100f, 0.0f, 0x1p100f, 0.0f, 0.0f)));
}

static void test_load_pairs__any_count__zeros_behind(void **state) {
    (void)state;
    uint16_t row[2 * VF_W + 1], got[2 * VF_W];
    for (int i = 0; i <= 2 * VF_W; i++)
        row[i] = (uint16_t)(i + 1);
    for (int n = 1; n <= 2 * VF_W + 1; n++) {
        const vf pairs = vf_load_pairs(row, n);
        memcpy(got, &pairs, sizeof got);
        for (int i = 0; i < 2 * VF_W; i++)
            assert_int_equal(got[i], i < n ? i + 1 : 0);
    }
}

static void test_store_pairs__two_vectors__in_order_to_the_nearest_even(void **state) {
    (void)state;
    uint16_t got[2 * VF_W];
    vf low, high;
    for (int i = 0; i < VF_W; i++) {
        low.lane[i] = (float)i;
        high.lane[i] = 0x1.01p0f; /* half way: down to 1, whose last bit is even */
    }
    high.lane[1] = 0x1.03p0f; /* half way: up */
    high.lane[2] = 0x1p-127f;
    vf_store_pairs(got, low, high);
    for (int i = 0; i < VF_W; i++)
        assert_int_equal(got[i], att_f32_to_bf16((float)i));
    assert_int_equal(got[VF_W], 0x3f80);
    assert_int_equal(got[VF_W + 1], 0x3f82);
    assert_int_equal(got[VF_W + 2], 0);
}

static void test_zip_pairs__two_rows__column_by_column(void **state) {
    (void)state;
    uint16_t a[2 * VF_W], b[2 * VF_W], got[4 * VF_W];
    for (int i = 0; i < 2 * VF_W; i++) {
        a[i] = (uint16_t)(100 + i);
        b[i] = (uint16_t)(200 + i);
    }
    vf low, high;
    vf_zip_pairs(vf_load_pairs(a, 2 * VF_W), vf_load_pairs(b, 2 * VF_W), &low, &high);
    memcpy(got, &low, sizeof low);
    memcpy(got + 2 * VF_W, &high, sizeof high);
    for (int i = 0; i < 2 * VF_W; i++) {
        assert_int_equal(got[2 * i], 100 + i);
        assert_int_equal(got[2 * i + 1], 200 + i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dot_pairs__both_products__added),
        cmocka_unit_test(test_dot_pairs__second_product__added_first_and_rounded),
        cmocka_unit_test(test_dot_pairs__subnormals__count_as_zero),
        cmocka_unit_test(test_dot_pairs__not_finite__kept),
        cmocka_unit_test(test_load_pairs__any_count__zeros_behind),
        cmocka_unit_test(test_store_pairs__two_vectors__in_order_to_the_nearest_even),
        cmocka_unit_test(test_zip_pairs__two_rows__column_by_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
