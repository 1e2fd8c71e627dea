/* test_statements.c: statements about kernels read back, sound and tampered with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/base/machine.h"
#include "lab/base/spawn.h"
#include "lab/evidence/certify.h"
#include "lab/evidence/evidence_judge.h"
#include "lab/evidence/place.h"
#include "lab/measure/injection.h"
#include "lab/problem/problem_json.h"
#include "tests/support/check.h"
#include "tests/support/evidence_folder.h"
#include "tests/support/fakes.h"

#define PLACE "machine-amx" /* of the processor in statement_of() */

static json_t *error_of(double plain, double largest, double bar) {
    return json_pack("{s:f, s:f, s:f, s:f}", "kernel", 0.25 * bar, "plain", plain, "largest",
                     largest, "bar", bar);
}

/* An entry about a problem as certify would write it, with errors of a quarter of their
 * bars. */
static json_t *entry_of(const lab_spec *spec, const char *kernel, const char *code) {
    const lab_outputs outputs = spec->operation->outputs(spec);
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    json_t *entry = json_pack(
        "{s:s, s:{s:s, s:[i,i,i], s:s}, s:{s:s, s:i, s:i}}", "problem", line, "launch",
        "kernel", spec->operation->is_void(spec) ? "" : kernel, "grid", 1, 1, 1, "code_sha256",
        code, "verify", "outcome", "pass", "rows_checked", 1, "rows_total", 1);
    for (int i = 0; i < outputs.count; i++) {
        const lab_output *output = &outputs.list[i];
        const double plain = output->is_log ? 1e-6 : 0.001,
                     largest = output->is_log ? 7.0 : 1.5;
        char name[32];
        snprintf(name, sizeof name, "error_%s", output->name);
        json_object_set_new(json_object_get(entry, "verify"), name,
                            output->absent
                                ? error_of(0.0, 0.0, 0.0)
                                : error_of(plain, largest, lab_bar_of(output, plain, largest)));
    }
    return entry;
}

/* The same for the kernel that a launch names: another one if the kernel only helps. */
static json_t *entry_for(const lab_chooser *chooser, const lab_spec *spec, const char *code) {
    const att_kernel_row *row = chooser->row;
    lab_code_digests digests = {.code = ""};
    if (lab_row_helps(row)) {
        row = lab_chooser_choice(chooser, spec);
        assert_true(lab_code_digests_of(&digests, row, chooser->gpu.cc, NULL));
        code = digests.code;
    }
    return entry_of(spec, row->id, code);
}

static void add_problems(json_t *predicate, const lab_chooser *chooser, bool on_gpu,
                         const char *code) {
    lab_suite_set set;
    lab_message why;
    json_t *verified = json_array(), *timed = json_array();
    if (!lab_suite_set_read(&set, on_gpu, NULL, NULL, &why))
        fail_msg("%s", why.text);
    const lab_spec *spec, **list = calloc(set.timed.count, sizeof *list);
    assert_non_null(list);
    for (size_t at = 0; (spec = lab_chooser_next_checked(chooser, &set, &at));)
        json_array_append_new(verified, entry_for(chooser, spec, code));
    const size_t count = lab_chooser_timed(chooser, &set, list);
    for (size_t i = 0; i < count; i++) {
        json_t *entry = entry_for(chooser, list[i], code);
        json_object_update_new(
            entry,
            json_pack("{s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:[f,f,f]}", "median_ns", 2e9,
                      "low_ns", 1e9, "high_ns", 3e9, "floor_ns", 1e6, "calls_per_sample", 1,
                      "discarded", 0, "power_capped", 0, "samples_ns", 3e9, 1e9, 2e9));
        json_array_append_new(timed, entry);
    }
    free(list);
    lab_suite_set_free(&set);
    json_object_set_new(predicate, "verified", verified);
    json_object_set_new(predicate, "timed", timed);
}

