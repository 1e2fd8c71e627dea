/* test_results.c: result files read, old and new, and every way to get one wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "lab/measure/results.h"

static lab_message why;

/* A document of two results, one of which was not timed, for tests to change. */
static json_t *document(void) {
    json_t *d = json_pack(
        "{s:s, s:s, s:s, s:{s:s, s:s, s:s, s:{s:s, s:s, s:i}}, s:f, s:f, s:[o, o]}", "schema",
        "attest-bench-2", "attest", "0.2.0", "compiler", "gcc 12", "machine", "processor", "P",
        "device", "cuda", "driver", "580.1", "gpu", "name", "G", "uuid", "GPU-1",
        "driver_version", 13000, "device_seconds", 12.5, "minimum_effect", 0.007, "results",
        json_pack("{s:{s:s}, s:s, s:s, s:s, s:s, s:{s:s}, s:{s:s, s:s}, s:i, s:b, s:f, s:f, "
                  "s:f, s:f, s:[f, f, f], s:[i, i, i], s:[i, i, i], s:{s:i}}",
                  "problem", "spec", "b1h1s8d64,fp16", "subject", "peer 2", "kernel", "k1",
                  "mode", "cold", "timer", "events", "launch", "code_sha256", "abc", "verify",
                  "outcome", "pass", "kernel", "k0", "threads", 3, "timed", 1, "median_ns", 2.0,
                  "low_ns", 1.0, "high_ns", 3.0, "floor_ns", 0.5, "samples_ns", 1.0, 2.0, 3.0,
                  "process", 0, 0, 4, "round", 0, 2, 1, "discarded", "count", 5),
        json_pack("{s:{s:s}, s:{s:s, s:s}, s:b}", "problem", "spec", "b1h1s9d64,fp16", "verify",
                  "outcome", "refused", "kernel", "k2", "timed", 0));
    assert_non_null(d);
    return d;
}

static json_t *first_result(json_t *d) {
    return json_array_get(json_object_get(d, "results"), 0);
}

static void test_results__a_new_file__has_every_field(void **state) {
    (void)state;
    json_t *d = document();
    lab_results r;
    if (!lab_results_of(&r, d, "f", &why))
        fail_msg("%s", why.text);
    json_decref(d);
    assert_string_equal(r.compiler, "gcc 12");
    assert_string_equal(r.device, "cuda");
    assert_string_equal(r.gpu, "G");
    assert_string_equal(r.gpu_uuid, "GPU-1");
    assert_string_equal(r.driver, "580.1");
    assert_true(r.device_seconds == 12.5 && r.minimum_effect == 0.007);
    assert_int_equal(r.count, 2);
    const lab_result *one = &r.results[0];
    assert_string_equal(one->problem, "b1h1s8d64,fp16");
    assert_string_equal(one->subject, "peer 2");
    assert_string_equal(one->kernel, "k1");
    assert_string_equal(one->mode, "cold");
    assert_string_equal(one->timer, "events");
    assert_string_equal(one->code_sha256, "abc");
    assert_string_equal(one->outcome, "pass");
    assert_true(one->timed && one->threads == 3 && one->discarded == 5);
    assert_true(one->median_ns == 2.0 && one->low_ns == 1.0 && one->high_ns == 3.0);
    assert_int_equal(one->samples.count, 3);
    assert_true(one->samples.values[2] == 3.0);
    assert_true(one->samples.process[1] == 0 && one->samples.process[2] == 4);
    assert_true(one->samples.round[1] == 2 && one->samples.round[2] == 1);
    assert_false(r.results[1].timed);
    assert_string_equal(r.results[1].kernel, "k2");
    assert_string_equal(r.results[1].outcome, "refused");
    lab_results_free(&r);
}

static void test_results__the_committed_evidence__is_read(void **state) {
    (void)state;
    lab_results r;
    if (!lab_results_read(&r, "evidence/h200/ladder.json", &why))
        fail_msg("%s", why.text);
    assert_string_equal(r.gpu, "NVIDIA H200");
    assert_true(r.count > 0);
    for (size_t i = 0; i < r.count; i++) {
        const lab_result *one = &r.results[i];
        assert_string_equal(one->subject, "attest");
        assert_string_equal(one->mode, "warm");
        assert_string_equal(one->timer, "graph");
        assert_true(one->timed && one->samples.count >= 20);
        assert_int_equal(one->samples.process[one->samples.count - 1], 0);
        assert_int_equal(one->samples.round[one->samples.count - 1], one->samples.count - 1);
    }
    lab_results_free(&r);
}

