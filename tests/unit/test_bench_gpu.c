/* test_bench_gpu.c: timing on a GPU simulated by the fake driver: timers, modes, readings, a
 * deliberate slow-down.
 *
 * The fake GPU computes; a launch takes 200 us, plus or minus one per cent. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/measure/bench.h"
#include "lab/measure/bench_json.h"
#include "lab/statistics/verdict.h"
#include "tests/support/fakes.h"

static fake_cuda *cuda;
static fake_nvml *nvml;
static att_context *ctx;
static lab_spec spec;
static lab_message why;
static lab_bench_case cases[2];

static int set_up(void **state) {
    (void)state;
    cuda = use_fake_cuda();
    nvml = use_fake_nvml();
    setenv("FAKE_CUDA_COMPUTES", "1", 1);
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CUDA};
    return att_context_create(&ctx, &options) == ATT_OK &&
                   lab_spec_parse(&spec, "b1h1s16d64,fp16", &why)
               ? 0
               : -1;
}

static int tear_down(void **state) {
    (void)state;
    att_context_destroy(ctx);
    return 0;
}

static int before_each(void **state) {
    (void)state;
    reset_fake_cuda(cuda);
    *nvml = (fake_nvml){.init_code = 0};
    return 0;
}

static const lab_bench_options few = {.seed = 4, .min_samples = 12, .max_samples = 12};

/* Bench `count` cases of the one problem; the second, if there is one, is slower by that. */
static void bench(size_t count, double slowdown, const lab_bench_options *options) {
    memset(cases, 0, sizeof cases);
    for (size_t i = 0; i < count; i++) {
        cases[i].spec = &spec;
        cases[i].subject = lab_subject_attest(ctx);
    }
    cases[1].twin = &cases[0];
    cases[1].slowdown = slowdown;
    assert_true(lab_bench_run(cases, count, options, stderr, &why));
}

static void expect_timed(const lab_bench_case *c) {
    if (!c->timed || c->verify.outcome != LAB_PASS)
        fail_msg("%s", c->verify.message);
}

static bool is_near(double x, double expected, double relative) {
    return fabs(x / expected - 1.0) <= relative;
}

/* ------------------------------------------------------------------------------ timers */

static void test_timer__graph_and_events__give_the_time_of_a_launch(void **state) {
    (void)state;
    for (lab_timer timer = LAB_TIMER_GRAPH; timer <= LAB_TIMER_EVENTS; timer++) {
        lab_bench_options options = few;
        options.timer = timer;
        const long graphs = cuda->graphs_live, events = cuda->events_live;
        const long streams = cuda->streams_live;
        bench(1, 0.0, &options);
        expect_timed(&cases[0]);
        assert_int_equal(cases[0].sample_count, 12);
        assert_true(is_near(cases[0].ns.median, 200e3, 0.01));
        assert_true(cases[0].floor_ns > 0.0);
        assert_int_equal(cuda->graphs_live, graphs);
        assert_int_equal(cuda->events_live, events);
        assert_int_equal(cuda->streams_live, streams);
        lab_bench_free(cases, 1);
    }
}

static void test_timer__latency__is_the_hosts_and_has_no_floor(void **state) {
    (void)state;
    lab_bench_options options = few;
    options.timer = LAB_TIMER_LATENCY;
    bench(1, 0.0, &options);
    expect_timed(&cases[0]);
    assert_true(cases[0].ns.median > 0.0);
    assert_true(cases[0].floor_ns == 0.0);
    json_t *object = lab_json_bench_case(&cases[0], &options);
    assert_string_equal(json_string_value(json_object_get(object, "timer")), "latency");
    json_decref(object);
    lab_bench_free(cases, 1);
}

static void test_timer__driver_fails__case_fails_and_nothing_leaks(void **state) {
    (void)state;
    static const char *const calls[] = {"cuEventCreate",      "cuEventRecord",
                                        "cuGraphLaunch",      "cuStreamBeginCapture",
                                        "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
                                        "cuGraphUpload",      "cuEventElapsedTime",
                                        "cuEventSynchronize", "cuCtxSynchronize"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        const long graphs = cuda->graphs_live, events = cuda->events_live;
        cuda->fail_call = calls[i];
        cuda->fail_code = CUDA_ERROR_LAUNCH_FAILED;
        bench(1, 0.0, &few);
        cuda->fail_call = NULL;
        assert_false(cases[0].timed);
        assert_int_equal(cases[0].verify.outcome, LAB_FAIL);
        if (!strstr(cases[0].verify.message, calls[i]))
            fail_msg("\"%s\" does not name %s", cases[0].verify.message, calls[i]);
        assert_int_equal(cuda->graphs_live, graphs);
        assert_int_equal(cuda->events_live, events);
        lab_bench_free(cases, 1);
    }
}