/* A sound statement, made without measuring: what it needs to be consistent. */
static json_t *statement_of(const char *id) {
    lab_code_digests digests;
    lab_message why;
    const att_kernel_row *row = att_registry_row(kernel_index(id));
    const int cc = row->cuda ? 90 : 0;
    assert_true(lab_code_digests_of(&digests, row, cc, &why));
    if (row->cuda && !*digests.code)
        snprintf(digests.code, sizeof digests.code, "%s", digests.source);
    json_t *machine =
        row->cuda
            ? json_pack("{s:s, s:s, s:{s:s, s:s, s:i, s:i}}", "processor", "a processor",
                        "device", "cuda", "gpu", "name", "NVIDIA H200", "uuid",
                        "GPU-00000000-0000-0000-0000-000000000000", "compute_capability", cc,
                        "multiprocessors", 132)
            : json_pack("{s:s, s:s, s:i, s:s, s:s}", "processor", "Machine", "device", "cpu",
                        "threads", 2, "isa", lab_isa_name(row->isa), "isa_machine", "amx");
    json_t *predicate = json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:s, s:s, s:o, s:{s:s, s:s, s:s, s:s}, s:{s:s, s:s, s:s}, "
        "s:i, s:{}}",
        "kernel", id, "role", att_row_role(row), "suites", "verified",
        cc ? LAB_CHECKED_GPU : LAB_CHECKED_CPU, "timed", cc ? LAB_TIMED_GPU : LAB_TIMED_CPU,
        "made", "2026-11-15T00:00:00Z", "attest", "0.1.0", "machine", machine, "compiler",
        "name", digests.compiler, "flags", "", "options", "", "host", "", "harness",
        "judge_sha256", lab_built_digest("judge"), "clock_sha256", lab_built_digest("clock"),
        "program_sha256", digests.source, "seed", 0, "environment");
    assert_non_null(predicate);
    lab_chooser chooser = {.row = row};
    if (cc)
        assert_true(lab_chooser_set_gpu(&chooser, "NVIDIA H200", cc, 132));
    add_problems(predicate, &chooser, cc > 0, digests.code);
    return lab_attestation_make(id, cc, &digests, predicate);
}

static json_t *predicate_of(json_t *statement) {
    return json_object_get(statement, "predicate");
}

static void test_standing__a_sound_statement__is_current(void **state) {
    (void)state;
    json_t *statement = statement_of("fwd_cpu_portable");
    keep_statement(statement, PLACE, "fwd_cpu_portable");
    const lab_judged judged = judged_statement(PLACE, "fwd_cpu_portable");
    assert_int_equal(judged.standing, LAB_CURRENT);
    assert_near(judged.exhibit->attestation.worst_share, 0.25, 1e-9);
    assert_int_equal(judged.exhibit->attestation.verified,
                     json_array_size(json_object_get(predicate_of(statement), "verified")));
    json_decref(statement);
}

/* Store the changed statement (consumed); the kernel must then have this standing, for that
 * reason. */
static void expect_standing(json_t *statement, lab_standing standing, bool fails,
                            const char *word) {
    keep_statement(statement, PLACE, "fwd_cpu_portable");
    json_decref(statement);
    const lab_judged judged = judged_statement(PLACE, "fwd_cpu_portable");
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
    write_evidence("required.txt", PLACE " portable\n");
    expect_standing(json_deep_copy(statement), LAB_PARTIAL, true, "other suites");
    write_evidence("required.txt", PLACE " portable partial\n");
    expect_standing(statement, LAB_PARTIAL, false, "other suites");
    write_evidence("required.txt", "");
}

static void test_standing__another_compiler__is_said(void **state) {
    (void)state;
    json_t *statement = statement_of("fwd_cpu_portable");
    json_object_set_new(json_object_get(predicate_of(statement), "compiler"), "name",
                        json_string("a compiler"));
    expect_standing(statement, LAB_ELSEWHERE, false, "a compiler");
}

static void set_launches(json_t *statement, const char *list, const char *sha256) {
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(predicate_of(statement), list), i, entry)
        json_object_set_new(json_object_get(entry, "launch"), "code_sha256",
                            json_string(sha256));
}

