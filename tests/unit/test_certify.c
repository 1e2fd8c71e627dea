/* test_certify.c: kernels certified on a GPU that is none, and their statements read back, sound and tampered with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cuda/embed.h"
#include "lab/base/spawn.h"
#include "lab/evidence/certify.h"
#include "lab/evidence/evidence_judge.h"
#include "lab/evidence/place.h"
#include "lab/measure/injection.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"

static fake_cuda *fake;
static att_context *cpu, *gpu;
static char folder[] = "/tmp/attest_certify_XXXXXX";
static bool wrong; /* the GPU computes, but not the answer */

/* Stands for the GPU kernel: the CPU's answer. A graph replays the last launch alone, so the kernel that merges computes for
 * the one before it. */
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

static void write_text(const char *name, const char *text) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static size_t row_of(const char *id) {
    for (size_t i = 0; i < att_registry_count(); i++)
        if (strcmp(att_registry_row(i)->id, id) == 0)
            return i;
    fail_msg("there is no kernel %s", id);
    return 0;
}

/* One that ships as attested: of others no statement is asked. */
static const char *first_of_role(att_cuda_role role) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const att_cuda_kernel *k = row->cuda;
        if (k && k->role == role && k->targets & ATT_SM90 && !row->unattested)
            return k->id;
    }
    fail_msg("there is no such role");
    return "";
}

static lab_certify job_of(const char *timed) {
    lab_certify job = {.device = ATT_DEVICE_CUDA,
                       .bench = {.min_samples = 3, .max_samples = 3},
                       .checked_name = "checked",
                       .timed_name = "timed"};
    char path[1024];
    lab_message why;
    write_text("checked.txt", "b1h2s40d64,fp16\nb1h2s40d64,bf16\nb1h4hkv2s1sk600d64,fp16\n"
                              "b1h2s40d32,fp16\nb2h2s700d64,fp16\n");
    write_text("timed.txt", timed);
    snprintf(path, sizeof path, "%s/checked.txt", folder);
    if (!lab_suite_read(&job.checked, path, &why))
        fail_msg("%s", why.text);
    snprintf(path, sizeof path, "%s/timed.txt", folder);
    if (!lab_suite_read(&job.timed, path, &why))
        fail_msg("%s", why.text);
    return job;
}

/* `timed` is one problem: a fake GPU replays one graph at a time. */
static lab_certified certify(const char *id, const char *timed) {
    lab_certify job = job_of(timed);
    lab_certified done;
    FILE *nowhere = fopen("/dev/null", "w");
    lab_certify_kernel(&done, &job, row_of(id), nowhere);
    fclose(nowhere);
    lab_suite_free(&job.checked);
    lab_suite_free(&job.timed);
    return done;
}

static void keep(json_t *statement, const char *place, const char *id) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, place);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/attestations", folder, place);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/attestations/%s.json", folder, place, id);
    assert_int_equal(json_dump_file(statement, path, JSON_INDENT(1)), 0);
}

static void expect_certified(const char *id, const char *timed) {
    lab_certified done = certify(id, timed);
    if (!done.statement)
        fail_msg("%s: %s", id, done.why.text);
    assert_string_equal(done.kernel, id);
    assert_true(done.checked > 0 && done.timed > 0);
    assert_true(done.worst_share >= 0.0 && done.worst_share <= 1.0);
    keep(done.statement, "fake", id);
    json_decref(done.statement);
}

