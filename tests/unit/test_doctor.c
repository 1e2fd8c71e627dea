/* test_doctor.c: the doctor's findings, on machines that are healthy and on machines that are
 * not; the GPUs are those of a fake driver. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/doctor/doctor.h"
#include "lab/plan/plan_device.h"
#include "lab/plan/plan_result.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"

static fake_cuda *fake;
static att_context *cpu;

/* Replaces the GPU kernel: the CPU's answer to the doctor's own problem. */
static void compute(const char *kernel, const CUlaunchConfig *config, const void *params,
                    size_t bytes) {
    (void)config;
    const att_fwd_params *p = fake_forward_params(params, bytes);
    if (strncmp(kernel, "combine", 7) == 0 || !p)
        return;
    att_problem problem;
    att_problem_init(&problem, p->batch, p->heads_q, p->heads_kv, p->seq_q, p->seq_k, p->d_qk,
                     p->d_v, (att_dtype)p->dtype);
    problem.causal = ATT_CAUSAL_TOP_LEFT;
    att_plan *plan = NULL;
    assert_int_equal(att_plan_create(&plan, cpu, &problem), ATT_OK);
    void *workspace = aligned_alloc(64, (att_plan_workspace(plan) + 63) / 64 * 64 + 64);
    const att_args args = {.size = sizeof args, .q = p->q, .k = p->k, .v = p->v, .o = p->o};
    assert_int_equal(att_plan_run(plan, &args, workspace, NULL), ATT_OK);
    free(workspace);
    att_plan_destroy(plan);
}

static lab_doctor examine(att_device device, int index) {
    lab_doctor doctor = {.device = device, .device_index = index};
    lab_doctor_build(&doctor);
    lab_doctor_machine(&doctor);
    lab_doctor_smoke(&doctor, stderr);
    for (size_t i = 0; i < doctor.count; i++) {
        const lab_finding *f = &doctor.findings[i];
        assert_true(*f->what && *f->text);
        assert_true(f->level == LAB_FINE || *f->remedy);
    }
    return doctor;
}

/* The finding on `what`, or NULL. */
static const lab_finding *finding(const lab_doctor *doctor, const char *what) {
    for (size_t i = 0; i < doctor->count; i++)
        if (strcmp(doctor->findings[i].what, what) == 0)
            return &doctor->findings[i];
    return NULL;
}

static void expect_finding(lab_doctor *doctor, const char *what, lab_level level,
                           const char *text) {
    const lab_finding *f = finding(doctor, what);
    if (!f)
        fail_msg("nothing is found about %s", what);
    if (f->level != level || !strstr(f->text, text))
        fail_msg("%s: %s: %s", lab_level_name(f->level), what, f->text);
}

static void test_doctor__without_a_gpu__examines_the_cpu(void **state) {
    (void)state;
    use_no_cuda();
    lab_doctor doctor = examine(ATT_DEVICE_AUTO, 0);
    assert_int_not_equal(lab_doctor_worst(&doctor), LAB_FAILED);
    assert_int_not_equal(lab_doctor_worst(&doctor), LAB_ABSENT);
    expect_finding(&doctor, "build", LAB_FINE, att_version());
    expect_finding(&doctor, "run cpu", LAB_FINE, "ran, as intended");
    assert_null(finding(&doctor, "nvrtc"));
    assert_int_equal(json_array_size(doctor.smoke), 1);
    lab_doctor_free(&doctor);
}

static void test_doctor__asked_for_a_gpu_that_is_not_here__says_so(void **state) {
    (void)state;
    use_no_cuda();
    lab_doctor doctor = examine(ATT_DEVICE_CUDA, 0);
    assert_int_equal(lab_doctor_worst(&doctor), LAB_ABSENT);
    expect_finding(&doctor, "driver", LAB_ABSENT, "no NVIDIA driver");
    assert_null(finding(&doctor, "run cpu"));
    lab_doctor_free(&doctor);
    use_wrong_cuda();
    doctor = examine(ATT_DEVICE_CUDA, 0);
    assert_int_equal(lab_doctor_worst(&doctor), LAB_ABSENT);
    lab_doctor_free(&doctor);
}

static void test_doctor__a_gpu_that_computes__is_well(void **state) {
    (void)state;
    use_fake_cuda();
    fake->run = compute;
    lab_doctor doctor = examine(ATT_DEVICE_CUDA, 0);
    expect_finding(&doctor, "cuda:0", LAB_FINE, "compute capability 9.0");
    expect_finding(&doctor, "nvrtc", LAB_FINE, "found");
    expect_finding(&doctor, "cache", LAB_FINE, "compiled kernels");
    expect_finding(&doctor, "run cuda:0", LAB_FINE, "ran, as intended");
    assert_int_equal(json_array_size(doctor.smoke), 1);
    assert_int_equal(fake->memory_live > 0, 1);
    lab_doctor_free(&doctor);
    fake->run = NULL;
}

