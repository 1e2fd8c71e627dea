/* test_forecast.c: a bar that is not full before the end, and not limited by what does not
 * bind. */
#include "lab/measure/forecast.h"
#include "tests/support/check.h"

static lab_forecast after(double seconds, size_t least, size_t most, size_t cases,
                          size_t rounds, double elapsed) {
    lab_bench_options options = lab_bench_defaults();
    options.seconds = seconds;
    options.min_samples = least;
    options.max_samples = most;
    return lab_forecast_of(&options, cases, rounds, elapsed);
}

/* Eight cases without a time limit: the number of samples decides. The bar once showed 8/8 from
 * the first round on. */
static void
test_forecast__samples_take_longer_than_the_time_asked__samples_count(void **state) {
    (void)state;
    const lab_forecast f = after(0.0, 20, 2000, 8, 2, 4.0);
    assert_near(f.seconds, 40.0, 1e-9);
    assert_near(f.share, 0.1, 1e-9);
    const lab_forecast longer = after(1.0, 20, 2000, 8, 2, 4.0);
    assert_near(longer.seconds, 40.0, 1e-9);
}

static void test_forecast__time_asked_is_longer__time_counts(void **state) {
    (void)state;
    const lab_forecast f = after(1.0, 20, 2000, 8, 100, 2.0);
    assert_near(f.seconds, 8.0, 1e-9);
    assert_near(f.share, 0.25, 1e-9);
}

static void test_forecast__most_samples_end_it_before__they_count(void **state) {
    (void)state;
    const lab_forecast f = after(100.0, 20, 40, 1, 10, 5.0);
    assert_near(f.seconds, 20.0, 1e-9);
    assert_near(f.share, 0.25, 1e-9);
}

static void test_forecast__every_moment_of_a_run__below_one_and_not_falling(void **state) {
    (void)state;
    double before = -1.0;
    for (size_t round = 0; round <= 30; round++) {
        const lab_forecast f = after(0.0, 20, 2000, 3, round, 0.5 * (double)round);
        assert_true(f.share >= before && f.share < 1.0);
        assert_true(f.seconds >= 0.5 * (double)round);
        before = f.share;
    }
    assert_near(after(0.0, 20, 2000, 3, 0, 0.0).share, 0.0, 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forecast__samples_take_longer_than_the_time_asked__samples_count),
        cmocka_unit_test(test_forecast__time_asked_is_longer__time_counts),
        cmocka_unit_test(test_forecast__most_samples_end_it_before__they_count),
        cmocka_unit_test(test_forecast__every_moment_of_a_run__below_one_and_not_falling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