static void test_two_cases_of_one_problem__borrow_and_give_back(void **state) {
    (void)state;
    const long streams = cuda->streams_live, graphs = cuda->graphs_live;
    bench(2, 0.0, &few);
    expect_timed(&cases[0]);
    expect_timed(&cases[1]);
    assert_int_equal(cases[1].input_sets, cases[0].input_sets);
    assert_int_equal(cuda->streams_live, streams);
    assert_int_equal(cuda->graphs_live, graphs);
    lab_bench_free(cases, 2);
}

static void test_timer__work_on_another_stream__is_caught(void **state) {
    (void)state;
    cuda->busy_us = 200;
    bench(1, 0.0, &few);
    cuda->busy_us = 0;
    assert_false(cases[0].timed);
    assert_int_equal(cases[0].verify.outcome, LAB_FAIL);
    assert_string_equal(cases[0].verify.message,
                        "after most samples the GPU was still at work on another stream");
    lab_bench_free(cases, 1);
}

/* ------------------------------------------------------------------------------- modes */

static void test_warm__small_problem__inputs_take_turns(void **state) {
    (void)state;
    bench(1, 0.0, &few);
    expect_timed(&cases[0]);
    assert_int_equal(cases[0].input_sets, LAB_INPUT_SETS);
    assert_int_equal(cases[0].calls_per_sample % LAB_INPUT_SETS, 0);
    lab_bench_free(cases, 1);
}

static void test_cold__one_call_after_a_flush(void **state) {
    (void)state;
    lab_bench_options options = few;
    bench(1, 0.0, &options);
    const double warm_floor = cases[0].floor_ns;
    lab_bench_free(cases, 1);
    options.mode = LAB_COLD;
    bench(1, 0.0, &options);
    expect_timed(&cases[0]);
    assert_int_equal(cases[0].input_sets, 1);
    assert_int_equal(cases[0].calls_per_sample, 1);
    assert_true(cases[0].floor_ns >= warm_floor); /* all bytes come from memory */
    json_t *object = lab_json_bench_case(&cases[0], &options);
    assert_string_equal(json_string_value(json_object_get(object, "mode")), "cold");
    json_decref(object);
    lab_bench_free(cases, 1);
    cuda->fail_call = "cuMemsetD8";
    cuda->fail_code = CUDA_ERROR_LAUNCH_FAILED;
    bench(1, 0.0, &options);
    cuda->fail_call = NULL;
    assert_false(cases[0].timed);
    assert_non_null(strstr(cases[0].verify.message, "cuMemsetD8Async"));
    lab_bench_free(cases, 1);
}

static void test_precision__reached__ends_the_sampling(void **state) {
    (void)state;
    lab_bench_options options = few;
    options.max_samples = 400;
    options.seconds = 100.0;
    options.precision = 0.002;
    bench(1, 0.0, &options);
    expect_timed(&cases[0]);
    assert_in_range(cases[0].sample_count, 12, 200);
    assert_true(lab_half_width(cases[0].samples_ns, cases[0].sample_count) < 0.004);
    lab_bench_free(cases, 1);
}

/* ------------------------------------------------------------------------- self-checks */

static void test_slowdown__of_three_per_cent__is_measured_and_found(void **state) {
    (void)state;
    lab_bench_options options = few;
    options.min_samples = options.max_samples = 20;
    options.calls_multiple = 34;
    bench(2, 0.03, &options);
    expect_timed(&cases[0]);
    expect_timed(&cases[1]);
    assert_int_equal(cases[0].calls_per_sample % 34, 0);
    assert_int_equal(cases[0].extra_calls, 0);
    assert_int_equal(cases[1].extra_calls, cases[1].calls_per_sample / 34);
    const lab_samples a = lab_bench_samples(&cases[0]), b = lab_bench_samples(&cases[1]);
    lab_verdict v;
    assert_true(lab_verdict_of(&v, &a, &b, LAB_PAIRED, 0.01, 0, &why));
    assert_int_equal(v.kind, LAB_SLOWER);
    assert_true(is_near(v.effect, 1.0 / 34.0, 0.2));
    lab_bench_free(cases, 2);
}