static void test_doctor__a_gpu_whose_kernels_do_nothing__is_found_out(void **state) {
    (void)state;
    use_fake_cuda();
    fake->run = NULL;
    lab_doctor doctor = examine(ATT_DEVICE_AUTO, 0);
    assert_int_equal(lab_doctor_worst(&doctor), LAB_FAILED);
    expect_finding(&doctor, "run cpu", LAB_FINE, "ran, as intended");
    expect_finding(&doctor, "run cuda:0", LAB_FAILED, "a wrong answer");
    lab_doctor_free(&doctor);
}

static void test_doctor__a_gpu_too_old_or_past_the_end__is_named(void **state) {
    (void)state;
    use_fake_cuda();
    lab_doctor doctor = examine(ATT_DEVICE_CUDA, 3); /* compute capability 7.5 */
    expect_finding(&doctor, "cuda:3", LAB_ABSENT, "7.5");
    lab_doctor_free(&doctor);
    doctor = examine(ATT_DEVICE_CUDA, 9);
    expect_finding(&doctor, "gpu", LAB_ABSENT, "there is no cuda:9");
    lab_doctor_free(&doctor);
}

static void test_doctor__a_launch_that_fails__is_reported(void **state) {
    (void)state;
    use_fake_cuda();
    fake->fail_call = "cuLaunchKernelEx";
    fake->fail_code = CUDA_ERROR_ILLEGAL_ADDRESS;
    lab_doctor doctor = examine(ATT_DEVICE_CUDA, 0);
    assert_int_equal(lab_doctor_worst(&doctor), LAB_FAILED);
    expect_finding(&doctor, "run cuda:0", LAB_FAILED, "cuLaunchKernelEx");
    lab_doctor_free(&doctor);
    reset_fake_cuda(fake);
}

static void test_doctor__an_open_cache__is_not_trusted(void **state) {
    (void)state;
    use_fake_cuda();
    char folder[] = "/tmp/attest-doctor-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/attest", folder);
    assert_int_equal(symlink("/tmp", path), 0);
    setenv("XDG_CACHE_HOME", folder, 1);
    lab_doctor doctor = {.device = ATT_DEVICE_CUDA};
    lab_doctor_machine(&doctor);
    expect_finding(&doctor, "cache", LAB_WARN, "no folder can be trusted");
    unlink(path);
    rmdir(folder);
    lab_doctor_free(&doctor);
}

static void test_plan__for_the_live_gpu__takes_the_drivers_limits(void **state) {
    (void)state;
    use_fake_cuda();
    lab_device device;
    lab_message why;
    assert_true(lab_device_live(&device, 1, &why));
    assert_int_equal(device.limits.cc, 89);
    assert_string_equal(device.from, "cuda:1");
    for (int i = 0; i <= LAB_RATE_SHARED; i++) {
        assert_true(device.rates[i].value > 0.0);
        assert_true(*device.rates[i].source);
    }
    lab_spec spec;
    assert_true(lab_spec_parse(&spec, "b1h8s512d64", &why));
    lab_plan_result plan;
    assert_true(lab_plan_make(&plan, &spec, &device, NULL, &why));
    assert_true(plan.fitting > 0);
    assert_non_null(plan.chosen);
    lab_plan_free(&plan);
    assert_false(lab_device_live(&device, 3, &why));
    assert_non_null(strstr(why.text, "7.5"));
    assert_false(lab_device_live(&device, 99, &why));
}

static int begin(void **state) {
    (void)state;
    static char cache[] = "/tmp/attest-cache-XXXXXX";
    if (!mkdtemp(cache))
        return -1;
    setenv("XDG_CACHE_HOME", cache, 1);
    unsetenv("ATTEST_ISA");
    fake = use_fake_cuda();
    use_fake_nvrtc();
    const att_context_options options = {.size = sizeof options, .device = ATT_DEVICE_CPU};
    return att_context_create(&cpu, &options) == ATT_OK ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    att_context_destroy(cpu);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* The driver is searched until it is found, so the tests without one come first. */
        cmocka_unit_test(test_doctor__without_a_gpu__examines_the_cpu),
        cmocka_unit_test(test_doctor__asked_for_a_gpu_that_is_not_here__says_so),
        cmocka_unit_test(test_doctor__a_gpu_that_computes__is_well),
        cmocka_unit_test(test_doctor__a_gpu_whose_kernels_do_nothing__is_found_out),
        cmocka_unit_test(test_doctor__a_gpu_too_old_or_past_the_end__is_named),
        cmocka_unit_test(test_doctor__a_launch_that_fails__is_reported),
        cmocka_unit_test(test_plan__for_the_live_gpu__takes_the_drivers_limits),
        cmocka_unit_test(test_doctor__an_open_cache__is_not_trusted),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
