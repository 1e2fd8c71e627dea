/* test_plan_ranks.c: the model of a sequence split over ranks: hand-computed numbers,
 * impossible ways, limits. */
#include <math.h>
#include <string.h>

#include "lab/plan/plan_ranks.h"
#include "tests/support/check.h"

static const lab_link link_of_tests = {.bytes_per_second = 1e9, .latency = 1e-3};

/* 8 heads over 4, 1024 rows, 64 columns: q and o 1 MiB each, k and v together 1 MiB. */
static att_problem problem(void) {
    att_problem p;
    att_problem_init(&p, 1, 8, 4, 1024, 1024, 64, 64, ATT_BF16);
    return p;
}

static void assert_is(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g is not %.12g", got, expected);
}

static void test_ring__computing_hides_sending(void **state) {
    (void)state;
    const att_problem p = problem();
    lab_ranks_plan plan;
    lab_ranks_plan_make(&plan, &p, 4, 16.0, &link_of_tests, 0.0, false);
    const lab_way_time *t = &plan.ways[LAB_WAY_RING];
    assert_true(t->possible);
    assert_int_equal(t->ring, 4);
    assert_int_equal(t->heads, 1);
    assert_is(t->compute, 4 * (1.0 + 5e-6)); /* 16 s over 4 ranks, in 4 steps */
    assert_is(t->send, 3 * (1e-3 + 262144 / 1e9));
    assert_is(t->seconds, t->compute);
}

static void test_ring__slow_link__sending_is_what_takes_time(void **state) {
    (void)state;
    const att_problem p = problem();
    const lab_link slow = {.bytes_per_second = 262144.0,
                           .latency = 0.0}; /* a shard per second */
    lab_ranks_plan plan;
    lab_ranks_plan_make(&plan, &p, 4, 0.16, &slow, 0.0, false);
    const double step = 0.01 + 5e-6;
    assert_is(plan.ways[LAB_WAY_RING].seconds, 3.0 + step);
    assert_is(plan.ways[LAB_WAY_GATHER].seconds, 3.0 + 3 * step);
}

static void test_merges__cost_the_memory_of_float32(void **state) {
    (void)state;
    const att_problem p = problem();
    lab_ranks_plan with, without;
    lab_ranks_plan_make(&without, &p, 2, 16.0, &link_of_tests, 0.0, false);
    lab_ranks_plan_make(&with, &p, 2, 16.0, &link_of_tests, 1e6, false);
    /* half of 2 MiB of O in float32, three times past memory, once */
    assert_is(with.ways[LAB_WAY_RING].compute - without.ways[LAB_WAY_RING].compute,
              3.0 * 1048576 / 1e6);
    assert_is(with.ways[LAB_WAY_ULYSSES].compute, without.ways[LAB_WAY_ULYSSES].compute);
}

static void test_backward__gradients_travel_back(void **state) {
    (void)state;
    const att_problem p = problem();
    const lab_link slow = {.bytes_per_second = 262144.0, .latency = 0.0};
    lab_ranks_plan plan;
    lab_ranks_plan_make(&plan, &p, 4, 0.16, &slow, 0.0, true);
    const double step = 0.01 + 5e-6;
    /* a shard of K and V takes a second, its gradients in float32 two */
    assert_is(plan.ways[LAB_WAY_RING].send, 3 * (1.0 + 2.0));
    assert_is(plan.ways[LAB_WAY_RING].seconds, 1.0 + step + 2 * (1.0 + 2.0) + 2.0);
    assert_is(plan.ways[LAB_WAY_GATHER].seconds, 3.0 + step + 2 * 2.0 + 2.0);
    lab_ranks_plan with, forward;
    lab_ranks_plan_make(&with, &p, 2, 16.0, &link_of_tests, 1e6, true);
    lab_ranks_plan_make(&plan, &p, 2, 16.0, &link_of_tests, 0.0, true);
    lab_ranks_plan_make(&forward, &p, 2, 16.0, &link_of_tests, 0.0, false);
    /* half of 2 MiB of d_q and of 2 MiB of d_k and d_v, three times past memory, once */
    assert_is(with.ways[LAB_WAY_RING].compute - plan.ways[LAB_WAY_RING].compute,
              3.0 * 2097152 / 1e6);
    assert_is(plan.ways[LAB_WAY_ULYSSES].send, forward.ways[LAB_WAY_ULYSSES].send);
}

static void test_ulysses__two_exchanges(void **state) {
    (void)state;
    const att_problem p = problem();
    lab_ranks_plan plan;
    lab_ranks_plan_make(&plan, &p, 2, 16.0, &link_of_tests, 0.0, false);
    const lab_way_time *t = &plan.ways[LAB_WAY_ULYSSES];
    assert_is(t->compute, 8.0 + 5e-6);
    /* in: a quarter of q, and half of two heads of k and v; out: a quarter of o */
    assert_is(t->send, 2e-3 + (262144 + 262144 + 262144) / 1e9);
    assert_is(t->seconds, t->compute + t->send);
}

