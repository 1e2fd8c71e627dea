/* test_dtype.c: 16-bit conversions compared with an independent rounding, over every value. */
#include <math.h>

#include "base/dtype.h"
#include "tests/support/check.h"

/* A 16-bit format: its fraction bits and its smallest exponent. */
typedef struct format {
    int fraction;
    int least_exponent;
    double largest;
    uint16_t infinity;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
} format;

static float widen_f16(uint16_t h) {
    return att_f16_to_f32(h);
}

static float widen_bf16(uint16_t h) {
    return att_bf16_to_f32(h);
}

static uint16_t narrow_bf16(float x) {
    return att_f32_to_bf16(x);
}

static const format F16 = {10, -14, 65504.0, 0x7c00, widen_f16, att_f32_to_f16};
static const format BF16 = {7, -126, 0x1.fep127, 0x7f80, widen_bf16, narrow_bf16};

static bool is_nan16(const format *f, uint16_t h) {
    return (h & 0x7fff) > f->infinity;
}

/* The value of the bits, by the definition of the format. */
static double decode(const format *f, uint16_t h) {
    const int fields = h & 0x7fff;
    const int exponent = fields >> f->fraction;
    const int fraction = fields & ((1 << f->fraction) - 1);
    const int hidden = exponent > 0 ? 1 << f->fraction : 0;
    const int power = (exponent > 0 ? exponent - 1 : 0) + f->least_exponent - f->fraction;
    const double magnitude =
        fields == f->infinity ? (double)INFINITY : ldexp(hidden + fraction, power);
    return h & 0x8000 ? -magnitude : magnitude;
}

/* The bits of `x` rounded to nearest, ties to even: divide by the quantum, round, encode. */
static uint16_t encode(const format *f, double x) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double magnitude = fabs(x);
    if (isinf(magnitude))
        return sign | f->infinity;
    int exponent = f->least_exponent;
    if (magnitude > 0.0 && ilogb(magnitude) > exponent)
        exponent = ilogb(magnitude);
    const double quanta = nearbyint(ldexp(magnitude, f->fraction - exponent));
    if (ldexp(quanta, exponent - f->fraction) > f->largest)
        return sign | f->infinity;
    const int fields =
        ((exponent - f->least_exponent) << f->fraction) + (int)quanta; /* carries by itself */
    return (uint16_t)(sign | fields);
}

static void expect_narrow(const format *f, float x) {
    const uint16_t got = f->narrow(x);
    const uint16_t want = encode(f, (double)x);
    if (got != want)
        fail_msg("%a narrows to %#06x, not to %#06x", (double)x, got, want);
}

static void check_widen(const format *f) {
    for (int bits = 0; bits < 0x10000; bits++) {
        const uint16_t h = (uint16_t)bits;
        const float wide = f->widen(h);
        if (is_nan16(f, h)) {
            assert_true(isnan(wide));
            assert_true((signbit(wide) != 0) == (h >> 15 != 0));
            continue;
        }
        if (att_f32_bits(wide) != att_f32_bits((float)decode(f, h)))
            fail_msg("%#06x widens to %a, not to %a", h, (double)wide, decode(f, h));
    }
}

static void check_round_trip(const format *f) {
    for (int bits = 0; bits < 0x10000; bits++) {
        const uint16_t h = (uint16_t)bits;
        const uint16_t back = f->narrow(f->widen(h));
        if (is_nan16(f, h))
            assert_true(is_nan16(f, back) && (back & 0x8000) == (h & 0x8000));
        else
            assert_int_equal(back, h);
    }
}

/* Both sides of every point where the rounding changes, and the point itself. */
static void check_ties(const format *f) {
    for (int bits = 0; bits < f->infinity; bits++) {
        const double low = decode(f, (uint16_t)bits);
        const double next = bits + 1 < f->infinity
                                ? decode(f, (uint16_t)(bits + 1))
                                : f->largest + (f->largest - decode(f, (uint16_t)(bits - 1)));
        const float tie = (float)(low + (next - low) / 2.0);
        for (int sign = -1; sign <= 1; sign += 2) {
            expect_narrow(f, (float)sign * tie);
            expect_narrow(f, (float)sign * nextafterf(tie, 0.0f));
            expect_narrow(f, (float)sign * nextafterf(tie, INFINITY));
        }
    }
}

/* A prime step visits every exponent and every low-order bit pattern, except NaN. */
static void check_sweep(const format *f) {
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += 997) {
        expect_narrow(f, att_bits_f32(bits));
        expect_narrow(f, att_bits_f32(bits | 0x80000000u));
    }
}

static void check_nan(const format *f) {
    static const uint32_t nans[] = {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0x7f801000u,
                                    0xff800001u, 0xffc00000u, 0xffffffffu, 0xff80ffffu};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        const uint16_t h = f->narrow(att_bits_f32(nans[i]));
        assert_true(is_nan16(f, h));
        assert_int_equal(h >> 15, nans[i] >> 31);
    }
}

static void check_extremes(const format *f) {
    assert_int_equal(f->narrow(INFINITY), f->infinity);
    assert_int_equal(f->narrow(-INFINITY), f->infinity | 0x8000);
    assert_int_equal(f->narrow(0.0f), 0);
    assert_int_equal(f->narrow(-0.0f), 0x8000);
    assert_int_equal(f->narrow((float)f->largest), f->infinity - 1);
    expect_narrow(f, 0x1.fffffep127f);
    expect_narrow(f, 0x1p-149f);
}

static void test_f16_to_f32__every_bit_pattern__exact(void **state) {
    (void)state;
    check_widen(&F16);
}