static void test_standing__other_machine_code__is_stale(void **state) {
    (void)state;
    const char *id = first_of_role(ATT_ROLE_PLAIN);
    json_t *statement = statement_of(id);
    set_digest(statement, 0, other_digest);
    set_launches(statement, "verified", other_digest);
    set_launches(statement, "timed", other_digest);
    keep_statement(statement, "h200", id);
    lab_judged judged = judged_statement("h200", id);
    assert_int_equal(judged.standing, LAB_STALE);
    assert_non_null(strstr(judged.why.text, "machine code"));
    json_object_set_new(json_object_get(predicate_of(statement), "compiler"), "name",
                        json_string("nvcc of tomorrow"));
    keep_statement(statement, "h200", id);
    judged = judged_statement("h200", id);
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
    expect_standing(s, LAB_STALE, true, "is not a digest");

    s = statement_of("fwd_cpu_portable");
    json_object_set_new(s, "_type", json_string("https://example.org"));
    expect_standing(s, LAB_STALE, true, "_type");

    s = statement_of("fwd_cpu_portable");
    json_object_del(predicate_of(s), "made");
    expect_standing(s, LAB_STALE, true, "made");

    s = statement_of("fwd_cpu_portable");
    json_array_clear(json_object_get(s, "subject"));
    expect_standing(s, LAB_STALE, true, "not among the subjects");

    expect_standing(statement_of("fwd_cpu_avx2"), LAB_STALE, true, "is that of fwd_cpu_avx2");

    expect_standing(json_array(), LAB_STALE, true, "_type");
    write_evidence(PLACE "/attestations/fwd_cpu_portable.json", "{\"_type\": ");
    lab_judged judged = judged_statement(PLACE, "fwd_cpu_portable");
    assert_true(lab_judged_fails(&judged));

    s = statement_of("fwd_cpu_portable");
    json_object_set_new(predicate_of(s), "kernel", json_string("fwd_forgotten"));
    json_object_set_new(json_array_get(json_object_get(s, "subject"), 0), "name",
                        json_string("fwd_forgotten.source"));
    keep_statement(s, PLACE, "fwd_forgotten");
    judged = judged_statement(PLACE, "fwd_forgotten");
    assert_int_equal(judged.standing, LAB_STALE);
    assert_non_null(strstr(judged.why.text, "no such kernel"));
    json_object_set_new(predicate_of(s), "peer", json_object());
    json_object_set_new(predicate_of(s), "role", json_string("peer"));
    json_object_set_new(json_array_get(json_object_get(s, "subject"), 0), "name",
                        json_string("fwd_forgotten.library"));
    keep_statement(s, PLACE, "fwd_forgotten");
    judged = judged_statement(PLACE, "fwd_forgotten");
    assert_int_equal(judged.standing, LAB_ELSEWHERE);
    assert_false(lab_judged_fails(&judged));
    json_decref(s);
}

static json_t *entry_at(json_t *statement, const char *list, size_t i) {
    return json_array_get(json_object_get(predicate_of(statement), list), i);
}

static json_t *error_at(json_t *statement, size_t i) {
    return json_object_get(json_object_get(entry_at(statement, "verified", i), "verify"),
                           "error_o");
}

/* What a forger would try first. Each error names the file and the field. */
static void test_forged__numbers__fail_with_the_field(void **state) {
    (void)state;
    static const lab_output float32 = {.dtype = ATT_F32};
    json_t *s = statement_of("fwd_cpu_portable");
    json_object_set_new(error_at(s, 3), "bar", json_real(1e9));
    expect_standing(s, LAB_STALE, true, "verified[3].verify.error_o.bar: does not follow");

    s = statement_of("fwd_cpu_portable"); /* a bar that follows, from an impossible error */
    json_object_set_new(error_at(s, 3), "plain", json_real(5e8));
    json_object_set_new(error_at(s, 3), "bar", json_real(lab_bar_of(&float32, 5e8, 1.5)));
    expect_standing(s, LAB_STALE, true, "verified[3].verify.error_o");

    s = statement_of("fwd_cpu_portable");
    json_object_del(error_at(s, 0), "largest");
    expect_standing(s, LAB_STALE, true, "error_o.largest: is missing");

    s = statement_of("fwd_cpu_portable");
    json_object_set_new(entry_at(s, "timed", 0), "floor_ns", json_real(2.5e9));
    expect_standing(s, LAB_STALE, true, "timed[0].median_ns: is below the floor");

    s = statement_of("fwd_cpu_portable");
    json_object_set_new(json_object_get(entry_at(s, "verified", 0), "verify"), "rows_checked",
                        json_integer(0));
    expect_standing(s, LAB_STALE, true, "rows_checked");
}

/* A statement about fwd_cpu_portable beside one about fwd_cpu_avx2, which was run on the same
 * problems. */
static json_t *statement_beside_another(void) {
    json_t *other = statement_of("fwd_cpu_avx2");
    keep_statement(other, PLACE, "fwd_cpu_avx2");
    json_decref(other);
    return statement_of("fwd_cpu_portable");
}