static lab_judged judged_of(const char *place, const char *id) {
    lab_evidence evidence;
    lab_judgement judgement;
    lab_message why;
    if (!lab_evidence_read(&evidence, folder, &why) ||
        !lab_evidence_judge(&judgement, &evidence, NULL, &why))
        fail_msg("%s", why.text);
    lab_judged found = {.standing = LAB_STANDINGS};
    for (size_t i = 0; i < judgement.count; i++)
        if (strcmp(judgement.list[i].place, place) == 0 &&
            strcmp(judgement.list[i].kernel, id) == 0)
            found = judgement.list[i];
    if (found.standing == LAB_STANDINGS)
        fail_msg("%s of %s was not judged", id, place);
    if (found.exhibit) {
        static lab_exhibit copy;
        copy = *found.exhibit;
        found.exhibit = &copy;
    }
    lab_judgement_free(&judgement);
    lab_evidence_free(&evidence);
    return found;
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
        const lab_judged judged = judged_of("fake", id);
        if (judged.standing != LAB_PARTIAL) /* of the suites of this test */
            fail_msg("%s: %s", lab_standing_name(judged.standing), judged.why.text);
        assert_int_equal(judged.exhibit->attestation.cc, 90);
        assert_string_equal(judged.exhibit->attestation.device, "Fake GPU 0");
        assert_false(judged.exhibit->is_signed);
    }
    const lab_judged other = judged_of("fake", first_of_role(ATT_ROLE_SMALL));
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

static void test_wants__production_kernels_of_the_device__by_pattern(void **state) {
    (void)state;
    const size_t plain = row_of(first_of_role(ATT_ROLE_PLAIN)), rung = row_of("naive_sm80");
    assert_true(lab_certify_wants(gpu, plain, NULL));
    assert_true(lab_certify_wants(gpu, plain, "fwd_*"));
    assert_false(lab_certify_wants(gpu, plain, "decode_*"));
    assert_false(lab_certify_wants(gpu, rung, NULL));
    assert_false(lab_certify_wants(gpu, row_of("fwd_cpu_portable"), NULL));
    assert_true(lab_certify_wants(cpu, row_of("fwd_cpu_portable"), "*_portable"));
    assert_false(lab_certify_wants(cpu, plain, NULL));
}

static size_t count_served(const lab_suite *suite, const char *id, bool forced) {
    /* A row without evidence is on its way to some: it is looked at as it will be. */
    const bool unattested = att_registry_row(row_of(id))->unattested;
    const att_context_options options = {.size = sizeof options,
                                         .device = ATT_DEVICE_CUDA,
                                         .kernel = forced ? id : NULL,
                                         .flags = unattested ? ATT_ALLOW_UNATTESTED : 0,
                                         .rows = ""};
    att_context *ctx = NULL;
    size_t count = 0;
    assert_ok(att_context_create(&ctx, &options));
    for (size_t i = 0; i < suite->count; i++) {
        att_plan *plan = NULL;
        if (att_plan_create(&plan, ctx, &suite->specs[i].problem) == ATT_OK)
            count += strcmp(att_plan_kernel(plan), id) == 0;
        att_plan_destroy(plan);
    }
    att_context_destroy(ctx);
    return count;
}

static void test_suites__every_kernel__has_problems_of_its_own(void **state) {
    (void)state;
    lab_suite rows, gpu_suite, timed;
    lab_message why;
    if (!lab_suite_read(&rows, SUITES "/rows.txt", &why) ||
        !lab_suite_read(&gpu_suite, SUITES "/gpu.txt", &why) ||
        !lab_suite_read(&timed, SUITES "/certify.txt", &why))
        fail_msg("%s", why.text);
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (!lab_certify_wants(gpu, i, NULL) || row->cuda->role == ATT_ROLE_COMBINE)
            continue;
        if (count_served(&rows, row->id, true) + count_served(&gpu_suite, row->id, false) < 4)
            fail_msg("%s would be verified on fewer than four problems", row->id);
        if (count_served(&timed, row->id, false) == 0)
            fail_msg("%s is chosen for no problem of certify", row->id);
    }
    lab_suite_free(&rows);
    lab_suite_free(&gpu_suite);
    lab_suite_free(&timed);
}

