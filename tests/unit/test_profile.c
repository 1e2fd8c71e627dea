/* test_profile.c: the output of ncu parsed; the bottleneck named; profiles written and read
 * back. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lab/profile/profile.h"
#include "tests/support/check.h"

#define TENSOR "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"

static lab_profile parse(const char *text) {
    lab_profile profile;
    lab_message why;
    if (!lab_profile_parse(&profile, text, &why))
        fail_msg("%s", why.text);
    return profile;
}

static void test_parse__a_line_a_metric__gives_launches(void **state) {
    (void)state;
    lab_profile p =
        parse("kernel   fwd\n==PROF== Connected\n"
              "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
              "\"0\",\"fwd, \"\"a\"\"\",\"gpu__time_duration.sum\",\"ns\",\"9,176,672\"\r\n"
              "\"0\",\"fwd, \"\"a\"\"\",\"" TENSOR "\",\"%\",\"22.10\"\n"
              "\"0\",\"fwd, \"\"a\"\"\",\"unknown__metric.sum\",\"\",\"1\"\n"
              "\"3\",\"combine\",\"gpu__time_duration.sum\",\"usecond\",\"2.5\"\n"
              "\"3\",\"combine\",\"" TENSOR "\",\"%\",\"n/a\"\n");
    assert_int_equal(p.count, 2);
    assert_string_equal(p.list[0].kernel, "fwd, \"a\"");
    assert_near(p.list[0].values[LAB_METRIC_TIME], 9176672.0, 0.0);
    assert_near(p.list[0].values[LAB_METRIC_TENSOR], 22.1, 1e-12);
    assert_true(isnan(p.list[0].values[LAB_METRIC_DRAM]));
    assert_int_equal(p.list[1].launch, 3);
    assert_near(p.list[1].values[LAB_METRIC_TIME], 2500.0, 1e-9);
    assert_true(isnan(p.list[1].values[LAB_METRIC_TENSOR]));
    lab_profile_free(&p);
}

static void test_parse__a_line_a_launch__takes_units_from_the_second(void **state) {
    (void)state;
    lab_profile p =
        parse("\"ID\",\"Kernel Name\",\"dram__bytes_read.sum\",\"gpu__time_duration.sum\","
              "\"launch__shared_mem_per_block_dynamic\",\"other\"\n"
              "\"\",\"\",\"Mbyte\",\"ms\",\"Kbyte/block\",\"x\"\n"
              "\"0\",\"fwd\",\"1.5\",\"0.25\",\"33.79\",\"y\"\n"
              "\"1\",\"fwd\",\"2\",\"0.5\",\"33.79\",\"y\"");
    assert_int_equal(p.count, 2);
    assert_near(p.list[0].values[LAB_METRIC_READ], 1.5e6, 1e-6);
    assert_near(p.list[0].values[LAB_METRIC_TIME], 0.25e6, 1e-6);
    assert_near(p.list[0].values[LAB_METRIC_SHARED], 33790.0, 1e-6);
    const lab_profiled *last = lab_profile_kernel(&p, 0);
    assert_int_equal(last->launch, 1);
    assert_null(lab_profile_kernel(&p, 1));
    lab_profile_free(&p);
}

static void expect_broken(const char *text, const char *word) {
    lab_profile profile;
    lab_message why;
    assert_false(lab_profile_parse(&profile, text, &why));
    if (!strstr(why.text, word))
        fail_msg("\"%s\" does not say \"%s\"", why.text, word);
    assert_int_equal(profile.count, 0);
}

static void test_parse__broken_output__is_refused(void **state) {
    (void)state;
    expect_broken("", "no table");
    expect_broken("==PROF== no kernels were profiled\n", "no table");
    expect_broken("\"ID\",\"Kernel Name\"\n", "none of the known columns");
    expect_broken("\"ID\",\"Kernel Name\",\"Metric Name\"\n", "none of the known columns");
    expect_broken("\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n", "no launch");
    expect_broken("\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"\",\"\",\"ns\"\n",
                  "no launch");
    expect_broken("\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"0\",\"a\"\n",
                  "2 fields under a header of 3");
    expect_broken("\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"0\",\"a\",\"1",
                  "within");
    expect_broken("\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\"\n\"0\",\"a\",\"1\"\n"
                  "\"x\",\"a\",\"1\"\n",
                  "'x'");
}

static void test_listed__names_of_the_query__without_their_suffix(void **state) {
    (void)state;
    static const char list[] = "Device A (GH100)\n\ngpu__time_duration   Counter  ns  text\n"
                               "sm__throughput_other Throughput\nlts__throughput\tx\n";
    assert_true(lab_metric_listed(LAB_METRIC_TIME, list));
    assert_true(lab_metric_listed(LAB_METRIC_L2, list));
    assert_false(lab_metric_listed(LAB_METRIC_SM, list));
    assert_true(lab_metric_listed(LAB_METRIC_REGISTERS, list)); /* of the launch */
    assert_false(lab_metric_listed(LAB_METRIC_TIME, ""));
}