static void test_f16__every_bit_pattern__round_trips(void **state) {
    (void)state;
    check_round_trip(&F16);
}

static void test_f32_to_f16__ties_and_neighbours__nearest_even(void **state) {
    (void)state;
    check_ties(&F16);
}

static void test_f32_to_f16__sweep_of_floats__nearest_even(void **state) {
    (void)state;
    check_sweep(&F16);
}

static void test_f32_to_f16__nan_and_extremes__kept(void **state) {
    (void)state;
    check_nan(&F16);
    check_extremes(&F16);
}

static void test_bf16_to_f32__every_bit_pattern__exact(void **state) {
    (void)state;
    check_widen(&BF16);
}

static void test_bf16__every_bit_pattern__round_trips(void **state) {
    (void)state;
    check_round_trip(&BF16);
}

static void test_f32_to_bf16__ties_and_neighbours__nearest_even(void **state) {
    (void)state;
    check_ties(&BF16);
}

static void test_f32_to_bf16__sweep_of_floats__nearest_even(void **state) {
    (void)state;
    check_sweep(&BF16);
}

static void test_f32_to_bf16__nan_and_extremes__kept(void **state) {
    (void)state;
    check_nan(&BF16);
    check_extremes(&BF16);
}

static void test_dtype_size__each_and_unknown__bytes_or_zero(void **state) {
    (void)state;
    assert_int_equal(att_dtype_size(ATT_F32), 4);
    assert_int_equal(att_dtype_size(ATT_F16), 2);
    assert_int_equal(att_dtype_size(ATT_BF16), 2);
    assert_int_equal(att_dtype_size(ATT_BOOL8), 1);
    assert_int_equal(att_dtype_size((att_dtype)0), 0);
    assert_int_equal(att_dtype_size((att_dtype)99), 0);
}

static void test_dtype_name__each_and_unknown__text(void **state) {
    (void)state;
    assert_string_equal(att_dtype_name(ATT_F32), "f32");
    assert_string_equal(att_dtype_name(ATT_F16), "f16");
    assert_string_equal(att_dtype_name(ATT_BF16), "bf16");
    assert_string_equal(att_dtype_name(ATT_BOOL8), "bool8");
    assert_string_equal(att_dtype_name((att_dtype)77), "?");
}

static void test_load_store__each_dtype__element_addressed(void **state) {
    (void)state;
    float wide[3] = {0};
    uint16_t narrow[3] = {0};
    const uint8_t flags[3] = {0, 1, 200};
    att_store(wide, ATT_F32, 1, 1.25f);
    assert_true(wide[0] == 0.0f && wide[2] == 0.0f && att_load(wide, ATT_F32, 1) == 1.25f);
    att_store(narrow, ATT_F16, 1, 1.25f);
    assert_true(narrow[0] == 0 && narrow[2] == 0 && att_load(narrow, ATT_F16, 1) == 1.25f);
    att_store(narrow, ATT_BF16, 2, -3.5f);
    assert_true(narrow[0] == 0 && att_load(narrow, ATT_BF16, 2) == -3.5f);
    assert_true(att_load(flags, ATT_BOOL8, 0) == 0.0f);
    assert_true(att_load(flags, ATT_BOOL8, 1) == 1.0f);
    assert_true(att_load(flags, ATT_BOOL8, 2) == 1.0f);
    assert_true(att_load(flags, (att_dtype)9, 1) == 0.0f);
}

/* Includes infinities, NaN and their payloads. */
static void test_load_row__every_value__bits_of_single_loads(void **state) {
    static const att_dtype types[] = {ATT_F16, ATT_BF16};
    static uint16_t all[1 << 16];
    static float row[1 << 16];
    (void)state;
    for (int i = 0; i < 1 << 16; i++)
        all[i] = (uint16_t)i;
    for (int t = 0; t < 2; t++) {
        att_load_row(row, all, types[t], 0, 1 << 16);
        for (int i = 0; i < 1 << 16; i++)
            assert_int_equal(att_f32_bits(row[i]), att_f32_bits(att_load(all, types[t], i)));
    }
    static const float values[] = {1.0f, -0.0f, INFINITY, 0x1p-149f};
    static const uint8_t flags[] = {0, 1, 255};
    att_load_row(row, values, ATT_F32, 1, 3);
    assert_memory_equal(row, values + 1, 3 * sizeof *row);
    att_load_row(row, flags, ATT_BOOL8, 0, 3);
    assert_true(row[0] == 0.0f && row[1] == 1.0f && row[2] == 1.0f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_row__every_value__bits_of_single_loads),
        cmocka_unit_test(test_f16_to_f32__every_bit_pattern__exact),
        cmocka_unit_test(test_f16__every_bit_pattern__round_trips),
        cmocka_unit_test(test_f32_to_f16__ties_and_neighbours__nearest_even),
        cmocka_unit_test(test_f32_to_f16__sweep_of_floats__nearest_even),
        cmocka_unit_test(test_f32_to_f16__nan_and_extremes__kept),
        cmocka_unit_test(test_bf16_to_f32__every_bit_pattern__exact),
        cmocka_unit_test(test_bf16__every_bit_pattern__round_trips),
        cmocka_unit_test(test_f32_to_bf16__ties_and_neighbours__nearest_even),
        cmocka_unit_test(test_f32_to_bf16__sweep_of_floats__nearest_even),
        cmocka_unit_test(test_f32_to_bf16__nan_and_extremes__kept),
        cmocka_unit_test(test_dtype_size__each_and_unknown__bytes_or_zero),
        cmocka_unit_test(test_dtype_name__each_and_unknown__text),
        cmocka_unit_test(test_load_store__each_dtype__element_addressed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