/* A sound statement about a CPU kernel, made without measuring: what it needs to hold together. */
static json_t *statement_of(const char *id) {
    lab_code_digests digests;
    lab_message why;
    const att_kernel_row *row = att_registry_row(row_of(id));
    const int cc = row->cuda ? 90 : 0;
    assert_true(lab_code_digests_of(&digests, row, cc, &why));
    if (row->cuda && !*digests.code)
        snprintf(digests.code, sizeof digests.code, "%s", digests.source);
    json_t *verify =
        json_pack("{s:s, s:{s:f, s:f}, s:{s:f, s:f}}", "outcome", "pass", "error_o", "kernel",
                  0.25, "bar", 1.0, "error_lse", "kernel", 0.0, "bar", 0.0);
    json_t *machine = row->cuda ? json_pack("{s:s, s:{s:s, s:i}}", "processor", "a processor",
                                            "gpu", "name", "A GPU", "compute_capability", cc)
                                : json_pack("{s:s}", "processor", "a processor");
    json_t *predicate = json_pack(
        "{s:s, s:{s:s, s:s}, s:s, s:o, s:{s:s}, s:[{s:O}], s:[{s:o, s:f, "
        "s:[f,f,f]}]}",
        "kernel", id, "suites", "verified", cc ? LAB_CHECKED_GPU : LAB_CHECKED_CPU, "timed",
        cc ? LAB_TIMED_GPU : LAB_TIMED_CPU, "made", "2026-11-15T00:00:00Z", "machine", machine,
        "compiler", "name", digests.compiler, "verified", "verify", verify, "timed", "verify",
        verify, "median_ns", 2.0, "samples_ns", 3.0, 1.0, 2.0);
    assert_non_null(predicate);
    return lab_attestation_make(id, cc, &digests, predicate);
}

static json_t *predicate_of(json_t *statement) {
    return json_object_get(statement, "predicate");
}

static void test_standing__a_sound_statement__is_current(void **state) {
    (void)state;
    json_t *statement = statement_of("fwd_cpu_portable");
    keep(statement, "machine", "fwd_cpu_portable");
    const lab_judged judged = judged_of("machine", "fwd_cpu_portable");
    assert_int_equal(judged.standing, LAB_CURRENT);
    assert_near(judged.exhibit->attestation.worst_share, 0.25, 0.0);
    assert_int_equal(judged.exhibit->attestation.verified, 1);
    json_decref(statement);
}

/* Keep the statement (consumed) as changed; the kernel must then stand so, for that reason. */
static void expect_standing(json_t *statement, lab_standing standing, bool fails,
                            const char *word) {
    keep(statement, "machine", "fwd_cpu_portable");
    json_decref(statement);
    const lab_judged judged = judged_of("machine", "fwd_cpu_portable");
    if (judged.standing != standing || !strstr(judged.why.text, word))
        fail_msg("%s: %s", lab_standing_name(judged.standing), judged.why.text);
    assert_int_equal(lab_judged_fails(&judged), fails);
}

static void set_digest(json_t *statement, size_t subject, const char *sha256) {
    json_t *digest = json_object_get(
        json_array_get(json_object_get(statement, "subject"), subject), "digest");
    json_object_set_new(digest, "sha256", json_string(sha256));
}

static const char other_digest[] =
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static void test_standing__other_sources__are_stale(void **state) {
    (void)state;
    json_t *statement = statement_of("fwd_cpu_portable");
    set_digest(statement, 0, other_digest);
    expect_standing(statement, LAB_STALE, false, "sources have changed");
}

static void test_standing__other_suites__are_partial(void **state) {
    (void)state;
    json_t *statement = statement_of("fwd_cpu_portable");
    json_object_set_new(json_object_get(predicate_of(statement), "suites"), "verified",
                        json_string("seed"));
    write_text("required.txt", "machine portable\n");
    expect_standing(json_deep_copy(statement), LAB_PARTIAL, true, "other suites");
    write_text("required.txt", "machine portable partial\n");
    expect_standing(statement, LAB_PARTIAL, false, "other suites");
    write_text("required.txt", "");
}

