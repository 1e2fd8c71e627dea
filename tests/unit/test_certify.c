/* test_certify.c: kernels certified on a fake GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/evidence/certify.h"
#include "tests/support/check.h"
#include "tests/support/evidence_folder.h"
#include "tests/support/fakes.h"

static att_context *cpu;
static bool wrong; /* the GPU computes, but a wrong answer */

/* Replaces the GPU kernel: the CPU's answer. A graph replays only the last launch, so the
 * merging kernel computes for the one before it. */
static void compute(const char *kernel, const CUlaunchConfig *config, const void *params,
                    size_t bytes) {
    static att_fwd_params last;
    (void)config;
    const att_fwd_params *now = fake_forward_params(params, bytes);
    assert_non_null(now);
    if (strncmp(kernel, "combine", 7) != 0)
        last = *now;
    const att_fwd_params *p = &last;
    att_problem problem;
    att_problem_init(&problem, p->batch, p->heads_q, p->heads_kv, p->seq_q, p->seq_k, p->d_qk,
                     p->d_v, (att_dtype)p->dtype);
    problem.scale *= wrong ? 2.0f : 1.0f;
    att_plan *plan = NULL;
    assert_ok(att_plan_create(&plan, cpu, &problem));
    void *workspace = aligned_alloc(64, (att_plan_workspace(plan) + 63) / 64 * 64 + 64);
    const att_args args = {.size = sizeof args, .q = p->q, .k = p->k, .v = p->v, .o = p->o};
    assert_ok(att_plan_run(plan, &args, workspace, NULL));
    free(workspace);
    att_plan_destroy(plan);
}

static lab_certify job_of(const char *timed) {
    lab_certify job = {.device = ATT_DEVICE_CUDA,
                       .bench = {.min_samples = 3, .max_samples = 3},
                       .checked_name = "checked",
                       .timed_name = "timed"};
    char checked_path[1024], timed_path[1024];
    lab_message why;
    write_evidence("checked.txt", "b1h2s40d64,fp16\nb1h2s40d64,bf16\nb1h4hkv2s1sk600d64,fp16\n"
                                  "b1h2s40d32,fp16\nb2h2s700d64,fp16\n");
    write_evidence("timed.txt", timed);
    snprintf(checked_path, sizeof checked_path, "%s/checked.txt", evidence_folder);
    snprintf(timed_path, sizeof timed_path, "%s/timed.txt", evidence_folder);
    if (!lab_suite_set_read(&job.suites, true, checked_path, timed_path, &why))
        fail_msg("%s", why.text);
    return job;
}

/* `timed` is one problem: a fake GPU replays one graph at a time. */
static lab_certified certify(const char *id, const char *timed) {
    lab_certify job = job_of(timed);
    lab_certified done;
    FILE *nowhere = fopen("/dev/null", "w");
    lab_certify_kernel(&done, &job, kernel_index(id), nowhere);
    fclose(nowhere);
    lab_suite_set_free(&job.suites);
    return done;
}

static void expect_certified(const char *id, const char *timed) {
    lab_certified done = certify(id, timed);
    if (!done.statement)
        fail_msg("%s: %s", id, done.why.text);
    assert_string_equal(done.kernel, id);
    assert_true(done.checked > 0 && done.timed > 0);
    assert_true(done.worst_share >= 0.0 && done.worst_share <= 1.0);
    keep_statement(done.statement, "fake-gpu-0", id);
    json_decref(done.statement);
}

static void test_certify__every_role__gives_a_statement_that_holds(void **state) {
    (void)state;
    static const struct {
        att_cuda_role role;
        const char *timed;
    } roles[] = {{ATT_ROLE_PLAIN, "b1h2s40d32,fp16"},
                 {ATT_ROLE_GENERAL, "b1h2s40d64,fp16"}, /* it would not be chosen */
                 {ATT_ROLE_DECODE, "b1h4hkv2s1sk600d64,fp16"},
                 {ATT_ROLE_COMBINE, "b1h4hkv2s1sk600d60,fp16"}};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        const char *id = first_of_role(roles[i].role);
        expect_certified(id, roles[i].timed);
        const lab_judged judged = judged_statement("fake-gpu-0", id);
        if (judged.standing != LAB_PARTIAL) /* of the suites of this test */
            fail_msg("%s: %s", lab_standing_name(judged.standing), judged.why.text);
        assert_int_equal(judged.exhibit->attestation.cc, 90);
        assert_string_equal(judged.exhibit->attestation.device, "Fake GPU 0");
        assert_false(judged.exhibit->is_signed);
    }
    const lab_judged other = judged_statement("fake-gpu-0", first_of_role(ATT_ROLE_SMALL));
    assert_int_equal(other.standing, LAB_MISSING);
    assert_false(lab_judged_fails(&other));
}

static void test_certify__a_wrong_answer__gives_none(void **state) {
    (void)state;
    wrong = true;
    lab_certified done = certify(first_of_role(ATT_ROLE_PLAIN), "b1h2s40d32,fp16");
    wrong = false;
    assert_null(done.statement);
    assert_false(done.impossible);
    assert_non_null(strstr(done.why.text, "b1h2s40d"));
}

static void test_certify__no_problem_for_it__is_impossible(void **state) {
    (void)state;
    /* Not for this GPU. */
    lab_certified done = certify("fwd_sm80_f16_d64_m64n64s2", "b1h2s40d64,fp16");
    assert_null(done.statement);
    assert_true(done.impossible);
    assert_non_null(strstr(done.why.text, "no machine code"));
    done = certify("fwd_sm80_bf16_d64_m128n64s2", "b1h2s40d64,fp16");
    assert_null(done.statement);
    assert_true(done.impossible);
    assert_non_null(strstr(done.why.text, "no problem of the timed suite"));
}

static int set_up(void **state) {
    (void)state;
    const att_context_options on_cpu = {
        .size = sizeof on_cpu, .device = ATT_DEVICE_CPU, .threads = 2};
    use_fake_cuda()->run = compute;
    use_no_nvrtc();
    setenv("ATTEST_SUITES", SUITES, 1);
    setenv("ATTEST_DEVICES", SUITES "/../devices", 1);
    assert_ok(att_context_create(&cpu, &on_cpu));
    return open_evidence();
}

static int tear_down(void **state) {
    (void)state;
    att_context_destroy(cpu);
    return close_evidence();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certify__every_role__gives_a_statement_that_holds),
        cmocka_unit_test(test_certify__a_wrong_answer__gives_none),
        cmocka_unit_test(test_certify__no_problem_for_it__is_impossible),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
