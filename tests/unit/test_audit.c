/* test_audit.c: every saboteur is caught, on the CPU and on a GPU that computes, for every
 * operation; honest ones pass, unless the device lies. Times are simulated: they do not depend on
 * the machine's load. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lab/evidence/audit.h"
#include "lab/tensors/tensors.h"
#include "tests/support/fakes.h"
#include "tests/support/instrumented.h"
#include "tests/support/simulated_clock.h"

/* Small enough for a fake GPU. */
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

/* Instrumented code plays problems in which not every saboteur can be told: only memory is
 * checked there. */
static bool outcomes_count(void) {
    return !is_instrumented();
}

static void audit_all(lab_audit *audit, att_context *ctx, const lab_audit_options *options) {
    lab_message why;
    if (!lab_audit_run(audit, ctx, options, stderr, &why))
        fail_msg("%s", why.text);
}

static void expect_all_caught(const lab_audit *audit) {
    if (!outcomes_count())
        return;
    for (size_t i = 0; i < audit->count; i++) {
        const lab_audit_result *r = &audit->results[i];
        if (r->outcome == LAB_AUDIT_MISSED || r->outcome == LAB_AUDIT_ACCUSED)
            print_error("%s: %s: %s\n", lab_saboteur_name(r->saboteur),
                        lab_audit_outcome_name(r->outcome), r->message);
    }
    assert_int_equal(audit->missed, 0);
    assert_int_equal(audit->accused, 0);
    assert_int_equal(audit->passed, 2);
    assert_int_equal(audit->caught + audit->passed + audit->left_out, audit->count);
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
    if (!outcomes_count())
        return;
    const char *check = check_of(audit, name, timed);
    if (!strstr(check, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", name, check, words);
}

static void test_audit__cpu__all_caught(void **state) {
    (void)state;
    att_context *ctx = open_on(ATT_DEVICE_CPU);
    const lab_audit_options options = outcomes_count() ? (lab_audit_options){.seed = 1} : small;
    lab_audit audit;
    audit_all(&audit, ctx, &options);
    expect_all_caught(&audit);
    assert_int_equal(audit.left_out, 8); /* for backward and moe only */
    expect_caught_by(&audit, "keeps what is there", true, "");
    expect_caught_by(&audit, "impatient", true, "not all calls of a sample compute");
    expect_caught_by(&audit, "every other call", true, "not all calls of a sample compute");
    expect_caught_by(&audit, "blunt when finished", true, "o");
    expect_caught_by(&audit, "fifth sight", true, "it remembers answers");
    expect_caught_by(&audit, "changed heads only", true, "not all calls of a sample compute");
    expect_caught_by(&audit, "updates its sums", true, "it updates its answers");
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

/* Saboteurs of any operation are caught; those of a single other operation are listed, and not
 * played. */
static void test_audit__merge__all_caught_but_others_own(void **state) {
    (void)state;
    att_context *ctx = open_on(ATT_DEVICE_CPU);
    const lab_audit_options options = {
        .seed = 2,
        .plain = outcomes_count() ? "merge:n4b2h8s128d64,bf16" : "merge:n4b1h2s16d64,bf16"};
    lab_audit audit;
    audit_all(&audit, ctx, &options);
    expect_all_caught(&audit);
    assert_int_equal(audit.left_out, 12);
    for (size_t i = 0; i < audit.count; i++)
        assert_string_equal(lab_spec_operation(&audit.results[i].spec), "merge");
    expect_caught_by(&audit, "wrong alignment", false, "applies to attention only");
    expect_caught_by(&audit, "mean of V", false, "applies to attention only");
    expect_caught_by(&audit, "changed heads only", false, "applies to attention only");
    expect_caught_by(&audit, "stale K and V", false, "applies to backward only");
    expect_caught_by(&audit, "seven bits", false, "");
    expect_caught_by(&audit, "impatient", true, "not all calls of a sample compute");
    expect_caught_by(&audit, "every other call", true, "not all calls of a sample compute");
    expect_caught_by(&audit, "cached by pointer", true, "the oracle has");
    expect_caught_by(&audit, "cached by contents", true, "it remembers answers");
    expect_caught_by(&audit, "fifth sight", true, "it remembers answers");
    expect_caught_by(&audit, "handicapped rival", true, "direct call: a rival with a handicap");
    expect_caught_by(&audit, "changes an input", false, "");
    json_t *array = lab_audit_json(&audit);
    assert_int_equal(json_array_size(array), audit.count);
    json_decref(array);
    lab_audit_free(&audit);
    att_context_destroy(ctx);
}

/* Gradients: every output is judged, whichever of them is wrong. */
static void test_audit__backward__all_caught(void **state) {
    (void)state;
    att_context *ctx = open_on(ATT_DEVICE_CPU);
    const lab_audit_options options = {
        .seed = 3, .plain = "backward:b1h4hkv2s48sk80d64,fp16,causal=bottom-right"};
    lab_audit audit;
    audit_all(&audit, ctx, &options);
    expect_all_caught(&audit);
    assert_int_equal(audit.left_out, 8);
    expect_caught_by(&audit, "stale K and V", true, "d_k");
    expect_caught_by(&audit, "V of another head", false, "d_v");
    expect_caught_by(&audit, "a tile left out", false, "d_k");
    expect_caught_by(&audit, "other bits", false, "a second run gave other bits");
    expect_caught_by(&audit, "cached by pointer", true, "the oracle has");
    expect_caught_by(&audit, "cached by contents", true, "it remembers answers");
    lab_audit_free(&audit);
    att_context_destroy(ctx);
}

/* Mixtures of experts: routing and experts are judged separately. */
static void test_audit__moe__all_caught(void **state) {
    (void)state;
    att_context *ctx = open_on(ATT_DEVICE_CPU);
    static const char *const lines[] = {
        "moe:t96e8k3h64i48,fp16,ids,weights,counts",
        "moe:t64e8k2h64i48,bf16,act=swiglu-clamped,b1,b2,route=topk",
        "moe:t64e8k2h64i48,f32,route=given",
    };
    static const size_t left_out[] = {8, 9,
                                      10}; /* more where a saboteur would have no effect */
    for (int n = 0; n < 3; n++) {
        const lab_audit_options options = {.seed = 4, .plain = lines[n]};
        lab_audit audit;
        audit_all(&audit, ctx, &options);
        expect_all_caught(&audit);
        assert_int_equal(audit.left_out, left_out[n]);
        expect_caught_by(&audit, "expert skipped", false, "y[");
        expect_caught_by(&audit, "stale routing", true, "y[");
        expect_caught_by(&audit, "cached by pointer", true, "the oracle has");
        lab_audit_free(&audit);
    }
    att_context_destroy(ctx);
}

/* A saboteur of a single operation refuses another one if it is given one anyway. */
static void test_saboteur__another_operation__refuses(void **state) {
    (void)state;
    att_context *ctx = open_on(ATT_DEVICE_CPU);
    lab_spec spec;
    lab_message why;
    assert_true(lab_spec_parse(&spec, "merge:n2b1h1s4d8", &why));
    size_t own = 0;
    for (size_t i = 0; i < lab_saboteur_count; i++) {
        const lab_saboteur *s = lab_saboteur_at(i);
        const lab_subject subject = lab_saboteur_subject(s, ctx);
        lab_prepared prepared;
        const att_status status = lab_subject_prepare(&prepared, &subject, &spec, &why);
        assert_int_equal(status, lab_saboteur_operation(s) ? ATT_E_UNSUPPORTED : ATT_OK);
        if (status == ATT_OK)
            lab_prepared_destroy(&prepared);
        else
            assert_non_null(strstr(why.text, ", not merge"));
        own += status != ATT_OK;
    }
    assert_int_equal(own, 12);
    att_context_destroy(ctx);
}

/* locate() finds in arguments what point() put there. */
static void test_locate__tensors__are_those_of_the_arguments(void **state) {
    (void)state;
    static const char *const lines[] = {
        "b2h4hkv2s9sk7d16,bf16,lse,bias,alibi,align=top-left,sinks",
        "b2h2s9d16,varlen,causal=bottom-right",
        "b2h2s4sk40d16,lensk,paged=8",
        "b1h2s9d16,layout=packed,lse",
        "backward:b2h4hkv2s9sk7d16,bf16,bias,alibi,align=top-left,sinks,dbias,dalibi,dsinks",
        "backward:b1h2s9d16,layout=packed",
        "merge:n5b2h3s4d16,f32,pad=1",
        "merge:n128b1h1s2d8,nolse",
        "moe:t5e4k2h8i8,gate=apart,b1,b2,mask,ids,weights,counts,route=sigmoid,correction",
        "moe:t5e4k2h8i8,route=given,ids,pad=1,offset=1",
    };
    for (size_t n = 0; n < sizeof lines / sizeof lines[0]; n++) {
        lab_spec spec;
        lab_tensors *t;
        lab_message why;
        const void *at[LAB_TENSORS_MAX];
        if (!lab_spec_parse(&spec, lines[n], &why) || !lab_tensors_create(&t, &spec, 1, &why))
            fail_msg("%s: %s", lines[n], why.text);
        spec.operation->locate(&t->any, &spec, at);
        for (int i = 0; i < t->count; i++)
            if (at[i] != t->buffer[i].data)
                fail_msg("%s: %s (%d) lies elsewhere", lines[n], t->size[i].name, i);
        lab_tensors_destroy(t);
    }
}

static void test_audit__gpu__all_caught(void **state) {
    (void)state;
    setenv("FAKE_CUDA_COMPUTES", "1", 1);
    att_context *ctx = open_on(ATT_DEVICE_CUDA);
    lab_audit audit;
    audit_all(&audit, ctx, &small);
    expect_all_caught(&audit);
    expect_caught_by(&audit, "cached by pointer", true, "the oracle has");
    expect_caught_by(&audit, "side stream", false, "replayed from a CUDA graph");
    expect_caught_by(&audit, "handicapped rival", true, "says that it needs 0");
    lab_audit_free(&audit);
    att_context_destroy(ctx);
}

/* A GPU that computes nothing: honest subjects are accused, and the audit says so. */
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
    const char *const lines[][2] = {{"b1x", "unknown shape key 'x'"},
                                    {"merge:n0", "n=0"},
                                    {"merge:n2b0h1s4d8", "nothing to compute"}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const lab_audit_options options = {.plain = lines[i][0]};
        lab_audit audit;
        lab_message why = {""};
        assert_false(lab_audit_run(&audit, ctx, &options, stderr, &why));
        if (!strstr(why.text, lines[i][1]))
            fail_msg("%s: \"%s\"", lines[i][0], why.text);
        lab_audit_free(&audit);
    }
    att_context_destroy(ctx);
}

int main(void) {
    use_fake_cuda();
    simulated_clock_start();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit__cpu__all_caught),
        cmocka_unit_test(test_audit__merge__all_caught_but_others_own),
        cmocka_unit_test(test_audit__backward__all_caught),
        cmocka_unit_test(test_audit__moe__all_caught),
        cmocka_unit_test(test_saboteur__another_operation__refuses),
        cmocka_unit_test(test_locate__tensors__are_those_of_the_arguments),
        cmocka_unit_test(test_audit__gpu__all_caught),
        cmocka_unit_test(test_audit__device_that_computes_nothing__honest_accused),
        cmocka_unit_test(test_audit__problem_that_is_none__said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