static void test_standing__another_compiler__is_said(void **state) {
    (void)state;
    json_t *statement = statement_of("fwd_cpu_portable");
    json_object_set_new(json_object_get(predicate_of(statement), "compiler"), "name",
                        json_string("a compiler"));
    expect_standing(statement, LAB_ELSEWHERE, false, "a compiler");
}

static void test_standing__other_machine_code__is_stale(void **state) {
    (void)state;
    const char *id = first_of_role(ATT_ROLE_PLAIN);
    json_t *statement = statement_of(id);
    set_digest(statement, 0, other_digest);
    keep(statement, "gpu", id);
    lab_judged judged = judged_of("gpu", id);
    assert_int_equal(judged.standing, LAB_STALE);
    assert_non_null(strstr(judged.why.text, "machine code"));
    json_object_set_new(json_object_get(predicate_of(statement), "compiler"), "name",
                        json_string("nvcc of tomorrow"));
    keep(statement, "gpu", id);
    judged = judged_of("gpu", id);
    assert_int_equal(judged.standing, LAB_ELSEWHERE);
    json_decref(statement);
}

static void test_tampered__files__fail_with_the_field(void **state) {
    (void)state;
    json_t *s = statement_of("fwd_cpu_portable");
    json_t *timed = json_array_get(json_object_get(predicate_of(s), "timed"), 0);
    json_object_set_new(timed, "median_ns", json_real(1.0));
    expect_standing(s, LAB_STALE, true, "median_ns");

    s = statement_of("fwd_cpu_portable");
    timed = json_array_get(json_object_get(predicate_of(s), "timed"), 0);
    json_array_clear(json_object_get(timed, "samples_ns"));
    expect_standing(s, LAB_STALE, true, "samples_ns");

    s = statement_of("fwd_cpu_portable");
    timed = json_array_get(json_object_get(predicate_of(s), "timed"), 0);
    json_array_set_new(json_object_get(timed, "samples_ns"), 0, json_null());
    expect_standing(s, LAB_STALE, true, "samples_ns");

    s = statement_of("fwd_cpu_portable");
    json_t *verify = json_object_get(
        json_array_get(json_object_get(predicate_of(s), "verified"), 0), "verify");
    json_object_set_new(json_object_get(verify, "error_o"), "kernel", json_real(1.5));
    expect_standing(s, LAB_STALE, true, "above its bar");

    s = statement_of("fwd_cpu_portable");
    verify = json_object_get(json_array_get(json_object_get(predicate_of(s), "verified"), 0),
                             "verify");
    json_object_set_new(verify, "outcome", json_string("fail"));
    expect_standing(s, LAB_STALE, true, "did not pass");

    s = statement_of("fwd_cpu_portable");
    json_object_set_new(predicate_of(s), "verified", json_array());
    expect_standing(s, LAB_STALE, true, "verified");

    s = statement_of("fwd_cpu_portable");
    json_object_set_new(predicate_of(s), "timed", json_array());
    expect_standing(s, LAB_STALE, true, "timed");

    s = statement_of("fwd_cpu_portable");
    set_digest(s, 0, "short");
    expect_standing(s, LAB_STALE, true, "no digest");

    s = statement_of("fwd_cpu_portable");
    json_object_set_new(s, "_type", json_string("https://example.org"));
    expect_standing(s, LAB_STALE, true, "_type");

    s = statement_of("fwd_cpu_portable");
    json_object_del(predicate_of(s), "made");
    expect_standing(s, LAB_STALE, true, "made");

    s = statement_of("fwd_cpu_portable");
    json_array_clear(json_object_get(s, "subject"));
    expect_standing(s, LAB_STALE, true, "not among the subjects");

    expect_standing(statement_of("fwd_cpu_avx2"), LAB_STALE, true, "is of fwd_cpu_avx2");

    expect_standing(json_array(), LAB_STALE, true, "_type");
    write_text("machine/attestations/fwd_cpu_portable.json", "{\"_type\": ");
    lab_judged judged = judged_of("machine", "fwd_cpu_portable");
    assert_true(lab_judged_fails(&judged));

    s = statement_of("fwd_cpu_portable");
    json_object_set_new(predicate_of(s), "kernel", json_string("fwd_forgotten"));
    json_object_set_new(json_array_get(json_object_get(s, "subject"), 0), "name",
                        json_string("fwd_forgotten.source"));
    keep(s, "machine", "fwd_forgotten");
    judged = judged_of("machine", "fwd_forgotten");
    assert_int_equal(judged.standing, LAB_STALE);
    assert_non_null(strstr(judged.why.text, "no such kernel"));
    json_object_set_new(predicate_of(s), "peer", json_object());
    json_object_set_new(json_array_get(json_object_get(s, "subject"), 0), "name",
                        json_string("fwd_forgotten.library"));
    keep(s, "machine", "fwd_forgotten");
    judged = judged_of("machine", "fwd_forgotten");
    assert_int_equal(judged.standing, LAB_ELSEWHERE);
    assert_false(lab_judged_fails(&judged));
    json_decref(s);
}

