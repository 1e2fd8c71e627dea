/* test_comparison.c: comparable results are compared, others refused by name, verdicts counted;
 * samples of processes merged. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "lab/base/random.h"
#include "lab/measure/bench_json.h"
#include "lab/measure/comparison.h"

static lab_message why;

/* A result of 30 samples around `ns`, with a noise of 0.3 %. */
static json_t *result(const char *problem, const char *kernel, double ns) {
    static uint64_t stream;
    lab_random random;
    lab_random_seed(&random, 11, stream++);
    json_t *samples = json_array();
    for (int i = 0; i < 30; i++)
        json_array_append_new(
            samples, json_real(ns * (1.0 + 0.003 * (double)lab_random_normal(&random))));
    json_t *object = json_pack(
        "{s:{s:s}, s:s, s:s, s:s, s:i, s:s, s:s, s:{s:s}, s:{s:s}, s:b, s:f, s:o}", "problem",
        "spec", problem, "subject", "attest", "kernel", kernel, "isa", "auto", "threads", 0,
        "mode", "warm", "timer", "graph", "verify", "outcome", "pass", "launch", "code_sha256",
        "abc", "timed", 1, "median_ns", ns, "samples_ns", samples);
    assert_non_null(object);
    return object;
}

static json_t *document(json_t *first, json_t *second) {
    json_t *d =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:{s:s}}, s:[o]}", "schema", "attest-bench-2",
                  "compiler", "gcc 12", "machine", "processor", "P", "device", "cuda", "driver",
                  "580", "gpu", "name", "G", "results", first);
    assert_non_null(d);
    if (second)
        json_array_append_new(json_object_get(d, "results"), second);
    return d;
}

static void read_document(lab_results *out, json_t *d) {
    if (!lab_results_of(out, d, "f", &why))
        fail_msg("%s", why.text);
    json_decref(d);
}

static json_t *nth(json_t *d, size_t i) {
    return json_array_get(json_object_get(d, "results"), i);
}

/* ---------------------------------------------------------------------------- verdicts */

static void test_compare__like_results__are_judged(void **state) {
    (void)state;
    lab_results a, b;
    lab_comparison c;
    read_document(&a, document(result("p1", "k", 1000.0), result("p2", "k", 2000.0)));
    read_document(&b, document(result("p2", "k", 2140.0), result("p1", "k", 1000.0)));
    assert_true(lab_compare(&c, &a, &b, 0, 0.0, 0, &why));
    assert_int_equal(c.count, 2);
    assert_string_equal(c.rows[0].a->problem, "p2");
    assert_int_equal(c.rows[0].verdict.kind, LAB_SLOWER);
    assert_int_equal(c.rows[1].verdict.kind, LAB_SAME);
    assert_true(c.of[LAB_SLOWER] == 1 && c.of[LAB_SAME] == 1);
    assert_true(c.minimum_effect == LAB_MINIMUM_EFFECT_ALONE); /* one process each */
    assert_true(fabs(c.ratio - sqrt(1.07)) < 0.005);
    assert_true(fabs(c.worst_effect - 0.07) < 0.005);
    assert_false(lab_comparison_holds(&c));
    json_t *object = lab_json_comparison(&c);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(object, "tally"), "SLOWER")), 1);
    assert_true(json_is_false(json_object_get(object, "holds")));
    json_decref(object);
    lab_comparison_free(&c);
    /* In the other direction it is faster, which holds. */
    assert_true(lab_compare(&c, &b, &a, 0, 0.0, 0, &why));
    assert_int_equal(c.of[LAB_FASTER], 1);
    assert_true(lab_comparison_holds(&c));
    lab_comparison_free(&c);
    lab_results_free(&a);
    lab_results_free(&b);
}