/* A bar that follows from the recorded numbers, which are not those of the problem. */
static void test_forged__numbers_unlike_other_statements__fail(void **state) {
    (void)state;
    static const lab_output float16 = {.dtype = ATT_F16}, float32 = {.dtype = ATT_F32};
    json_t *s = statement_beside_another();
    keep_statement(s, PLACE, "fwd_cpu_portable");
    const lab_judged judged = judged_statement(PLACE, "fwd_cpu_portable");
    if (judged.standing != LAB_CURRENT)
        fail_msg("%s", judged.why.text);

    const double was = json_real_value(json_object_get(error_at(s, 3), "bar"));
    const bool half = was > lab_bar_of(&float32, 0.001, 1.5) * 1.01;
    json_object_set_new(error_at(s, 3), "largest", json_real(1e4));
    json_object_set_new(error_at(s, 3), "plain", json_real(300.0));
    json_object_set_new(error_at(s, 3), "bar",
                        json_real(lab_bar_of(half ? &float16 : &float32, 300.0, 1e4)));
    expect_standing(s, LAB_STALE, true, "verified[3].verify.error_o.bar: is 6");

    static const char *const rows[] = {"rows_checked", "rows_total"};
    for (int i = 0; i < 2; i++) { /* one row of many; many rows of a few */
        s = statement_beside_another();
        json_t *verify = json_object_get(entry_at(s, "verified", 4), "verify");
        json_object_set_new(verify, "rows_total", json_integer(1000));
        if (i)
            json_object_set_new(verify, "rows_checked", json_integer(1000));
        expect_standing(s, LAB_STALE, true, "verified[4].verify.rows_total: is 1000, but 1");
        s = statement_beside_another();
        verify = json_object_get(entry_at(s, "verified", 4), "verify");
        json_object_set_new(verify, rows[i], json_real(0.5));
        expect_standing(s, LAB_STALE, true, "verified[4].verify.rows_checked");
    }
}

static void test_forged__no_rows__fail(void **state) {
    (void)state;
    json_t *s = statement_of("fwd_cpu_portable");
    json_t *verify = json_object_get(entry_at(s, "verified", 0), "verify");
    json_object_set_new(verify, "rows_total", json_integer(0));
    json_object_set_new(verify, "rows_checked", json_integer(0));
    expect_standing(s, LAB_STALE, true, "no row was checked");
}

/* Another seed gives other inputs, so nothing could be compared. */
static void test_forged__another_seed__is_partial(void **state) {
    (void)state;
    write_evidence("required.txt", PLACE " portable\n");
    json_t *s = statement_of("fwd_cpu_portable");
    json_object_set_new(predicate_of(s), "seed", json_integer(5));
    expect_standing(s, LAB_PARTIAL, true, "another seed");
    s = statement_of("fwd_cpu_portable");
    json_object_set_new(predicate_of(s), "seed", json_real(0.5));
    expect_standing(s, LAB_STALE, true, "seed: expected a whole number");
    write_evidence("required.txt", "");
}

static void expect_forged_time(const char *field, double value, const char *word) {
    json_t *s = statement_of("fwd_cpu_portable");
    json_object_set_new(entry_at(s, "timed", 0), field, json_real(value));
    expect_standing(s, LAB_STALE, true, word);
}

static void test_forged__times__fail(void **state) {
    (void)state;
    expect_forged_time("low_ns", 2.5e9, "low_ns: it and high_ns do not enclose the median");
    expect_forged_time("high_ns", 1.5e9, "low_ns: it and high_ns do not enclose the median");
    expect_forged_time("calls_per_sample", 0.0, "calls_per_sample: is out of range");
    expect_forged_time("discarded", -1.0, "discarded: is out of range");

    json_t *s = statement_of("fwd_cpu_portable"); /* faster than a processor can be */
    json_t *timed = entry_at(s, "timed", 0);
    static const char *const times[] = {"median_ns", "low_ns", "high_ns"};
    for (size_t i = 0; i < 3; i++)
        json_object_set_new(timed, times[i], json_real(59.0));
    json_object_set_new(timed, "samples_ns", json_pack("[f]", 59.0));
    json_object_set_new(timed, "floor_ns", json_real(0.0));
    expect_standing(s, LAB_STALE, true, "median_ns: is less than any processor needs");

    s = statement_of("fwd_cpu_portable");
    timed = json_object_get(json_object_get(entry_at(s, "timed", 0), "verify"), "error_o");
    json_object_update_new(timed, json_pack("{s:f, s:f}", "kernel_rms", 0.2, "bar_rms", 0.1));
    expect_standing(s, LAB_STALE, true, "error_o: an average error is above its bar");

    s = statement_of("fwd_cpu_portable"); /* fields that say something else than the spec */
    timed = entry_at(s, "timed", 0);
    lab_spec spec;
    lab_message why;
    const char *line = json_string_value(json_object_get(timed, "problem"));
    assert_true(lab_spec_parse(&spec, line, &why));
    json_t *problem = lab_json_problem(&spec);
    json_object_set_new(problem, "seq_q", json_integer(1 << 20));
    json_object_set_new(timed, "problem", problem);
    expect_standing(s, LAB_STALE, true, "timed[0].problem: its fields are not those");
}

