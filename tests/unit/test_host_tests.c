/* test_host_tests.c: results of the GPU tests turned into a statement, and the statement
 * compared with this build. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/evidence/code_digest.h"
#include "lab/evidence/evidence_judge.h"
#include "lab/evidence/host_tests.h"
#include "tests/support/check.h"
#include "tests/support/fakes.h"

static att_context *gpu;
static char folder[] = "/tmp/attest_host_XXXXXX";
static char program[ATT_SHA256_HEX];

#define PLACE "fake-gpu-0"

/* A library without machine code has no GPU for this purpose. */
#define NEEDS_GPU()                                                                            \
    do {                                                                                       \
        if (!gpu)                                                                              \
            skip();                                                                            \
    } while (0)

static const char *path_of(const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The output of gpu_tests.sh; `parts` follows the head. */
static json_t *make(const char *tests, const char *by, const char *name, const char *parts,
                    lab_message *why) {
    FILE *file = fopen(path_of("results.txt"), "w");
    assert_non_null(file);
    fprintf(file, "tests\t%s\nprogram\t%s\ngpu\tGPU 0   %s: 132 SMs\n%s", tests, by, name,
            parts);
    fclose(file);
    return lab_host_tests_make(path_of("results.txt"), gpu, why);
}

static const char all_parts[] =
    "part\tsuites\nstep\tverify seed\t8\t0\t0\t1\nstep\tverify quick\t29\t0\t18\t2\n"
    "part\trows\nstep\tr\t1\t0\t3\t1\npart\thopper\nstep\th\t1\t0\t0\t1\n"
    "part\tvariants\nstep\tv\t1\t0\t0\t1\npart\thopper_variants\nstep\thv\t1\t0\t0\t1\n"
    "part\tprograms\nstep\tp\t1\t0\t0\t1\npart\tmeasurement\nstep\tm\t1\t0\t0\t1\n"
    "part\tpython\nskipped\tno PyTorch\n";

static json_t *sound(void) {
    lab_message why = {.text = ""};
    json_t *statement =
        make(lab_built_digest("gpu_tests"), program, "Fake GPU 0", all_parts, &why);
    if (!statement)
        fail_msg("%s", why.text);
    return statement;
}

static void expect_none(const char *tests, const char *by, const char *name, const char *parts,
                        const char *word) {
    lab_message why = {.text = ""};
    assert_null(make(tests, by, name, parts, &why));
    if (!strstr(why.text, word))
        fail_msg("\"%s\" does not say \"%s\"", why.text, word);
}

static void test_make__results__become_a_statement(void **state) {
    (void)state;
    NEEDS_GPU();
    json_t *s = sound();
    const json_t *parts = json_object_get(json_object_get(s, "predicate"), "parts");
    assert_int_equal(json_array_size(parts), 8);
    assert_int_equal(
        json_integer_value(json_object_get(
            json_array_get(json_object_get(json_array_get(parts, 0), "steps"), 1), "refused")),
        18);
    json_decref(s);
}

static void test_make__of_other_things__gives_none(void **state) {
    (void)state;
    NEEDS_GPU();
    const char *tests = lab_built_digest("gpu_tests");
    const char *other = lab_built_digest("judge");
    expect_none(other, program, "Fake GPU 0", all_parts, "the tests are not those");
    expect_none(tests, other, "Fake GPU 0", all_parts, "another program");
    expect_none(tests, program, "NVIDIA H200", all_parts, "another GPU");
    expect_none(tests, program, "Fake GPU 0", "part\tsuites\nstep\tx\t3\t1\t0\t1\n",
                "x: 3 passed, 1 failed");
    expect_none(tests, program, "Fake GPU 0", "part\tsuites\nstep\tx\t0\t0\t4\t1\n",
                "x: 0 passed");
    expect_none(tests, program, "Fake GPU 0", "part\tsuites\nstep\tx\t3\t0\t0\t1\n",
                "the part 'rows' is missing");
    expect_none(tests, program, "Fake GPU 0", "part\tsuites\nskipped\twhy\n",
                "the part 'suites' is missing");
    expect_none(tests, program, "Fake GPU 0", "nonsense\n", "is not a line of results");
    expect_none(tests, program, "Fake GPU 0", "part\tsuites\xff\n",
                "results.txt:4: is not text");
    expect_none(tests, program, "Fake GPU 0", "part\tsuites\nskipped\t\xc3\n", "is not text");
    lab_message why;
    assert_null(lab_host_tests_make("/nonexistent/results", gpu, &why));
}

/* Store the statement (consumed); it must then have this standing, for that reason. */
static void expect_standing(json_t *statement, lab_host_standing standing, const char *word) {
    lab_message why;
    char path[1024];
    snprintf(path, sizeof path, "%s", path_of(PLACE "/host.json"));
    assert_int_equal(json_dump_file(statement, path, JSON_INDENT(1)), 0);
    json_decref(statement);
    if (lab_host_tests_judge(path, PLACE, &why) != standing || !strstr(why.text, word))
        fail_msg("%s", why.text);
}

static json_t *digest_of(json_t *statement, size_t subject) {
    return json_object_get(json_array_get(json_object_get(statement, "subject"), subject),
                           "digest");
}

static void test_judge__changed_code_or_tests__is_stale(void **state) {
    (void)state;
    NEEDS_GPU();
    expect_standing(sound(), LAB_HOST_CURRENT, "");
    json_t *s = sound();
    json_object_set_new(digest_of(s, 0), "sha256", json_string(program));
    expect_standing(s, LAB_HOST_STALE, "the host code has changed");
    s = sound();
    json_object_set_new(digest_of(s, 1), "sha256", json_string(program));
    expect_standing(s, LAB_HOST_STALE, "tests/gpu has changed");
}

static void test_judge__forged__is_broken(void **state) {
    (void)state;
    NEEDS_GPU();
    json_t *s = sound();
    json_array_remove(json_object_get(json_object_get(s, "predicate"), "parts"), 1);
    expect_standing(s, LAB_HOST_BROKEN, "the part 'rows' is missing");
    s = sound();
    json_t *parts = json_object_get(json_object_get(s, "predicate"), "parts");
    json_object_set_new(json_array_get(json_object_get(json_array_get(parts, 0), "steps"), 0),
                        "failed", json_integer(2));
    expect_standing(s, LAB_HOST_BROKEN, "parts[0].steps[0].failed: something failed");
    s = sound();
    json_object_set_new(
        json_object_get(json_object_get(json_object_get(s, "predicate"), "machine"), "gpu"),
        "name", json_string("NVIDIA H200"));
    expect_standing(s, LAB_HOST_BROKEN, "belongs in the folder h200");
    s = sound();
    json_object_del(json_object_get(s, "predicate"), "program_sha256");
    expect_standing(s, LAB_HOST_BROKEN, "program_sha256: is missing");
}

static lab_judged_file file_of(const char *name, const char *signers) {
    lab_evidence evidence;
    lab_judgement judgement;
    lab_message why;
    if (!lab_evidence_read(&evidence, folder, &why) ||
        !lab_evidence_judge(&judgement, &evidence, signers, &why))
        fail_msg("%s", why.text);
    lab_judged_file found = {.name = ""};
    for (size_t i = 0; i < judgement.file_count; i++)
        if (strcmp(judgement.files[i].name, name) == 0)
            found = judgement.files[i];
    lab_judgement_free(&judgement);
    lab_evidence_free(&evidence);
    return found;
}

/* A GPU whose evidence is required must have a statement of this host code. */
static void test_required__no_host_tests__fails(void **state) {
    (void)state;
    NEEDS_GPU();
    FILE *file = fopen(path_of("required.txt"), "w");
    fputs(PLACE " sm_90\n", file);
    fclose(file);
    unlink(path_of(PLACE "/host.json"));
    assert_true(file_of(PLACE "/host.json", NULL).fails);
    expect_standing(sound(), LAB_HOST_CURRENT, "");
    assert_string_equal(file_of(PLACE "/host.json", NULL).name, PLACE "/host.json");
    assert_false(file_of(PLACE "/host.json", NULL).fails);
    json_t *s = sound();
    json_object_set_new(digest_of(s, 0), "sha256", json_string(program));
    expect_standing(s, LAB_HOST_STALE, "the host code has changed");
    assert_true(file_of(PLACE "/host.json", NULL).fails);
}

/* The key is nobody's: a file without a signature fails before it is used. */
static void test_signers__unsigned_statement__fails(void **state) {
    (void)state;
    NEEDS_GPU();
    FILE *file = fopen(path_of("signers"), "w");
    fputs("lab@example.org ssh-ed25519 AAAA\n", file);
    fclose(file);
    expect_standing(sound(), LAB_HOST_CURRENT, "");
    char signers[1024];
    snprintf(signers, sizeof signers, "%s", path_of("signers"));
    assert_false(file_of(PLACE "/host.json", NULL).fails);
    const lab_judged_file host = file_of(PLACE "/host.json", signers);
    assert_true(host.fails);
    assert_non_null(strstr(host.why.text, "host.json: is not signed"));
}

static int set_up(void **state) {
    (void)state;
    use_fake_cuda();
    use_no_nvrtc();
    setenv("ATTEST_SUITES", SUITES, 1);
    const att_context_options on_gpu = {.size = sizeof on_gpu, .device = ATT_DEVICE_CUDA};
    if (!mkdtemp(folder) || mkdir(path_of(PLACE), 0777) != 0)
        return -1;
    if (att_context_create(&gpu, &on_gpu) != ATT_OK)
        gpu = NULL;
    return lab_file_digest("/proc/self/exe", program) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    static const char *const names[] = {"results.txt", "required.txt", "signers",
                                        PLACE "/host.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(path_of(names[i]));
    rmdir(path_of(PLACE));
    rmdir(folder);
    att_context_destroy(gpu);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_make__results__become_a_statement),
        cmocka_unit_test(test_make__of_other_things__gives_none),
        cmocka_unit_test(test_judge__changed_code_or_tests__is_stale),
        cmocka_unit_test(test_judge__forged__is_broken),
        cmocka_unit_test(test_required__no_host_tests__fails),
        cmocka_unit_test(test_signers__unsigned_statement__fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