/* A document whose one result comes from `processes`, the odd ones slower by `apart`. */
static json_t *of_processes(int processes, double apart, double ns) {
    json_t *d = document(result("p1", "k", ns), NULL);
    json_t *samples = json_array(), *process = json_array(), *round = json_array();
    for (int p = 0; p < processes; p++) {
        json_t *one = result("p1", "k", ns * (p % 2 ? 1.0 + apart : 1.0));
        json_array_extend(samples, json_object_get(one, "samples_ns"));
        json_decref(one);
        for (int i = 0; i < 30; i++) {
            json_array_append_new(process, json_integer(p));
            json_array_append_new(round, json_integer(i));
        }
    }
    json_object_set_new(nth(d, 0), "samples_ns", samples);
    json_object_set_new(nth(d, 0), "process", process);
    json_object_set_new(nth(d, 0), "round", round);
    return d;
}

static void expect_minimum(json_t *of_a, json_t *of_b, double minimum, lab_verdict_kind kind) {
    lab_results a, b;
    lab_comparison c;
    read_document(&a, of_a);
    read_document(&b, of_b);
    assert_true(lab_compare(&c, &a, &b, 0, 0.0, 0, &why));
    assert_true(fabs(c.minimum_effect - minimum) < 0.002);
    assert_int_equal(c.rows[0].verdict.kind, kind);
    lab_comparison_free(&c);
    lab_results_free(&a);
    lab_results_free(&b);
}

static void test_compare__minimum_effect__is_what_processes_differ_by(void **state) {
    (void)state;
    /* One process each: 4 % may be chance. */
    expect_minimum(of_processes(1, 0.0, 1000.0), of_processes(1, 0.0, 1040.0), 0.05, LAB_SAME);
    /* Identical processes: 2 % is not chance. Processes that differ by 6 % on one side: it may
     * be. */
    expect_minimum(of_processes(2, 0.0, 1000.0), of_processes(2, 0.0, 1020.0), 0.01,
                   LAB_SLOWER);
    expect_minimum(of_processes(2, 0.06, 1000.0), of_processes(1, 0.0, 1020.0), 0.06, LAB_SAME);
    /* Four of them are known better than one, but not well enough to be called the same. */
    expect_minimum(of_processes(4, 0.06, 1000.0), of_processes(4, 0.06, 1000.0), 0.03,
                   LAB_AMBIGUOUS);
}

static void test_compare__minimum_effect__given(void **state) {
    (void)state;
    lab_results a, b;
    lab_comparison c;
    read_document(&a, document(result("p1", "k", 1000.0), NULL));
    read_document(&b, document(result("p1", "k", 1030.0), NULL));
    assert_true(lab_compare(&c, &a, &b, 0, 0.02, 0, &why));
    assert_true(c.minimum_effect == 0.02);
    assert_int_equal(c.of[LAB_SLOWER], 1);
    lab_comparison_free(&c);
    lab_results_free(&a);
    lab_results_free(&b);
}

static void test_compare__no_longer_timed__is_lost(void **state) {
    (void)state;
    lab_results a, b;
    lab_comparison c;
    read_document(&a, document(result("p1", "k", 1000.0), result("p3", "k", 10.0)));
    json_t *d = document(result("p1", "k", 1000.0), result("p4", "k", 10.0));
    json_object_set_new(nth(d, 0), "timed", json_false());
    json_object_set_new(json_object_get(nth(d, 0), "verify"), "outcome", json_string("fail"));
    read_document(&b, d);
    assert_true(lab_compare(&c, &a, &b, 0, 0.0, 0, &why));
    assert_true(c.lost == 1 && c.rows[0].lost && c.only_a == 1 && c.only_b == 1);
    assert_true(c.ratio == 1.0);
    assert_false(lab_comparison_holds(&c));
    json_t *object = lab_json_comparison(&c);
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(object, "rows"), 0), "lost")),
                        "fail");
    json_decref(object);
    lab_comparison_free(&c);
    lab_results_free(&a);
    lab_results_free(&b);
}

/* ---------------------------------------------------------------------- unlike things */