static void test_required__missing_and_stale__fail(void **state) {
    (void)state;
    write_text("required.txt", "# devices\nmachine portable # a CPU\n");
    json_t *statement = statement_of("fwd_cpu_portable");
    keep(statement, "machine", "fwd_cpu_portable");
    lab_judged judged = judged_of("machine", "fwd_cpu_portable");
    assert_true(judged.required && !lab_judged_fails(&judged));
    judged = judged_of("machine", "decode_cpu_portable");
    assert_int_equal(judged.standing, LAB_MISSING);
    assert_true(lab_judged_fails(&judged));
    set_digest(statement, 0, other_digest);
    expect_standing(statement, LAB_STALE, true, "sources have changed");

    write_text("required.txt", "h100 sm_90\n");
    judged = judged_of("h100", first_of_role(ATT_ROLE_DECODE));
    assert_true(lab_judged_fails(&judged));
    write_text("required.txt", "");
}

static void expect_bad_list(const char *text) {
    lab_evidence evidence;
    lab_message why;
    write_text("required.txt", text);
    assert_false(lab_evidence_read(&evidence, folder, &why));
    assert_non_null(strstr(why.text, "required.txt:1"));
    write_text("required.txt", "");
}

static void test_required__a_bad_list__is_refused(void **state) {
    (void)state;
    expect_bad_list("h200\n");
    expect_bad_list("h200 sm_90 more\n");
    expect_bad_list("h200 sm_75\n");
    expect_bad_list("h200 auto\n");
    lab_evidence evidence;
    lab_message why;
    assert_false(lab_evidence_read(&evidence, "/nonexistent", &why));
    assert_false(lab_evidence_read(&evidence, "/dev/null", &why));
    setenv("ATTEST_EVIDENCE", folder, 1);
    assert_true(lab_evidence_read(&evidence, NULL, &why));
    assert_string_equal(evidence.folder, folder);
    lab_evidence_free(&evidence);
    unsetenv("ATTEST_EVIDENCE");
}

static void test_injection__each_variable__is_found(void **state) {
    (void)state;
    static const char *const names[] = {"LD_AUDIT", "CUDA_INJECTION64_PATH",
                                        "NVIDIA_TF32_OVERRIDE", "ATTEST_JIT"};
    lab_message why;
    const char *driver = getenv("ATTEST_LIBCUDA");
    assert_true(lab_injection_found(&why)); /* the driver that is none */
    assert_non_null(strstr(why.text, "ATTEST_LIBCUDA"));
    char *kept = strdup(driver);
    unsetenv("ATTEST_LIBCUDA");
    unsetenv("ATTEST_LIBNVRTC");
    assert_false(lab_injection_found(&why));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        setenv(names[i], "1", 1);
        assert_true(lab_injection_found(&why));
        assert_non_null(strstr(why.text, names[i]));
        setenv(names[i], "", 1);
        assert_false(lab_injection_found(&why));
        unsetenv(names[i]);
    }
    setenv("ATTEST_LIBCUDA", kept, 1);
    free(kept);
}