static void test_results__old_driver_number__is_spelled_out(void **state) {
    (void)state;
    json_t *d = document();
    json_object_del(json_object_get(d, "machine"), "driver");
    lab_results r;
    assert_true(lab_results_of(&r, d, "f", &why));
    assert_string_equal(r.driver, "CUDA 13.0");
    lab_results_free(&r);
    json_object_del(json_object_get(d, "machine"), "gpu");
    json_object_set_new(json_object_get(d, "machine"), "device", json_string("cpu"));
    json_object_del(first_result(d), "timer");
    assert_true(lab_results_of(&r, d, "f", &why));
    assert_string_equal(r.driver, "");
    assert_string_equal(r.results[0].timer, "cpu");
    lab_results_free(&r);
    json_decref(d);
}

static void expect_failure(json_t *d, const char *text) {
    lab_results r;
    assert_false(lab_results_of(&r, d, "f", &why));
    assert_string_equal(why.text, text);
    assert_null(r.results);
    json_decref(d);
}

static void test_results__a_wrong_document__is_named(void **state) {
    (void)state;
    json_t *d = document();
    json_object_set_new(d, "schema", json_string("attest-verify-1"));
    expect_failure(d,
                   "f: schema: is \"attest-verify-1\", not attest-bench-1 or attest-bench-2");
    d = document();
    json_object_set_new(d, "results", json_true());
    expect_failure(d, "f: results: expected an array");
    d = document();
    json_array_set_new(json_object_get(d, "results"), 1, json_true());
    expect_failure(d, "f: results[1]: expected an object");
    d = document();
    json_object_del(first_result(d), "problem");
    expect_failure(d, "f: results[0].problem.spec: is missing");
    d = document();
    json_object_set_new(json_object_get(first_result(d), "problem"), "spec", json_string(""));
    expect_failure(d, "f: results[0].problem: spec is empty");
}

static void test_results__wrong_samples__are_named(void **state) {
    (void)state;
    const struct {
        const char *key;
        json_t *value;
        const char *text;
    } wrong[] = {
        {"median_ns", json_null(), "median_ns: is missing"},
        {"samples_ns", json_array(), "samples_ns: expected at least one sample"},
        {"samples_ns", json_pack("[f, n, f]", 1.0, 2.0),
         "samples_ns[1]: expected a time above 0"},
        {"samples_ns", json_pack("[f, f, f]", 1.0, 2.0, -1.0),
         "samples_ns[2]: expected a time above 0"},
        {"process", json_pack("[i, i]", 0, 0),
         "process: is not an array as long as samples_ns"},
        {"process", json_pack("[i, i, i]", 0, 1, 0), "process: is not in ascending order"},
        {"process", json_pack("[i, f, i]", 0, 0.5, 1),
         "process[1]: expected a whole number, 0 or more"},
        {"median_ns", json_string("1"), "median_ns: expected a number"},
        {"verify", json_true(), "verify: expected an object"},
        {"kernel", json_integer(1), "kernel: expected text"},
        {"timed", json_string("yes"), "timed: expected true or false"},
        {"power_capped", json_real(0.5), "power_capped: expected a whole number, 0 or more"},
        {"threads", json_integer(-1), "threads: expected a whole number, 0 or more"},
        {"round", json_pack("[i]", 0), "round: is not an array as long as samples_ns"},
        {"round", json_pack("[i, i, i]", 3, 3, 4), "round: does not ascend within a process"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[128];
        json_t *d = document();
        json_object_set_new(first_result(d), wrong[i].key, wrong[i].value);
        snprintf(text, sizeof text, "f: results[0].%s", wrong[i].text);
        expect_failure(d, text);
    }
}

static void test_results__files_that_are_none__are_named(void **state) {
    (void)state;
    lab_results r;
    assert_false(lab_results_read(&r, "no/such/file.json", &why));
    assert_non_null(strstr(why.text, "no/such/file.json"));
    assert_false(lab_results_read(&r, "suites/seed.txt", &why));
    assert_non_null(strstr(why.text, "suites/seed.txt:1: "));
    lab_results_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results__a_new_file__has_every_field),
        cmocka_unit_test(test_results__the_committed_evidence__is_read),
        cmocka_unit_test(test_results__old_driver_number__is_spelled_out),
        cmocka_unit_test(test_results__a_wrong_document__is_named),
        cmocka_unit_test(test_results__wrong_samples__are_named),
        cmocka_unit_test(test_results__files_that_are_none__are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