/* One field of B's machine or result changed: refused by name; allowed, compared. */
static void expect_refusal(const char *in, const char *key, json_t *value, const char *name,
                           const char *text) {
    lab_results a, b;
    lab_comparison c;
    read_document(&a, document(result("p1", "k", 1000.0), NULL));
    json_t *d = document(result("p1", "k", 1000.0), NULL);
    json_t *where = strcmp(in, "result") == 0    ? nth(d, 0)
                    : strcmp(in, "machine") == 0 ? json_object_get(d, "machine")
                    : strcmp(in, "gpu") == 0
                        ? json_object_get(json_object_get(d, "machine"), "gpu")
                        : d;
    json_object_set_new(where, key, value);
    read_document(&b, d);
    assert_false(lab_compare(&c, &a, &b, 0, 0.0, 0, &why));
    if (!strstr(why.text, text))
        fail_msg("\"%s\" does not say \"%s\"", why.text, text);
    unsigned allowed;
    assert_true(lab_keys_parse(&allowed, name, &why));
    if (!lab_compare(&c, &a, &b, allowed, 0.0, 0, &why))
        fail_msg("%s", why.text);
    assert_int_equal(c.count, 1);
    lab_comparison_free(&c);
    lab_results_free(&a);
    lab_results_free(&b);
}

static void test_compare__unlike_things__are_refused_by_name(void **state) {
    (void)state;
    expect_refusal("gpu", "name", json_string("H"), "device",
                   "unlike things: device is \"G\" in A and \"H\" in B (--allow device");
    expect_refusal("machine", "driver", json_string("590"), "driver",
                   "driver is \"580\" in A and \"590\" in B");
    expect_refusal("document", "compiler", json_string("clang"), "compiler",
                   "compiler is \"gcc 12\" in A and \"clang\" in B");
    expect_refusal("result", "kernel", json_string("l"), "kernel",
                   "p1: kernel is \"k\" in A and \"l\" in B (--allow kernel");
    expect_refusal("result", "subject", json_string("peer 1"), "subject", "\"peer 1\" in B");
    expect_refusal("result", "isa", json_string("avx2"), "isa", "\"avx2\" in B");
    expect_refusal("result", "threads", json_integer(2), "threads", "\"2\" in B");
    expect_refusal("result", "mode", json_string("cold"), "mode", "\"cold\" in B");
    expect_refusal("result", "timer", json_string("events"), "timer", "\"events\" in B");
}

static void test_compare__several_partners_or_none__refused(void **state) {
    (void)state;
    lab_results a, b;
    lab_comparison c;
    read_document(&a, document(result("p1", "k", 1000.0), result("p1", "l", 1000.0)));
    read_document(&b, document(result("p1", "k", 1000.0), NULL));
    assert_false(lab_compare(&c, &a, &b, 1u << LAB_KEY_KERNEL, 0.0, 0, &why));
    assert_string_equal(why.text,
                        "p1: A has several results that it could be compared with: k and l");
    assert_true(lab_compare(&c, &a, &b, 0, 0.0, 0, &why)); /* with its own kernel it is
                                                            * comparable */
    lab_comparison_free(&c);
    lab_results_free(&b);
    read_document(&b, document(result("p9", "k", 1000.0), NULL));
    assert_false(lab_compare(&c, &a, &b, 0, 0.0, 0, &why));
    assert_string_equal(why.text, "A and B have no problem in common");
    lab_results_free(&a);
    lab_results_free(&b);
}

/* Another rival, timed or not, is only in B, as long as every result of A has its
 * counterpart. */
static void test_compare__a_further_subject__is_only_in_b(void **state) {
    (void)state;
    for (int is_timed = 0; is_timed < 2; is_timed++) {
        lab_results a, b;
        lab_comparison c;
        read_document(&a, document(result("p1", "k", 1000.0), NULL));
        json_t *d = document(result("p1", "k", 1000.0), result("p1", "other", 1000.0));
        json_object_set_new(nth(d, 1), "subject", json_string("other"));
        json_object_set_new(nth(d, 1), "timed", json_boolean(is_timed));
        read_document(&b, d);
        if (!lab_compare(&c, &a, &b, 0, 0.0, 0, &why))
            fail_msg("%s", why.text);
        assert_true(c.count == 1 && c.lost == 0 && c.only_b == (size_t)is_timed);
        lab_comparison_free(&c);
        lab_results_free(&a);
        lab_results_free(&b);
    }
}

