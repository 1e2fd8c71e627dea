/* test_verdict.c: verdicts on distributions with a known answer: false alarms, power, tails,
 * ties, drift. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/base/random.h"
#include "lab/statistics/verdict.h"

static lab_message why;

/* -------------------------------------------------------------------- made-up samples */

enum { MOST = 400 };

typedef struct made {
    double values[MOST];
    uint32_t process[MOST], round[MOST];
    lab_samples samples;
} made;

/* How a set is made. Times are near 8000 ns, like those of a small problem on a GPU. */
typedef struct recipe {
    size_t processes, rounds; /* rounds of each process */
    double shift;             /* relative: 0.02 is 2 % slower */
    double noise;             /* relative standard deviation of a sample */
    double process_noise;     /* the same for what a process has in common */
    double tick;              /* times come in multiples of this; 0: they do not */
    bool heavy;               /* one sample in ten is up to three times as long */
} recipe;

static double normal(lab_random *random) {
    return (double)lab_random_normal(random);
}

static void finish(made *m, size_t i, const recipe *r, double common, lab_random *random) {
    double time = 8000.0 * (1.0 + r->shift) * (1.0 + common + r->noise * normal(random));
    if (r->heavy && lab_random_below(random, 10) == 0)
        time *= 1.0 + 2.0 * lab_random_unit(random);
    m->values[i] = r->tick > 0.0 ? r->tick * floor(time / r->tick + 0.5) : time;
    m->process[i] = (uint32_t)(i / r->rounds);
    m->round[i] = (uint32_t)(i % r->rounds);
}

static void make(made *m, const recipe *r, lab_random *random) {
    double common = 0.0;
    const size_t count = r->processes * r->rounds;
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        if (i % r->rounds == 0)
            common = r->process_noise * normal(random);
        finish(m, i, r, common, random);
    }
    m->samples = (lab_samples){m->values, count, m->process, m->round};
}

/* Two rivals, interleaved: both share what a process and a round have in common. `drift` is the
 * relative change from the first round to the last. */
static void make_pair(made *a, made *b, const recipe *of_a, const recipe *of_b, double drift,
                      lab_random *random) {
    double process = 0.0;
    const size_t count = of_a->processes * of_a->rounds;
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        if (i % of_a->rounds == 0)
            process = of_a->process_noise * normal(random);
        const double common = process + drift * (double)i / (double)count;
        finish(a, i, of_a, common, random);
        finish(b, i, of_b, common, random);
    }
    a->samples = (lab_samples){a->values, count, a->process, a->round};
    b->samples = (lab_samples){b->values, count, b->process, b->round};
}

/* Verdicts of many trials, by kind. */
typedef struct counts {
    int of[4];
} counts;

/* The instrumented builds are slow, and run fewer trials. */
static int trials(void) {
    return getenv("ATTEST_PROPERTY_COUNT") ? 30 : 60;
}

static counts try_many(const recipe *of_a, const recipe *of_b, lab_pairing pairing,
                       double drift, double minimum) {
    static made a, b;
    counts result = {{0}};
    for (uint64_t trial = 0; (int)trial < trials(); trial++) {
        lab_random random;
        lab_verdict v;
        lab_random_seed(&random, trial, 77);
        if (pairing == LAB_PAIRED) {
            make_pair(&a, &b, of_a, of_b, drift, &random);
        } else {
            make(&a, of_a, &random);
            make(&b, of_b, &random);
        }
        if (!lab_verdict_of(&v, &a.samples, &b.samples, pairing, minimum, trial, &why))
            fail_msg("%s", why.text);
        result.of[v.kind]++;
    }
    return result;
}

static void expect(const char *what, const counts *c, lab_verdict_kind kind, double least) {
    if (c->of[kind] < least * trials())
        fail_msg("%s: of %d trials %d FASTER, %d SLOWER, %d SAME, %d AMBIGUOUS", what, trials(),
                 c->of[LAB_FASTER], c->of[LAB_SLOWER], c->of[LAB_SAME], c->of[LAB_AMBIGUOUS]);
}