static lab_profiled nothing(void) {
    lab_profiled p = {.kernel = "k"};
    for (int i = 0; i < LAB_METRICS; i++)
        p.values[i] = (double)NAN;
    return p;
}

static void expect_bottleneck(const lab_profiled *p, const char *word) {
    char sentence[512];
    lab_profile_bottleneck(p, sentence, sizeof sentence);
    if (!strstr(sentence, word))
        fail_msg("\"%s\" does not say \"%s\"", sentence, word);
}

static void test_bottleneck__each_kind__is_named(void **state) {
    (void)state;
    lab_profiled p = nothing();
    expect_bottleneck(&p, "the bottleneck is unknown");
    p.values[LAB_METRIC_TENSOR] = 22.0;
    p.values[LAB_METRIC_DRAM] = 7.0;
    p.values[LAB_METRIC_SM] = 30.0;
    p.values[LAB_METRIC_STALL_WAIT] = 1.46;
    p.values[LAB_METRIC_STALL_BARRIER] = 0.03;
    expect_bottleneck(&p, "bound by latency");
    expect_bottleneck(&p, "wait most for instructions that depend on each other (1.46");
    p.values[LAB_METRIC_WAVES] = 0.24;
    expect_bottleneck(&p, "too few blocks: they fill 0.24 of a wave");
    p.values[LAB_METRIC_SM] = 80.0;
    expect_bottleneck(&p, "a unit of the SMs, busy 80 %");
    p.values[LAB_METRIC_TENSOR] = 75.0;
    expect_bottleneck(&p, "the tensor cores, busy 75 %");
    p.values[LAB_METRIC_DRAM] = 91.0;
    expect_bottleneck(&p, "bound by memory, busy 91 %");
    p.values[LAB_METRIC_SPILLS] = 12.0;
    expect_bottleneck(&p, "registers spill");
    char small[8];
    lab_profile_bottleneck(&p, small, sizeof small);
    assert_int_equal(strlen(small), 7);
}

static void test_json__a_profile__comes_back(void **state) {
    (void)state;
    char path[] = "/tmp/attest_profile_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    lab_profiled one = nothing();
    one.values[LAB_METRIC_DRAM] = 12.5;
    lab_profile profile = {.list = &one, .count = 1}, back;
    lab_message why;
    json_t *document = json_pack("{s:s, s:o}", "schema", "attest-profile-1", "launches",
                                 lab_profile_json(&profile));
    assert_int_equal(json_dump_file(document, path, 0), 0);
    if (!lab_profile_read_json(&back, path, &why))
        fail_msg("%s", why.text);
    assert_near(back.list[0].values[LAB_METRIC_DRAM], 12.5, 0.0);
    assert_true(isnan(back.list[0].values[LAB_METRIC_TENSOR]));
    assert_string_equal(back.list[0].kernel, "k");
    lab_profile_free(&back);

    json_object_set_new(document, "launches", json_pack("[{s:s}]", "kernel", "k"));
    assert_int_equal(json_dump_file(document, path, 0), 0);
    assert_false(lab_profile_read_json(&back, path, &why));
    assert_non_null(strstr(why.text, "launches[0].metrics: is missing"));
    json_object_set_new(
        document, "launches",
        json_pack("[{s:s, s:{s:s}}]", "kernel", "k", "metrics", "registers", "many"));
    assert_int_equal(json_dump_file(document, path, 0), 0);
    assert_false(lab_profile_read_json(&back, path, &why));
    assert_non_null(strstr(why.text, "launches[0].metrics.registers: expected a number"));
    json_object_set_new(document, "launches", json_array());
    assert_int_equal(json_dump_file(document, path, 0), 0);
    assert_false(lab_profile_read_json(&back, path, &why));
    assert_non_null(strstr(why.text, "launches"));
    json_object_set_new(document, "schema", json_string("other"));
    assert_int_equal(json_dump_file(document, path, 0), 0);
    assert_false(lab_profile_read_json(&back, path, &why));
    assert_non_null(strstr(why.text, "schema"));
    assert_false(lab_profile_read_json(&back, "/nonexistent", &why));
    json_decref(document);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse__a_line_a_metric__gives_launches),
        cmocka_unit_test(test_parse__a_line_a_launch__takes_units_from_the_second),
        cmocka_unit_test(test_parse__broken_output__is_refused),
        cmocka_unit_test(test_listed__names_of_the_query__without_their_suffix),
        cmocka_unit_test(test_bottleneck__each_kind__is_named),
        cmocka_unit_test(test_json__a_profile__comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