static void test_keys__lists__are_parsed(void **state) {
    (void)state;
    unsigned bits;
    assert_true(lab_keys_parse(&bits, "kernel,driver", &why));
    assert_int_equal(bits, 1u << LAB_KEY_KERNEL | 1u << LAB_KEY_DRIVER);
    assert_false(lab_keys_parse(&bits, "kernel,colour", &why));
    assert_non_null(strstr(why.text, "'colour' is not among device"));
    assert_false(lab_keys_parse(&bits, "kernel,", &why));
}

/* ----------------------------------------------------------------------------- merging */

/* A timed case of four samples, as a benchmark would leave it. */
static lab_bench_case timed_case(const lab_spec *spec, att_context *ctx) {
    lab_bench_case c = {.spec = spec, .subject = lab_subject_attest(ctx), .timed = true};
    c.launch.kernel = "k";
    c.sample_count = 4;
    c.samples_ns = calloc(4, sizeof *c.samples_ns);
    c.process = calloc(4, sizeof *c.process);
    c.round = calloc(4, sizeof *c.round);
    c.readings = calloc(4, sizeof *c.readings);
    for (uint32_t i = 0; i < 4; i++) {
        c.samples_ns[i] = 990.0 + i;
        c.round[i] = i;
    }
    return c;
}

static void test_merge__another_process__joins(void **state) {
    (void)state;
    att_context *ctx;
    const att_context_options options = {
        .size = sizeof options, .device = ATT_DEVICE_CPU, .threads = 1};
    assert_int_equal(att_context_create(&ctx, &options), ATT_OK);
    lab_spec spec;
    assert_true(lab_spec_parse(&spec, "b1h1s8d64,fp16", &why));
    lab_bench_case c = timed_case(&spec, ctx);
    lab_results other;
    json_t *d = document(result("b1h1s8d64,fp16", "k", 1000.0), NULL);
    json_object_set_new(nth(d, 0), "discarded", json_pack("{s:i}", "count", 2));
    json_object_set_new(nth(d, 0), "power_w", json_pack("[f]", 300.0));
    read_document(&other, d);
    assert_true(lab_bench_merge(&c, &other.results[0], 3, 0, &why));
    assert_int_equal(c.sample_count, 34);
    assert_true(c.process[3] == 0 && c.process[4] == 3 && c.process[33] == 3);
    assert_true(c.round[4] == 0 && c.round[33] == 29);
    assert_true(c.ns.count == 34 && c.discarded == 2);
    assert_true(c.readings[4].power_w == 300.0 && isnan(c.readings[5].power_w));
    lab_results_free(&other);

    read_document(&other, document(result("b1h1s8d64,fp16", "l", 1000.0), NULL));
    assert_false(lab_bench_merge(&c, &other.results[0], 4, 0, &why));
    assert_string_equal(
        why.text, "process 4 timed b1h1s8d64,fp16 by l where another problem stands here");
    lab_results_free(&other);

    d = document(result("b1h1s8d64,fp16", "k", 1000.0), NULL);
    json_object_set_new(nth(d, 0), "timed", json_false());
    json_object_set_new(json_object_get(nth(d, 0), "verify"), "message",
                        json_string("it was wrong"));
    read_document(&other, d);
    assert_true(lab_bench_merge(&c, &other.results[0], 5, 0, &why));
    assert_false(c.timed);
    assert_int_equal(c.verify.outcome, LAB_FAIL);
    assert_string_equal(c.verify.message, "in process 5: it was wrong");
    lab_results_free(&other);
    lab_bench_free(&c, 1);
    att_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare__like_results__are_judged),
        cmocka_unit_test(test_compare__minimum_effect__is_what_processes_differ_by),
        cmocka_unit_test(test_compare__minimum_effect__given),
        cmocka_unit_test(test_compare__no_longer_timed__is_lost),
        cmocka_unit_test(test_compare__unlike_things__are_refused_by_name),
        cmocka_unit_test(test_compare__several_partners_or_none__refused),
        cmocka_unit_test(test_compare__a_further_subject__is_only_in_b),
        cmocka_unit_test(test_keys__lists__are_parsed),
        cmocka_unit_test(test_merge__another_process__joins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