/* The trials find a difference at most as often as a test of level 5 % may: three standard
 * deviations of a binomial above. */
static void expect_quiet(const char *what, const counts *c) {
    const double n = trials(), most = 0.05 * n + 3.0 * sqrt(0.05 * 0.95 * n);
    if (c->of[LAB_FASTER] + c->of[LAB_SLOWER] > most)
        fail_msg("%s: of %d A/A trials %d FASTER, %d SLOWER", what, trials(), c->of[LAB_FASTER],
                 c->of[LAB_SLOWER]);
}

/* 40 samples with a noise of 0.7 %: typical for the seed suite on a GPU. */
static const recipe usual = {.processes = 1, .rounds = 40, .noise = 0.007};

static recipe shifted(recipe r, double shift) {
    r.shift = shift;
    return r;
}

/* ------------------------------------------------------------------------- the rule */

static void test_verdict__a_against_a__is_same(void **state) {
    (void)state;
    counts c = try_many(&usual, &usual, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("unpaired", &c, LAB_SAME, 0.95);
    c = try_many(&usual, &usual, LAB_PAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("paired", &c, LAB_SAME, 0.95);
}

/* With a minimum effect below the noise only the test's own level limits false alarms. */
static void test_verdict__a_against_a_with_no_minimum__alarms_at_its_level(void **state) {
    (void)state;
    counts c = try_many(&usual, &usual, LAB_UNPAIRED, 0.0, 1e-9);
    expect_quiet("unpaired", &c);
    assert_true(c.of[LAB_FASTER] + c.of[LAB_SLOWER] > 0); /* a level of 5 %, not of none */
    c = try_many(&usual, &usual, LAB_PAIRED, 0.0, 1e-9);
    expect_quiet("paired", &c);
    assert_true(c.of[LAB_FASTER] + c.of[LAB_SLOWER] > 0);
}

static void test_verdict__two_and_three_per_cent__are_found(void **state) {
    (void)state;
    const double shifts[] = {0.02, 0.03};
    for (int i = 0; i < 2; i++) {
        const recipe slow = shifted(usual, shifts[i]), quick = shifted(usual, -shifts[i]);
        counts c = try_many(&usual, &slow, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
        expect("unpaired, slower", &c, LAB_SLOWER, 0.99);
        c = try_many(&usual, &quick, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
        expect("unpaired, faster", &c, LAB_FASTER, 0.99);
        c = try_many(&usual, &slow, LAB_PAIRED, 0.0, LAB_MINIMUM_EFFECT);
        expect("paired, slower", &c, LAB_SLOWER, 0.99);
    }
}

static void test_verdict__a_difference_below_the_minimum__is_same(void **state) {
    (void)state;
    const recipe calm = {.processes = 1, .rounds = 100, .noise = 0.003};
    const recipe little = shifted(calm, 0.004);
    const counts c = try_many(&calm, &little, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("0.4 %", &c, LAB_SAME, 0.95);
}

static void test_verdict__too_noisy_to_tell__is_ambiguous(void **state) {
    (void)state;
    const recipe noisy = {.processes = 1, .rounds = 20, .noise = 0.05};
    const counts c = try_many(&noisy, &noisy, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("5 % of noise", &c, LAB_AMBIGUOUS, 0.9);
}

static void test_verdict__heavy_tails__change_nothing(void **state) {
    (void)state;
    recipe tails = usual;
    tails.heavy = true;
    counts c = try_many(&tails, &tails, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("A/A", &c, LAB_SAME, 0.95);
    const recipe slow = shifted(tails, 0.03);
    c = try_many(&tails, &slow, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("3 %", &c, LAB_SLOWER, 0.95);
    c = try_many(&tails, &slow, LAB_PAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("3 %, paired", &c, LAB_SLOWER, 0.95);
}

/* Twenty rounds, a fifth of which have an outlier on one side or the other. */
static void test_verdict__wild_partners_in_few_rounds__do_not_hide_what_is_same(void **state) {
    (void)state;
    const recipe wild = {.processes = 1, .rounds = 20, .noise = 0.003, .heavy = true};
    counts c = try_many(&wild, &wild, LAB_PAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("A/A", &c, LAB_SAME, 0.95);
    const recipe slow = shifted(wild, 0.03);
    c = try_many(&wild, &slow, LAB_PAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("3 %", &c, LAB_SLOWER, 0.95);
}

/* Ticks as wide as the noise: nearly all samples are equal to many others. */
static void test_verdict__ticks__are_told_apart(void **state) {
    (void)state;
    recipe ticks = usual;
    ticks.tick = 64.0;
    counts c = try_many(&ticks, &ticks, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("A/A", &c, LAB_SAME, 0.95);
    const recipe slow = shifted(ticks, 0.03);
    c = try_many(&ticks, &slow, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("3 %", &c, LAB_SLOWER, 0.95);
    c = try_many(&ticks, &slow, LAB_PAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("3 %, paired", &c, LAB_SLOWER, 0.95);
}

static void test_verdict__constant_times__are_decided(void **state) {
    (void)state;
    double a[12], b[12];
    for (int i = 0; i < 12; i++) {
        a[i] = 100.0;
        b[i] = 103.0;
    }
    const lab_samples of_a = {.values = a, .count = 12}, of_b = {.values = b, .count = 12};
    for (lab_pairing pairing = LAB_UNPAIRED; pairing <= LAB_PAIRED; pairing++) {
        lab_verdict v;
        assert_true(lab_verdict_of(&v, &of_a, &of_b, pairing, 0.01, 0, &why));
        assert_int_equal(v.kind, LAB_SLOWER);
        assert_true(fabs(v.effect - 0.03) < 1e-9);
        assert_true(lab_verdict_of(&v, &of_b, &of_a, pairing, 0.01, 0, &why));
        assert_int_equal(v.kind, LAB_FASTER);
        assert_true(lab_verdict_of(&v, &of_a, &of_a, pairing, 0.01, 0, &why));
        assert_int_equal(v.kind, LAB_SAME);
        assert_true(v.effect == 0.0 && v.low == 0.0 && v.high == 0.0);
    }
}

/* ------------------------------------------------------------------- drift, processes */

/* The machine slows down by 10 % while both are measured. */
static void test_verdict__drift_of_interleaved_rivals__cancels(void **state) {
    (void)state;
    counts c = try_many(&usual, &usual, LAB_PAIRED, 0.1, LAB_MINIMUM_EFFECT);
    expect("A/A", &c, LAB_SAME, 0.95);
    const recipe slow = shifted(usual, 0.02);
    c = try_many(&usual, &slow, LAB_PAIRED, 0.1, LAB_MINIMUM_EFFECT);
    expect("2 %", &c, LAB_SLOWER, 0.95);
}

/* Processes differ more than their samples: shuffling samples would find differences in A/A. */
static void test_verdict__drift_between_processes__is_no_difference(void **state) {
    (void)state;
    const recipe several = {
        .processes = 5, .rounds = 20, .noise = 0.003, .process_noise = 0.015};
    counts c = try_many(&several, &several, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect_quiet("by process", &c);
    recipe merged = several;
    static made a, b;
    int alarms = 0;
    for (uint64_t trial = 0; trial < 40; trial++) {
        lab_random random;
        lab_verdict v;
        lab_random_seed(&random, trial, 78);
        make(&a, &merged, &random);
        make(&b, &merged, &random);
        a.samples.process = b.samples.process = NULL;
        assert_true(lab_verdict_of(&v, &a.samples, &b.samples, LAB_UNPAIRED, 1e-9, 0, &why));
        assert_false(v.by_process);
        alarms += v.kind != LAB_AMBIGUOUS && v.kind != LAB_SAME;
    }
    assert_true(alarms > 12); /* what knowing the processes saves us from */
    const recipe slow = shifted(several, 0.06);
    c = try_many(&several, &slow, LAB_UNPAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("6 %", &c, LAB_SLOWER, 0.95);
}

static void test_verdict__shared_processes__pair_by_round(void **state) {
    (void)state;
    const recipe several = {
        .processes = 6, .rounds = 10, .noise = 0.005, .process_noise = 0.03};
    const recipe slow = shifted(several, 0.03);
    counts c = try_many(&several, &several, LAB_PAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("A/A", &c, LAB_SAME, 0.95);
    c = try_many(&several, &slow, LAB_PAIRED, 0.0, LAB_MINIMUM_EFFECT);
    expect("3 %", &c, LAB_SLOWER, 0.95);
}

static void test_verdict__rounds_missing_on_one_side__pair_the_others(void **state) {
    (void)state;
    /* Each side lost two rounds; with the wrong partners the ratios would be far from 1.03. */
    const double base[] = {100.0, 200.0, 400.0, 800.0, 100.0,
                           200.0, 400.0, 800.0, 100.0, 200.0};
    double a[8], b[8];
    uint32_t process_a[8], process_b[8], round_a[8], round_b[8];
    size_t i = 0, j = 0;
    for (uint32_t r = 0; r < 10; r++) {
        if (r != 2 && r != 7) {
            a[i] = base[r];
            process_a[i] = r / 5;
            round_a[i++] = r % 5;
        }
        if (r != 0 && r != 9) {
            b[j] = 1.03 * base[r];
            process_b[j] = r / 5;
            round_b[j++] = r % 5;
        }
    }
    const lab_samples of_a = {a, 8, process_a, round_a}, of_b = {b, 8, process_b, round_b};
    lab_verdict v;
    assert_true(lab_verdict_of(&v, &of_a, &of_b, LAB_PAIRED, 0.01, 0, &why));
    assert_true(fabs(v.effect - 0.03) < 1e-9 && fabs(v.low - 0.03) < 1e-9);
}

/* ------------------------------------------------------------------------------ edges */

static void test_verdict__few_samples__are_ambiguous(void **state) {
    (void)state;
    const double a[] = {100.0, 101.0, 99.0}, b[] = {150.0, 151.0, 149.0};
    for (size_t count = 1; count <= 3; count++) {
        const lab_samples of_a = {.values = a, .count = count};
        const lab_samples of_b = {.values = b, .count = count};
        lab_verdict v;
        for (lab_pairing pairing = LAB_UNPAIRED; pairing <= LAB_PAIRED; pairing++) {
            assert_true(lab_verdict_of(&v, &of_a, &of_b, pairing, 0.01, 0, &why));
            assert_int_equal(v.kind, LAB_AMBIGUOUS);
        }
    }
}

static void test_verdict__bad_samples__fail_by_name(void **state) {
    (void)state;
    const double good[] = {1.0, 2.0}, zero[] = {1.0, 0.0}, lost[] = {NAN, 1.0};
    const uint32_t early[] = {0, 1}, late[] = {2, 3};
    const lab_samples a = {.values = good, .count = 2, .round = early};
    lab_samples b = {.values = zero, .count = 2};
    lab_verdict v;
    assert_false(lab_verdict_of(&v, &a, &b, LAB_UNPAIRED, 0.01, 0, &why));
    assert_string_equal(why.text, "B: sample 1 is not a time above zero");
    b.values = lost;
    assert_false(lab_verdict_of(&v, &b, &a, LAB_UNPAIRED, 0.01, 0, &why));
    assert_string_equal(why.text, "A: sample 0 is not a time above zero");
    b.count = 0;
    assert_false(lab_verdict_of(&v, &a, &b, LAB_UNPAIRED, 0.01, 0, &why));
    assert_string_equal(why.text, "B has no samples");
    b = (lab_samples){.values = good, .count = 2, .round = late};
    assert_false(lab_verdict_of(&v, &a, &b, LAB_PAIRED, 0.01, 0, &why));
    assert_string_equal(why.text, "A and B have no round in common");
    assert_false(lab_verdict_of(&v, &a, &a, LAB_PAIRED, 0.0, 0, &why));
    assert_string_equal(why.text, "a minimum effect of 0 is not between 0 and 1");
}

static void test_verdict__same_seed__same_numbers(void **state) {
    (void)state;
    static made a, b;
    lab_random random;
    lab_random_seed(&random, 5, 5);
    make(&a, &usual, &random);
    make(&b, &usual, &random);
    lab_verdict v, w;
    assert_true(lab_verdict_of(&v, &a.samples, &b.samples, LAB_UNPAIRED, 0.01, 3, &why));
    assert_true(lab_verdict_of(&w, &a.samples, &b.samples, LAB_UNPAIRED, 0.01, 3, &why));
    assert_true(v.low == w.low && v.high == w.high && v.p_different == w.p_different &&
                v.p_not_same == w.p_not_same);
}

static void test_verdict__names__are_the_four(void **state) {
    (void)state;
    assert_string_equal(lab_verdict_name(LAB_FASTER), "FASTER");
    assert_string_equal(lab_verdict_name(LAB_SLOWER), "SLOWER");
    assert_string_equal(lab_verdict_name(LAB_SAME), "SAME");
    assert_string_equal(lab_verdict_name(LAB_AMBIGUOUS), "AMBIGUOUS");
    assert_string_equal(lab_verdict_name((lab_verdict_kind)9), "unknown");
}

static void test_minimum_effect__of_a_a_verdicts__is_their_reach(void **state) {
    (void)state;
    const lab_verdict reach[] = {{.low = -0.002, .high = 0.001}, {.low = -0.001, .high = 0.02}};
    assert_true(fabs(lab_minimum_effect(reach, 2) - 0.0191) < 1e-12);
    assert_true(lab_minimum_effect(reach, 1) == LAB_MINIMUM_EFFECT_FLOOR);
    assert_true(lab_minimum_effect(NULL, 0) == LAB_MINIMUM_EFFECT);
    const lab_verdict wild = {.low = -0.4, .high = 1.4};
    assert_true(lab_minimum_effect(&wild, 1) == LAB_MINIMUM_EFFECT_MOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdict__a_against_a__is_same),
        cmocka_unit_test(test_verdict__a_against_a_with_no_minimum__alarms_at_its_level),
        cmocka_unit_test(test_verdict__two_and_three_per_cent__are_found),
        cmocka_unit_test(test_verdict__a_difference_below_the_minimum__is_same),
        cmocka_unit_test(test_verdict__too_noisy_to_tell__is_ambiguous),
        cmocka_unit_test(test_verdict__heavy_tails__change_nothing),
        cmocka_unit_test(test_verdict__wild_partners_in_few_rounds__do_not_hide_what_is_same),
        cmocka_unit_test(test_verdict__ticks__are_told_apart),
        cmocka_unit_test(test_verdict__constant_times__are_decided),
        cmocka_unit_test(test_verdict__drift_of_interleaved_rivals__cancels),
        cmocka_unit_test(test_verdict__drift_between_processes__is_no_difference),
        cmocka_unit_test(test_verdict__shared_processes__pair_by_round),
        cmocka_unit_test(test_verdict__rounds_missing_on_one_side__pair_the_others),
        cmocka_unit_test(test_verdict__few_samples__are_ambiguous),
        cmocka_unit_test(test_verdict__bad_samples__fail_by_name),
        cmocka_unit_test(test_verdict__same_seed__same_numbers),
        cmocka_unit_test(test_verdict__names__are_the_four),
        cmocka_unit_test(test_minimum_effect__of_a_a_verdicts__is_their_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
