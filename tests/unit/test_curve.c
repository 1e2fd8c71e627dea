/* test_curve.c: sequences of problems that differ only in size, and cliffs in them. */
#include "lab/measure/curve.h"
#include "tests/support/check.h"
#include "tests/support/parsed.h"

enum { MOST = 16 };
static lab_spec specs[MOST];
static lab_bench_case cases[MOST];

/* Cases of these problems, each with its own speed, in GFLOP/s; 0: not timed. */
static void lay_out(const char *const *lines, const double *speeds, size_t count) {
    for (size_t i = 0; i < count; i++) {
        specs[i] = parsed(lines[i]);
        cases[i] = (lab_bench_case){.spec = &specs[i], .timed = speeds && speeds[i] > 0.0};
        if (cases[i].timed) {
            cases[i].flops = 1e9;
            cases[i].ns.median = 1e9 / speeds[i];
        }
    }
}

static void test_next__sizes_alone__one_curve(void **state) {
    (void)state;
    static const char *const lines[] = {
        "b8h2s100d64",
        "b4h2s200d64",
        "b1h2s300d64", /* lengths */
        "b1h1s100d64",
        "b1h2s100d64",
        "b2h2s100d64", /* heads */
        "b2h2s100d64,causal",
        "b2h2s200d64,causal",  /* another mask */
        "b2h2s200d128,causal", /* another head dimension */
        "b2h2s300d128,bf16,causal",
    };
    static const size_t ends[] = {3, 6, 8, 9, 10};
    const size_t count = sizeof lines / sizeof lines[0];
    lay_out(lines, NULL, count);
    size_t from = 0, end;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++, from = end) {
        lab_curve_next(cases, count, 1, from, &end);
        assert_int_equal(end, ends[i]);
    }
    /* Rivals of the same problem are adjacent. */
    static const char *const pairs[] = {"b1h1s10d64", "b1h1s10d64", "b1h1s20d64",
                                        "b1h1s20d64", "b1h1s5d64",  "b1h1s5d64"};
    lay_out(pairs, NULL, 6);
    lab_curve_next(cases, 6, 2, 0, &end);
    assert_int_equal(end, 4);
}

static void test_fall__neighbours__more_than_15_percent(void **state) {
    (void)state;
    static const char *const lines[] = {"b1h1s10d64", "b1h1s20d64", "b1h1s30d64", "b1h1s40d64",
                                        "b1h1s50d64", "b1h1s60d64", "b1h1s70d64", "b1h1s80d64"};
    /*                              climbs       falls  stays  dips        not timed */
    static const double speeds[] = {10.0, 100.0, 80.0, 80.0, 75.0, 100.0, 0.0, 90.0};
    lay_out(lines, speeds, 8);
    static const double falls[] = {0.0, 0.0, 0.20, 0.0, 0.25, 0.0, 0.0, 0.0};
    for (size_t i = 0; i < 8; i++)
        assert_near(lab_curve_fall(cases, 1, 0, 8, i), falls[i], 1e-9);
    assert_near(lab_curve_fall(cases, 1, 2, 8, 2), 0.0, 0.0); /* another curve's neighbour */
    assert_near(lab_curve_fall(cases, 1, 0, 5, 4), 0.0, 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next__sizes_alone__one_curve),
        cmocka_unit_test(test_fall__neighbours__more_than_15_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