static void test_forged__subjects__fail(void **state) {
    (void)state;
    static const char *const names[] = {"fwd_cpu_portable.source", "fwd_cpu_avx2.source"};
    static const char *const words[] = {
        "subject[1]: there is another subject of this name",
        "subject: has subjects that the statement is not about"};
    for (size_t i = 0; i < 2; i++) {
        json_t *s = statement_of("fwd_cpu_portable");
        json_array_append_new(
            json_object_get(s, "subject"),
            json_pack("{s:s, s:{s:s}}", "name", names[i], "digest", "sha256", other_digest));
        expect_standing(s, LAB_STALE, true, words[i]);
    }
}

/* Problems in which a helping kernel had nothing to do are not verified: those of the others
 * must be. */
static void expect_not_idle(const char *id) {
    json_t *s = statement_of(id);
    keep_statement(s, "h200", id);
    lab_judged judged = judged_statement("h200", id);
    if (judged.standing != LAB_CURRENT)
        fail_msg("%s: %s", id, judged.why.text);
    json_t *verified = json_object_get(predicate_of(s), "verified"), *idle = json_array();
    while (json_array_size(verified) > 1) {
        json_array_append(idle, json_object_get(json_array_get(verified, 1), "problem"));
        json_array_remove(verified, 1);
    }
    assert_true(json_array_size(idle) > 0);
    json_object_set_new(predicate_of(s), "unsplit",
                        json_pack("{s:o, s:[]}", "verified", idle, "timed"));
    keep_statement(s, "h200", id);
    json_decref(s);
    judged = judged_statement("h200", id);
    if (judged.standing != LAB_STALE || !strstr(judged.why.text, "is missing"))
        fail_msg("%s: %s: %s", id, lab_standing_name(judged.standing), judged.why.text);
}

static void test_forged__called_idle__is_stale(void **state) {
    (void)state;
    expect_not_idle(first_of_role(ATT_ROLE_STEP));
    expect_not_idle(first_of_role(ATT_ROLE_COMBINE));
}

static void test_forged__another_kernel_s_numbers__fail(void **state) {
    (void)state;
    json_t *s = statement_of("fwd_cpu_portable"), *other = statement_of("fwd_cpu_avx2");
    json_object_set(predicate_of(s), "verified",
                    json_object_get(predicate_of(other), "verified"));
    json_object_set(predicate_of(s), "timed", json_object_get(predicate_of(other), "timed"));
    json_decref(other);
    expect_standing(s, LAB_STALE, true,
                    "launch.kernel: is fwd_cpu_avx2, expected fwd_cpu_portable");

    s = statement_of("fwd_cpu_portable");
    json_object_del(entry_at(s, "verified", 1), "launch");
    expect_standing(s, LAB_STALE, true, "verified[1].launch.kernel: is missing");
}

static void test_forged__a_shorter_list__is_stale(void **state) {
    (void)state;
    write_evidence("required.txt", PLACE " portable\n");
    json_t *s = statement_of("fwd_cpu_portable");
    json_t *verified = json_object_get(predicate_of(s), "verified");
    while (json_array_size(verified) > 1)
        json_array_remove(verified, json_array_size(verified) - 1);
    expect_standing(s, LAB_STALE, true, "predicate.verified: b");

    s = statement_of("fwd_cpu_portable"); /* one from the middle */
    json_array_remove(json_object_get(predicate_of(s), "verified"), 7);
    expect_standing(s, LAB_STALE, true, "is missing");

    s = statement_of("fwd_cpu_portable"); /* one twice */
    verified = json_object_get(predicate_of(s), "verified");
    json_array_append(verified, json_array_get(verified, 0));
    expect_standing(s, LAB_STALE, true, "attest certify runs");

    s = statement_of("fwd_cpu_portable");
    json_array_remove(json_object_get(predicate_of(s), "timed"), 0);
    expect_standing(s, LAB_STALE, true, "predicate.timed: ");
    write_evidence("required.txt", "");
}

