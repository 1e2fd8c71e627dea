/* test_audit.c: every saboteur is caught, on the CPU and on a GPU that computes; honest ones pass, unless the device lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/evidence/audit.h"
#include "tests/support/fakes.h"

/* Small enough for a GPU that is none. */
static const lab_audit_options small = {.seed = 3,
                                        .plain = "b1h2hkv1s24sk40d64,fp16,causal=bottom-right",
                                        .rival = "b1h4hkv2s1sk64d64,fp16"};

static att_context *open_on(att_device device) {
    const att_context_options options = {
        .size = sizeof options, .device = device, .threads = device == ATT_DEVICE_CPU};
    att_context *ctx;
    if (att_context_create(&ctx, &options) != ATT_OK)
        fail_msg("%s", att_last_error()->text);
    return ctx;
}

static void expect_all_caught(const lab_audit *audit) {
    for (size_t i = 0; i < audit->count; i++) {
        const lab_audit_result *r = &audit->results[i];
        if (r->outcome == LAB_AUDIT_MISSED || r->outcome == LAB_AUDIT_ACCUSED)
            print_error("%s: %s: %s\n", lab_saboteur_name(r->saboteur),
                        lab_audit_outcome_name(r->outcome), r->message);
    }
    assert_int_equal(audit->missed, 0);
    assert_int_equal(audit->accused, 0);
    assert_int_equal(audit->passed, 2);
    assert_int_equal(audit->caught + audit->passed, audit->count);
}

/* Which check caught the saboteur of that name. */
static const char *check_of(const lab_audit *audit, const char *name, bool timed) {
    for (size_t i = 0; i < audit->count; i++)
        if (strcmp(lab_saboteur_name(audit->results[i].saboteur), name) == 0) {
            assert_int_equal(audit->results[i].timed, timed);
            return audit->results[i].message;
        }
    fail_msg("%s was not played", name);
    return "";
}

static void expect_caught_by(const lab_audit *audit, const char *name, bool timed,
                             const char *words) {
    const char *check = check_of(audit, name, timed);
    if (!strstr(check, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", name, check, words);
}

static void test_audit__cpu__all_caught(void **state) {
    (void)state;
    att_context *ctx = open_on(ATT_DEVICE_CPU);
    const lab_audit_options options = {.seed = 1};
    lab_audit audit;
    lab_message why;
    assert_true(lab_audit_run(&audit, ctx, &options, stderr, &why));
    expect_all_caught(&audit);
    expect_caught_by(&audit, "keeps what is there", true, "");
    expect_caught_by(&audit, "impatient", true, "not all calls of a sample compute");
    expect_caught_by(&audit, "every other call", true, "not all calls of a sample compute");
    expect_caught_by(&audit, "blunt when finished", true, "o");
    expect_caught_by(&audit, "fifth sight", true, "it remembers answers");
    expect_caught_by(&audit, "changed heads only", true, "it remembers answers");
    expect_caught_by(&audit, "other rounding", false, "rules of floating-point arithmetic");
    expect_caught_by(&audit, "cached by pointer", true, "the oracle has");
    expect_caught_by(&audit, "cached by contents", true, "it remembers answers");
    expect_caught_by(&audit, "right for a while", true, "the oracle has");
    expect_caught_by(&audit, "handicapped rival", true, "direct call: a rival with a handicap");
    expect_caught_by(&audit, "writes past O", false, "memory beside it");
    json_t *array = lab_audit_json(&audit);
    assert_int_equal(json_array_size(array), audit.count);
    json_decref(array);
    lab_audit_free(&audit);
    att_context_destroy(ctx);
}

static void test_audit__gpu__all_caught(void **state) {
    (void)state;
    setenv("FAKE_CUDA_COMPUTES", "1", 1);
    att_context *ctx = open_on(ATT_DEVICE_CUDA);
    lab_audit audit;
    lab_message why;
    assert_true(lab_audit_run(&audit, ctx, &small, stderr, &why));
    expect_all_caught(&audit);
    expect_caught_by(&audit, "cached by pointer", true, "the oracle has");
    expect_caught_by(&audit, "side stream", false, "replayed from a CUDA graph");
    expect_caught_by(&audit, "handicapped rival", true, "says that it needs 0");
    lab_audit_free(&audit);
    att_context_destroy(ctx);
}

/* A GPU that computes nothing: the honest are accused, and the audit says so. */
static void test_audit__device_that_computes_nothing__honest_accused(void **state) {
    (void)state;
    setenv("FAKE_CUDA_COMPUTES", "0", 1);
    att_context *ctx = open_on(ATT_DEVICE_CUDA);
    lab_audit audit;
    lab_message why;
    assert_true(lab_audit_run(&audit, ctx, &small, stderr, &why));
    assert_int_equal(audit.accused, 2);
    assert_int_equal(audit.passed, 0);
    lab_audit_free(&audit);
    att_context_destroy(ctx);
}

static void test_audit__problem_that_is_none__said(void **state) {
    (void)state;
    att_context *ctx = open_on(ATT_DEVICE_CPU);
    const lab_audit_options options = {.plain = "b1x"};
    lab_audit audit;
    lab_message why;
    assert_false(lab_audit_run(&audit, ctx, &options, stderr, &why));
    assert_true(why.text[0] != '\0');
    lab_audit_free(&audit);
    att_context_destroy(ctx);
}

int main(void) {
    use_fake_cuda();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit__cpu__all_caught),
        cmocka_unit_test(test_audit__gpu__all_caught),
        cmocka_unit_test(test_audit__device_that_computes_nothing__honest_accused),
        cmocka_unit_test(test_audit__problem_that_is_none__said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