static void test_place__full_names__become_short(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"NVIDIA H200", "h200"},
        {"NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"},
        {"NVIDIA GeForce RTX 4090", "rtx-4090"},
        {"Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "xeon-platinum-8481c-2-70ghz"},
        {"", "device"},
        {"../..", "device"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char place[64];
        lab_place_name(names[i][0], place, sizeof place);
        assert_string_equal(place, names[i][1]);
    }
}

static void test_spawn__programs__are_heard(void **state) {
    (void)state;
    lab_child child;
    lab_message why;
    bool missing;
    const char *const both[] = {"sh", "-c", "cat; echo two >&2; exit 7", NULL};
    write_text("input", "one");
    char input[1024];
    snprintf(input, sizeof input, "%s/input", folder);
    assert_true(lab_spawn(&child, both, input, &missing, &why));
    assert_int_equal(child.status, 7);
    assert_string_equal(child.out, "one");
    assert_string_equal(child.error, "two\n");
    lab_child_free(&child);

    const char *const killed[] = {"sh", "-c", "kill -9 $$", NULL};
    assert_true(lab_spawn(&child, killed, NULL, NULL, &why));
    assert_int_equal(child.status, 128 + 9);
    assert_string_equal(child.out, "");
    lab_child_free(&child);

    const char *const much[] = {"sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x", NULL};
    assert_true(lab_spawn(&child, much, NULL, NULL, &why));
    assert_int_equal(strlen(child.out), 3000000);
    lab_child_free(&child);

    const char *const absent[] = {"/nonexistent/program", NULL};
    assert_false(lab_spawn(&child, absent, NULL, &missing, &why));
    assert_true(missing);
    assert_non_null(strstr(why.text, "/nonexistent/program"));
}

static int set_up(void **state) {
    (void)state;
    fake = use_fake_cuda();
    use_no_nvrtc();
    fake->run = compute;
    if (!mkdtemp(folder))
        return -1;
    const att_context_options on_cpu = {
        .size = sizeof on_cpu, .device = ATT_DEVICE_CPU, .threads = 2};
    const att_context_options on_gpu = {.size = sizeof on_gpu, .device = ATT_DEVICE_CUDA};
    assert_ok(att_context_create(&cpu, &on_cpu));
    assert_ok(att_context_create(&gpu, &on_gpu));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    att_context_destroy(cpu);
    att_context_destroy(gpu);
    const char *const clear[] = {"rm", "-rf", folder, NULL};
    lab_child child;
    lab_message why;
    const bool ok = lab_spawn(&child, clear, NULL, NULL, &why);
    lab_child_free(&child);
    return ok ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certify__every_role__gives_a_statement_that_holds),
        cmocka_unit_test(test_certify__a_wrong_answer__gives_none),
        cmocka_unit_test(test_certify__no_problem_for_it__is_impossible),
        cmocka_unit_test(test_wants__production_kernels_of_the_device__by_pattern),
        cmocka_unit_test(test_suites__every_kernel__has_problems_of_its_own),
        cmocka_unit_test(test_standing__a_sound_statement__is_current),
        cmocka_unit_test(test_standing__other_sources__are_stale),
        cmocka_unit_test(test_standing__other_suites__are_partial),
        cmocka_unit_test(test_standing__another_compiler__is_said),
        cmocka_unit_test(test_standing__other_machine_code__is_stale),
        cmocka_unit_test(test_tampered__files__fail_with_the_field),
        cmocka_unit_test(test_required__missing_and_stale__fail),
        cmocka_unit_test(test_required__a_bad_list__is_refused),
        cmocka_unit_test(test_injection__each_variable__is_found),
        cmocka_unit_test(test_place__full_names__become_short),
        cmocka_unit_test(test_spawn__programs__are_heard),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