static void test_forged__the_device__fails(void **state) {
    (void)state;
    json_t *s = statement_of("fwd_cpu_portable");
    json_t *machine = json_object_get(predicate_of(s), "machine");
    json_object_set_new(machine, "processor", json_string("Better Machine"));
    expect_standing(s, LAB_STALE, true, "belongs in the folder better-machine-amx");
    s = statement_of("fwd_cpu_portable");
    json_object_set_new(json_object_get(predicate_of(s), "machine"), "isa_machine",
                        json_string("avx2"));
    expect_standing(s, LAB_STALE, true, "belongs in the folder machine-avx2");

    const char *id = first_of_role(ATT_ROLE_PLAIN);
    static const char *const renamed[][2] = {{"NVIDIA H100 80GB HBM3", "folder"},
                                             {"NVIDIA L4", "gpu.name: its compute capability"}};
    for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++) {
        s = statement_of(id);
        machine = json_object_get(predicate_of(s), "machine");
        json_object_set_new(json_object_get(machine, "gpu"), "name",
                            json_string(renamed[i][0]));
        keep_statement(s, "h200", id);
        json_decref(s);
        const lab_judged judged = judged_statement("h200", id);
        if (!lab_judged_fails(&judged) || !strstr(judged.why.text, renamed[i][1]))
            fail_msg("%s: %s", lab_standing_name(judged.standing), judged.why.text);
    }
    s = statement_of(id); /* another number of SMs than an H200 has */
    machine = json_object_get(predicate_of(s), "machine");
    json_object_set_new(json_object_get(machine, "gpu"), "multiprocessors", json_integer(144));
    keep_statement(s, "h200", id);
    json_decref(s);
    const lab_judged judged = judged_statement("h200", id);
    assert_non_null(strstr(judged.why.text, "those of another GPU"));
}

/* On a GPU: code that is not the subject's, and times that the device cannot reach. */
static void test_forged__gpu_numbers__fail(void **state) {
    (void)state;
    const char *id = first_of_role(ATT_ROLE_PLAIN);
    json_t *s = statement_of(id);
    keep_statement(s, "h200", id);
    lab_judged judged = judged_statement("h200", id);
    if (judged.standing != LAB_CURRENT)
        fail_msg("%s", judged.why.text);
    json_object_set_new(entry_at(s, "timed", 0), "floor_ns", json_real(0.5));
    keep_statement(s, "h200", id);
    judged = judged_statement("h200", id);
    assert_non_null(strstr(judged.why.text, "timed[0].floor_ns: is below the least time"));
    json_object_set_new(entry_at(s, "timed", 0), "floor_ns", json_real(1e6));
    json_object_set_new(json_object_get(entry_at(s, "verified", 2), "launch"), "code_sha256",
                        json_string(other_digest));
    keep_statement(s, "h200", id);
    judged = judged_statement("h200", id);
    assert_non_null(strstr(
        judged.why.text, "verified[2].launch.code_sha256: differs from the statement's code"));
    json_decref(s);
}

static void test_forged__fields_left_out__fail_with_the_field(void **state) {
    (void)state;
    static const char *const fields[] = {"harness", "seed",     "environment", "role",
                                         "attest",  "compiler", "machine",     "suites"};
    static const char *const deeper[][2] = {
        {"machine", "threads"}, {"machine", "isa"}, {"harness", "program_sha256"}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_t *s = statement_of("fwd_cpu_portable");
        json_object_del(predicate_of(s), fields[i]);
        expect_standing(s, LAB_STALE, true, fields[i]);
    }
    for (size_t i = 0; i < sizeof deeper / sizeof deeper[0]; i++) {
        json_t *s = statement_of("fwd_cpu_portable");
        json_object_del(json_object_get(predicate_of(s), deeper[i][0]), deeper[i][1]);
        expect_standing(s, LAB_STALE, true, deeper[i][1]);
    }
    json_t *s = statement_of("fwd_cpu_portable");
    json_object_set_new(predicate_of(s), "role", json_string("decode"));
    expect_standing(s, LAB_STALE, true, "role: is decode, expected fwd");
    s = statement_of("fwd_cpu_portable");
    json_object_set_new(predicate_of(s), "made", json_string("yesterday"));
    expect_standing(s, LAB_STALE, true, "made: is not a time");
    s = statement_of("fwd_cpu_portable");
    json_object_set_new(json_object_get(predicate_of(s), "machine"), "isa",
                        json_string("avx2"));
    expect_standing(s, LAB_STALE, true, "machine.isa: is not that of the kernel");
}

static void set_harness(json_t *statement, const char *part, const char *sha256) {
    json_object_set_new(json_object_get(predicate_of(statement), "harness"), part,
                        json_string(sha256));
}

