/* test_hidden_ends.c: the first and the last key that a mask leaves visible to a row, for every
 * type and length. */
#include <math.h>
#include <string.h>

#include "attention/cpu/hidden_ends.h"
#include "tests/support/check.h"

enum { KEYS = 41 };

static void set(void *row, att_dtype dtype, int64_t j, bool seen) {
    if (dtype == ATT_BOOL8)
        ((uint8_t *)row)[j] = seen ? 255 : 0;
    else
        att_store(row, dtype, j, seen ? -1.0f : -INFINITY);
}

static void test_hidden_ends__any_interval__found(void **state) {
    (void)state;
    static const att_dtype dtypes[] = {ATT_F32, ATT_F16, ATT_BF16, ATT_BOOL8};
    for (int d = 0; d < 4; d++)
        for (int64_t lo = 0; lo <= KEYS; lo++)
            for (int64_t hi = lo; hi <= KEYS; hi++) {
                float row[KEYS];
                for (int64_t j = 0; j < KEYS; j++)
                    set(row, dtypes[d], j, j == lo || j == hi - 1 ? lo < hi : false);
                const att_problem p = {
                    .features = ATT_BIAS, .bias_dtype = dtypes[d], .bias = {.col = 1}};
                const att_args a = {.bias = row};
                const att_cpu_job job = {.p = &p, .a = &a};
                const att_cpu_sequence s = {.len_k = KEYS};
                const att_cpu_interval seen = att_cpu_without_hidden_ends(
                    &job, &s, (att_cpu_query){0, 0}, (att_cpu_interval){0, KEYS});
                if (lo < hi) {
                    assert_int_equal(seen.lo, lo);
                    assert_int_equal(seen.hi, hi);
                } else {
                    assert_true(seen.hi <= seen.lo);
                }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hidden_ends__any_interval__found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