static void test_twin__is_not_verified_again(void **state) {
    (void)state;
    bench(2, 0.0, &few);
    assert_true(cases[1].verify.run_seconds == cases[0].verify.run_seconds);
    expect_timed(&cases[1]);
    lab_bench_free(cases, 2);
}

/* ---------------------------------------------------------------------------- readings */

static void test_readings__beside_every_sample(void **state) {
    (void)state;
    nvml->reasons = LAB_SLOW_POWER_CAP;
    bench(1, 0.0, &few);
    expect_timed(&cases[0]);
    assert_non_null(cases[0].readings);
    assert_int_equal(cases[0].power_capped, 12); /* kept: a loaded GPU runs like this
                                                  * permanently */
    assert_int_equal(cases[0].discarded, 0);
    for (size_t i = 0; i < cases[0].sample_count; i++)
        assert_true(cases[0].readings[i].power_w == 350.5);
    json_t *object = lab_json_bench_case(&cases[0], &few);
    const json_t *clocks = json_object_get(object, "clocks_mhz");
    assert_int_equal(json_array_size(clocks), 12);
    assert_true(json_number_value(json_array_get(clocks, 11)) == 1980.0);
    json_decref(object);
    json_t *document = lab_json_bench_document(ctx, &few);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(document, "machine"), "driver")),
        "580.12.34");
    json_decref(document);
    assert_int_equal(nvml->open, 0);
    lab_bench_free(cases, 1);
}

static void test_readings__throttled_now_and_then__those_are_thrown_away(void **state) {
    (void)state;
    lab_bench_options options = few;
    options.max_samples = 40;
    nvml->throttle_every = 3;
    bench(1, 0.0, &options);
    expect_timed(&cases[0]);
    assert_true(cases[0].sample_count >= 12); /* as many as without */
    assert_true(cases[0].discarded >= 5);
    assert_int_equal(cases[0].discarded_for, LAB_SLOW_THERMAL);
    bool gap = false;
    for (size_t i = 1; i < cases[0].sample_count; i++)
        gap = gap || cases[0].round[i] > cases[0].round[i - 1] + 1;
    assert_true(gap); /* the rounds show which are missing */
    lab_bench_free(cases, 1);
}

static void test_readings__throttled_always__no_result(void **state) {
    (void)state;
    lab_bench_options options = few;
    options.max_samples = 200;
    nvml->throttle_every = 1;
    bench(1, 0.0, &options);
    assert_false(cases[0].timed);
    assert_int_equal(cases[0].verify.outcome, LAB_FAIL);
    assert_string_equal(cases[0].verify.message,
                        "24 of 24 samples were thrown away: the GPU throttled (temperature)");
    lab_bench_free(cases, 1);
}

static void test_readings__no_nvml__none_and_all_else_the_same(void **state) {
    (void)state;
    use_no_nvml();
    bench(1, 0.0, &few);
    expect_timed(&cases[0]);
    assert_null(cases[0].readings);
    json_t *document = lab_json_bench_document(ctx, &few);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(document, "machine"), "driver")),
        "CUDA 13.0");
    json_decref(document);
    lab_bench_free(cases, 1);
    use_fake_nvml();
}

#define TEST(name) cmocka_unit_test_setup(name, before_each)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_timer__graph_and_events__give_the_time_of_a_launch),
        TEST(test_timer__latency__is_the_hosts_and_has_no_floor),
        TEST(test_timer__driver_fails__case_fails_and_nothing_leaks),
        TEST(test_two_cases_of_one_problem__borrow_and_give_back),
        TEST(test_timer__work_on_another_stream__is_caught),
        TEST(test_warm__small_problem__inputs_take_turns),
        TEST(test_cold__one_call_after_a_flush),
        TEST(test_precision__reached__ends_the_sampling),
        TEST(test_slowdown__of_three_per_cent__is_measured_and_found),
        TEST(test_twin__is_not_verified_again),
        TEST(test_readings__beside_every_sample),
        TEST(test_readings__throttled_now_and_then__those_are_thrown_away),
        TEST(test_readings__throttled_always__no_result),
        TEST(test_readings__no_nvml__none_and_all_else_the_same),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