static void test_harness__another_judge__is_stale(void **state) {
    (void)state;
    write_evidence("required.txt", PLACE " portable\n");
    json_t *s = statement_of("fwd_cpu_portable");
    set_harness(s, "judge_sha256", other_digest);
    expect_standing(s, LAB_STALE, true, "judged by another harness");

    s = statement_of("fwd_cpu_portable");
    set_harness(s, "clock_sha256", other_digest);
    expect_standing(json_deep_copy(s), LAB_STALE, true, "timed by another harness");
    char line[256];
    snprintf(line, sizeof line, "clock %s 2026-11-16 a comment was reworded\n", other_digest);
    write_evidence("harnesses.txt", line);
    expect_standing(s, LAB_CURRENT, false, "");

    s = statement_of("fwd_cpu_portable"); /* the list is for clocks */
    set_harness(s, "judge_sha256", other_digest);
    expect_standing(s, LAB_STALE, true, "judged by another harness");

    lab_evidence evidence;
    lab_message why;
    snprintf(line, sizeof line, "clock %s 2026-11-16\n", other_digest); /* no reason */
    write_evidence("harnesses.txt", line);
    assert_false(lab_evidence_read(&evidence, evidence_folder, &why));
    assert_non_null(strstr(why.text, "harnesses.txt:1"));
    write_evidence("harnesses.txt", "");
    write_evidence("required.txt", "");
}

/* A missing list demands nothing: that it is missing is itself an error. */
static void test_required__no_list__fails(void **state) {
    (void)state;
    char path[1024];
    lab_evidence evidence;
    lab_judgement judgement;
    lab_message why;
    snprintf(path, sizeof path, "%s/required.txt", evidence_folder);
    unlink(path);
    assert_true(lab_evidence_read(&evidence, evidence_folder, &why));
    assert_true(lab_evidence_judge(&judgement, &evidence, NULL, &why));
    assert_string_equal(judgement.files[0].name, "required.txt");
    assert_true(judgement.files[0].fails);
    lab_judgement_free(&judgement);
    assert_false(lab_evidence_judge(&judgement, &evidence, "/nonexistent/signers", &why));
    assert_non_null(strstr(why.text, "/nonexistent/signers"));
    lab_evidence_free(&evidence);
    write_evidence("required.txt", "");
}

/* However many devices the list has, none is left out. */
static void test_required__many_devices__every_file_is_judged(void **state) {
    (void)state;
    enum { DEVICES = 100 };
    char list[DEVICES * 24] = "", last[32];
    lab_evidence evidence;
    lab_judgement judgement;
    lab_message why;
    for (int i = 0, at = 0; i < DEVICES; i++)
        at += snprintf(list + at, sizeof list - (size_t)at, "gpu-%d sm_90\n", i);
    write_evidence("required.txt", list);
    assert_true(lab_evidence_read(&evidence, evidence_folder, &why));
    assert_true(lab_evidence_judge(&judgement, &evidence, NULL, &why));
    size_t hosts = 0;
    for (size_t i = 0; i < judgement.file_count; i++)
        hosts += strstr(judgement.files[i].name, "/host.json") && judgement.files[i].fails;
    assert_int_equal(hosts, DEVICES);
    snprintf(last, sizeof last, "gpu-%d/host.json", DEVICES - 1);
    assert_string_equal(judgement.files[judgement.file_count - 1].name, last);
    lab_judgement_free(&judgement);
    lab_evidence_free(&evidence);
    write_evidence("required.txt", "");
}

static void test_required__missing_and_stale__fail(void **state) {
    (void)state;
    write_evidence("required.txt", "# devices\n" PLACE " portable # a CPU\n");
    json_t *statement = statement_of("fwd_cpu_portable");
    keep_statement(statement, PLACE, "fwd_cpu_portable");
    lab_judged judged = judged_statement(PLACE, "fwd_cpu_portable");
    assert_true(judged.required && !lab_judged_fails(&judged));
    judged = judged_statement(PLACE, "decode_cpu_portable");
    assert_int_equal(judged.standing, LAB_MISSING);
    assert_true(lab_judged_fails(&judged));
    set_digest(statement, 0, other_digest);
    expect_standing(statement, LAB_STALE, true, "sources have changed");

    write_evidence("required.txt", "h100 sm_90\n");
    judged = judged_statement("h100", first_of_role(ATT_ROLE_DECODE));
    assert_true(lab_judged_fails(&judged));
    write_evidence("required.txt", "");
}

/* A statement that is still to be made is shown and does not fail; one that exists must come
 * off the list. */