static void test_ulysses__heads_that_do_not_divide__why(void **state) {
    (void)state;
    const att_problem p = problem();
    lab_ranks_plan plan;
    lab_ranks_plan_make(&plan, &p, 3, 16.0, &link_of_tests, 0.0, false);
    assert_false(plan.ways[LAB_WAY_ULYSSES].possible);
    assert_string_equal(plan.ways[LAB_WAY_ULYSSES].why,
                        "8 heads cannot be divided evenly among 3 ranks");
    assert_false(plan.ways[LAB_WAY_BOTH].possible);
    assert_int_equal(plan.best, LAB_WAY_RING);
}

static void test_ulysses__heads_of_k_that_do_not_fit__why(void **state) {
    (void)state;
    att_problem p;
    att_problem_init(&p, 1, 12, 3, 1024, 1024, 64, 64, ATT_BF16);
    lab_ranks_plan plan;
    lab_ranks_plan_make(&plan, &p, 4, 16.0, &link_of_tests, 0.0, false);
    assert_false(plan.ways[LAB_WAY_ULYSSES].possible);
    assert_string_equal(plan.ways[LAB_WAY_ULYSSES].why,
                        "3 heads of k and v cannot be shared by 4 ranks");
    assert_false(plan.ways[LAB_WAY_BOTH].possible);
    lab_ranks_plan_make(&plan, &p, 6, 16.0, &link_of_tests, 0.0, false);
    assert_true(plan.ways[LAB_WAY_ULYSSES].possible); /* two ranks to each head of k */
    assert_int_equal(plan.ways[LAB_WAY_BOTH].heads, 3);
}

static void test_window__only_neighbours_send(void **state) {
    (void)state;
    att_problem p = problem();
    p.causal = ATT_CAUSAL_TOP_LEFT;
    p.window_left = 300; /* shards of 256: two before the own one */
    lab_ranks_plan plan;
    lab_ranks_plan_make(&plan, &p, 4, 12.0, &link_of_tests, 0.0, false);
    assert_is(plan.ways[LAB_WAY_RING].compute, 3 * (1.0 + 5e-6));
    assert_is(plan.ways[LAB_WAY_RING].send, 2 * (1e-3 + 262144 / 1e9));
    assert_is(plan.ways[LAB_WAY_GATHER].send, 1e-3 + 2 * 262144 / 1e9);
    p.causal = ATT_CAUSAL_NONE;
    p.window_right = 10; /* and one after it */
    lab_ranks_plan_make(&plan, &p, 8, 12.0, &link_of_tests, 0.0, false);
    assert_is(plan.ways[LAB_WAY_RING].send, 4 * (1e-3 + 131072 / 1e9));
    p.window_left = p.window_right = 0;
    lab_ranks_plan_make(&plan, &p, 8, 12.0, &link_of_tests, 0.0, false);
    assert_true(plan.ways[LAB_WAY_RING].send == 0.0);
    assert_is(plan.ways[LAB_WAY_RING].seconds, 1.5 + 5e-6);
}

static void test_both__best_of_the_groups_and_never_worse_than_any(void **state) {
    (void)state;
    const att_problem p = problem();
    for (int ranks = 4; ranks <= LAB_RANKS_MOST; ranks = ranks * 5 / 2) {
        lab_ranks_plan plan;
        lab_ranks_plan_make(&plan, &p, ranks, 1.0, &link_of_tests, 1e12, false);
        const lab_way_time *t = &plan.ways[LAB_WAY_BOTH];
        for (int w = 0; w < LAB_WAY_COUNT; w++)
            assert_true(!plan.ways[w].possible ||
                        plan.ways[plan.best].seconds <= plan.ways[w].seconds);
        if (t->possible) {
            assert_int_equal(t->ring * t->heads, ranks);
            assert_int_equal(8 % t->heads, 0);
        }
    }
}

static void test_link__text(void **state) {
    (void)state;
    lab_link link;
    lab_message why;
    assert_true(lab_link_parse(&link, "450,5", &why));
    assert_is(link.bytes_per_second, 450e9);
    assert_is(link.latency, 5e-6);
    assert_true(lab_link_parse(&link, "0.5", &why));
    assert_is(link.bytes_per_second, 0.5e9);
    assert_true(link.latency == 0.0);
    static const char *const bad[] = {"",     "x",     "0",   "-1",  "1,",
                                      "1,-1", "1,2,3", "nan", "inf", "1 2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (lab_link_parse(&link, bad[i], &why))
            fail_msg("'%s' is taken", bad[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring__computing_hides_sending),
        cmocka_unit_test(test_ring__slow_link__sending_is_what_takes_time),
        cmocka_unit_test(test_merges__cost_the_memory_of_float32),
        cmocka_unit_test(test_backward__gradients_travel_back),
        cmocka_unit_test(test_ulysses__two_exchanges),
        cmocka_unit_test(test_ulysses__heads_that_do_not_divide__why),
        cmocka_unit_test(test_ulysses__heads_of_k_that_do_not_fit__why),
        cmocka_unit_test(test_window__only_neighbours_send),
        cmocka_unit_test(test_both__best_of_the_groups_and_never_worse_than_any),
        cmocka_unit_test(test_link__text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
