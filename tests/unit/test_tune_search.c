/* test_tune_search.c: the evolutionary search on costs whose minimum is known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/tune/tune_search.h"
#include "tests/support/check.h"

enum { SWITCHES = 12, GENES = 4 + SWITCHES };

/* Sizes that must stay small together, like tiles in shared memory, and switches. */
static bool feasible(const lab_genome *g, const void *state) {
    (void)state;
    return g->allele[0] + g->allele[1] + g->allele[2] <= 12;
}

/* Minimal at 4, 5, 2, 1 with every switch at 0; the sizes interact, the switches matter
 * less. */
static double cost(const lab_genome *g) {
    const double a = g->allele[0] - 4.0, b = g->allele[1] - 5.0, c = g->allele[2] - 2.0,
                 d = g->allele[3] - 1.0;
    double sum = 1.0 + 0.02 * (a * a + b * b + c * c + d * d) + 0.01 * a * b;
    for (int i = 4; i < GENES; i++)
        sum += 0.03 * g->allele[i];
    return sum;
}

static lab_space space_of(void) {
    lab_space space = {.count = GENES, .feasible = feasible};
    static const int alleles[4] = {8, 8, 6, 4};
    for (int i = 0; i < 4; i++)
        space.genes[i] = (lab_gene){.alleles = alleles[i], .ordered = true, .weight = 3};
    for (int i = 4; i < GENES; i++)
        space.genes[i] = (lab_gene){.alleles = 2, .rare = 0.2, .weight = 1};
    return space;
}

static bool same(const lab_genome *a, const lab_genome *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* Ask and tell until `most` are told, the first `replayed` of them from `log`; then log the
 * rest. */
static void run(lab_search *s, size_t most, lab_told *log, size_t replayed) {
    lab_genome batch[LAB_POPULATION_MAX];
    const lab_genome start = {{0}};
    size_t count;
    while (s->told_count < most && (count = lab_search_ask(s, &start, 1, batch)) > 0)
        for (size_t i = 0; i < count && s->told_count < most; i++) {
            const size_t at = s->told_count;
            double price = cost(&batch[i]);
            if (at < replayed) {
                assert_true(same(&log[at].genome, &batch[i]));
                price = log[at].cost;
            }
            assert_true(lab_search_tell(s, &batch[i], price));
            log[at] = s->told[at];
        }
}

enum { TRIALS = 300 };

static void test_search__known_least__found_from_any_seed(void **state) {
    (void)state;
    const lab_space space = space_of();
    static lab_told log[TRIALS];
    int found = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        lab_search s;
        lab_search_start(&s, &space, 12, seed);
        run(&s, TRIALS, log, 0);
        found += lab_search_best(&s)->cost < 1.0 + 1e-9;
        assert_true(lab_search_best(&s)->cost < 1.05);
        lab_search_free(&s);
    }
    assert_true(found >= 18); /* of 6 million genomes, by 300 trials */
}

static void test_search__proposals__feasible_new_and_in_range(void **state) {
    (void)state;
    const lab_space space = space_of();
    static lab_told log[TRIALS];
    lab_search s;
    lab_search_start(&s, &space, 16, 3);
    run(&s, TRIALS, log, 0);
    assert_int_equal(s.told_count, TRIALS);
    const lab_genome start = {{0}};
    assert_true(same(&log[0].genome, &start)); /* the seed comes first */
    for (size_t i = 0; i < TRIALS; i++) {
        assert_true(feasible(&log[i].genome, NULL));
        for (size_t g = 0; g < LAB_GENES_MAX; g++)
            assert_true(log[i].genome.allele[g] <
                        (g < space.count ? space.genes[g].alleles : 1));
        for (size_t j = 0; j < i; j++)
            assert_false(same(&log[i].genome, &log[j].genome));
    }
    lab_search_free(&s);
}

static void test_search__same_seed__same_search(void **state) {
    (void)state;
    const lab_space space = space_of();
    static lab_told first[TRIALS], second[TRIALS], other[TRIALS];
    lab_search s;
    lab_search_start(&s, &space, 12, 7);
    run(&s, TRIALS, first, 0);
    lab_search_free(&s);
    lab_search_start(&s, &space, 12, 7);
    run(&s, TRIALS, second, 0);
    lab_search_free(&s);
    assert_memory_equal(first, second, sizeof first);
    lab_search_start(&s, &space, 12, 8);
    run(&s, TRIALS, other, 0);
    lab_search_free(&s);
    assert_memory_not_equal(first, other, sizeof first);
}

static void test_search__told_again__goes_on_as_it_would_have(void **state) {
    (void)state;
    const lab_space space = space_of();
    static lab_told whole[TRIALS], resumed[TRIALS];
    lab_search s;
    lab_search_start(&s, &space, 12, 5);
    run(&s, TRIALS, whole, 0);
    lab_search_free(&s);
    /* Interrupted anywhere, also in the middle of a generation. */
    static const size_t cuts[] = {0, 1, 11, 12, 13, 100, 299};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        memcpy(resumed, whole, cuts[i] * sizeof *whole);
        lab_search_start(&s, &space, 12, 5);
        run(&s, TRIALS, resumed, cuts[i]);
        lab_search_free(&s);
        assert_memory_equal(whole, resumed, sizeof whole);
    }
}

static bool few(const lab_genome *g, const void *state) {
    (void)state;
    return g->allele[0] < 2 && g->allele[1] == 0;
}

static void test_search__small_space__ends_when_all_is_tried(void **state) {
    (void)state;
    lab_space space = {.count = 3, .feasible = few};
    for (int i = 0; i < 3; i++)
        space.genes[i] = (lab_gene){.alleles = 3, .weight = 1};
    static lab_told log[TRIALS];
    lab_search s;
    lab_search_start(&s, &space, 4, 1);
    run(&s, TRIALS, log, 0);
    assert_int_equal(s.told_count, 6); /* 2 x 1 x 3 */
    lab_search_free(&s);
}

static bool none(const lab_genome *g, const void *state) {
    (void)g, (void)state;
    return false;
}

static void test_search__nothing_feasible_or_usable__no_best(void **state) {
    (void)state;
    lab_space space = {.count = 1, .genes = {{.alleles = 1, .weight = 1}}, .feasible = none};
    lab_genome batch[LAB_POPULATION_MAX];
    lab_search s;
    lab_search_start(&s, &space, 4, 1);
    assert_int_equal(lab_search_ask(&s, NULL, 0, batch), 0);
    assert_null(lab_search_best(&s));
    lab_search_free(&s);
    /* One allele, all trials unusable: still no endless loop, and no best. */
    space.feasible = few;
    lab_search_start(&s, &space, 4, 1);
    assert_int_equal(lab_search_ask(&s, NULL, 0, batch), 1);
    assert_true(lab_search_tell(&s, &batch[0], INFINITY));
    assert_null(lab_search_best(&s));
    assert_int_equal(lab_search_ask(&s, NULL, 0, batch), 0);
    lab_search_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_search__known_least__found_from_any_seed),
        cmocka_unit_test(test_search__proposals__feasible_new_and_in_range),
        cmocka_unit_test(test_search__same_seed__same_search),
        cmocka_unit_test(test_search__told_again__goes_on_as_it_would_have),
        cmocka_unit_test(test_search__small_space__ends_when_all_is_tried),
        cmocka_unit_test(test_search__nothing_feasible_or_usable__no_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