static void test_required__pending__shown_until_it_is_there(void **state) {
    (void)state;
    write_evidence("required.txt", PLACE " portable\npending " PLACE
                                         " decode_cpu_portable until the next run\n");
    lab_judged judged = judged_statement(PLACE, "decode_cpu_portable");
    assert_int_equal(judged.standing, LAB_MISSING);
    assert_true(judged.required && judged.pending && !lab_judged_fails(&judged));
    json_t *statement = statement_of("decode_cpu_portable");
    keep_statement(statement, PLACE, "decode_cpu_portable");
    judged = judged_statement(PLACE, "decode_cpu_portable");
    assert_int_equal(judged.standing, LAB_CURRENT);
    assert_true(lab_judged_fails(&judged));
    assert_non_null(strstr(judged.why.text, "remove its pending line"));
    json_decref(statement);
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/attestations/decode_cpu_portable.json", evidence_folder,
             PLACE);
    unlink(path);
    write_evidence("required.txt", "");
}

static void expect_bad_list(const char *text) {
    lab_evidence evidence;
    lab_message why;
    write_evidence("required.txt", text);
    assert_false(lab_evidence_read(&evidence, evidence_folder, &why));
    assert_non_null(strstr(why.text, "required.txt:1"));
    write_evidence("required.txt", "");
}

static void test_required__a_bad_list__is_refused(void **state) {
    (void)state;
    expect_bad_list("h200\n");
    expect_bad_list("h200 sm_90 more\n");
    expect_bad_list("h200 sm_75\n");
    expect_bad_list("h200 auto\n");
    expect_bad_list("pending h200 combine_sm80_d128\n"); /* without a reason */
    lab_evidence evidence;
    lab_message why;
    assert_false(lab_evidence_read(&evidence, "/nonexistent", &why));
    assert_false(lab_evidence_read(&evidence, "/dev/null", &why));
    setenv("ATTEST_EVIDENCE", evidence_folder, 1);
    assert_true(lab_evidence_read(&evidence, NULL, &why));
    assert_string_equal(evidence.folder, evidence_folder);
    lab_evidence_free(&evidence);
    unsetenv("ATTEST_EVIDENCE");
}

static void test_injection__each_variable__is_found(void **state) {
    (void)state;
    static const char *const names[] = {"LD_AUDIT", "CUDA_INJECTION64_PATH",
                                        "NVIDIA_TF32_OVERRIDE", "ATTEST_JIT"};
    lab_message why;
    const char *driver = getenv("ATTEST_LIBCUDA");
    assert_true(lab_injection_found(&why)); /* the fake driver */
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
    write_evidence("input", "one");
    char input[1024];
    snprintf(input, sizeof input, "%s/input", evidence_folder);
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
    use_fake_cuda();
    use_no_nvrtc();
    setenv("ATTEST_SUITES", SUITES, 1);
    setenv("ATTEST_DEVICES", SUITES "/../devices", 1);
    return open_evidence();
}

static int tear_down(void **state) {
    (void)state;
    return close_evidence();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standing__a_sound_statement__is_current),
        cmocka_unit_test(test_standing__other_sources__are_stale),
        cmocka_unit_test(test_standing__other_suites__are_partial),
        cmocka_unit_test(test_standing__another_compiler__is_said),
        cmocka_unit_test(test_standing__other_machine_code__is_stale),
        cmocka_unit_test(test_tampered__files__fail_with_the_field),
        cmocka_unit_test(test_forged__numbers__fail_with_the_field),
        cmocka_unit_test(test_forged__numbers_unlike_other_statements__fail),
        cmocka_unit_test(test_forged__no_rows__fail),
        cmocka_unit_test(test_forged__another_seed__is_partial),
        cmocka_unit_test(test_forged__times__fail),
        cmocka_unit_test(test_forged__subjects__fail),
        cmocka_unit_test(test_forged__called_idle__is_stale),
        cmocka_unit_test(test_forged__another_kernel_s_numbers__fail),
        cmocka_unit_test(test_forged__a_shorter_list__is_stale),
        cmocka_unit_test(test_forged__the_device__fails),
        cmocka_unit_test(test_forged__gpu_numbers__fail),
        cmocka_unit_test(test_forged__fields_left_out__fail_with_the_field),
        cmocka_unit_test(test_harness__another_judge__is_stale),
        cmocka_unit_test(test_required__no_list__fails),
        cmocka_unit_test(test_required__many_devices__every_file_is_judged),
        cmocka_unit_test(test_required__missing_and_stale__fail),
        cmocka_unit_test(test_required__pending__shown_until_it_is_there),
        cmocka_unit_test(test_required__a_bad_list__is_refused),
        cmocka_unit_test(test_injection__each_variable__is_found),
        cmocka_unit_test(test_place__full_names__become_short),
        cmocka_unit_test(test_spawn__programs__are_heard),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
