/* attestation.c: writing and reading statements. */
#include "lab/evidence/attestation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_clean.h"
#include "lab/statistics/stats.h"

/* ------------------------------------------------------------------- writing */

static void add_subject(json_t *subjects, const char *id, const char *part,
                        const char *sha256) {
    char name[128];
    snprintf(name, sizeof name, "%s.%s", id, part);
    json_array_append_new(
        subjects, json_pack("{s:s, s:{s:s}}", "name", name, "digest", "sha256", sha256));
}

json_t *lab_attestation_make(const char *id, int cc, const lab_code_digests *digests,
                             json_t *predicate) {
    json_t *subjects = json_array();
    char part[24];
    snprintf(part, sizeof part, "sm_%d", cc);
    if (*digests->code)
        add_subject(subjects, id, part, digests->code);
    if (*digests->source)
        add_subject(subjects, id, "source", digests->source);
    if (*digests->library)
        add_subject(subjects, id, "library", digests->library);
    return json_pack("{s:s, s:o, s:s, s:o}", "_type", LAB_STATEMENT_TYPE, "subject", subjects,
                     "predicateType", LAB_PREDICATE_TYPE, "predicate", predicate);
}

/* ------------------------------------------------------------------- reading */

/* A file as it is read: what is missing is complained of with its name. */
typedef struct reader {
    const char *path;
    lab_message *why;
} reader;

static bool fault(const reader *r, const char *field, const char *what) {
    return lab_fail(r->why, "%s: %s: %s", r->path, field, what);
}

static bool read_text(const reader *r, const json_t *object, const char *field, char *buf,
                      size_t n) {
    const char *text = json_string_value(json_object_get(object, field));
    if (!text)
        return fault(r, field, "is missing or no text");
    if (strlen(text) >= n)
        return fault(r, field, "is too long");
    snprintf(buf, n, "%s", text);
    return true;
}

static bool read_number(const reader *r, const json_t *object, const char *field, double *out) {
    const json_t *value = json_object_get(object, field);
    if (!json_is_number(value))
        return fault(r, field, "is missing or no number");
    *out = json_number_value(value);
    return true;
}

static bool is_digest(const char *text) {
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static bool expect_text(const reader *r, const json_t *object, const char *field,
                        const char *want) {
    char text[128];
    if (!read_text(r, object, field, text, sizeof text))
        return false;
    return strcmp(text, want) == 0 || fault(r, field, "is of another kind of file");
}

/* The digest of the subject named KERNEL.PART; "" where it is optional and not there. */
static bool read_subject(const reader *r, const json_t *subjects, const char *kernel,
                         const char *part, char out[ATT_SHA256_HEX]) {
    char name[128], found[128];
    size_t i;
    const json_t *subject;
    snprintf(name, sizeof name, "%s.%s", kernel, part);
    json_array_foreach(subjects, i, subject) {
        if (!read_text(r, subject, "name", found, sizeof found))
            return false;
        if (strcmp(found, name) != 0)
            continue;
        return read_text(r, json_object_get(subject, "digest"), "sha256", out,
                         ATT_SHA256_HEX) &&
               (is_digest(out) || fault(r, "sha256", "is no digest"));
    }
    return fault(r, name, "is not among the subjects");
}

/* One of error_o, error_lse: within its bar. */
static bool judge_error(const reader *r, lab_attestation *a, const json_t *verify,
                        const char *field) {
    double kernel = 0.0, bar = 0.0;
    const json_t *error = json_object_get(verify, field);
    if (!read_number(r, error, "kernel", &kernel) || !read_number(r, error, "bar", &bar))
        return false;
    if (!(kernel >= 0.0 && kernel <= bar))
        return fault(r, field, "an error is above its bar");
    if (bar > 0.0 && kernel / bar > a->worst_share)
        a->worst_share = kernel / bar;
    return true;
}

static bool judge_verify(const reader *r, lab_attestation *a, const json_t *verify) {
    char outcome[16];
    if (!read_text(r, verify, "outcome", outcome, sizeof outcome))
        return false;
    if (strcmp(outcome, "pass") != 0)
        return fault(r, "outcome", "a problem did not pass");
    return judge_error(r, a, verify, "error_o") && judge_error(r, a, verify, "error_lse");
}

static int compare_numbers(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median that is claimed is that of the samples that are shown. */
static bool judge_samples(const reader *r, const json_t *timed) {
    const json_t *list = json_object_get(timed, "samples_ns");
    const size_t count = json_array_size(list);
    double claimed = 0.0;
    if (!read_number(r, timed, "median_ns", &claimed))
        return false;
    if (count == 0)
        return fault(r, "samples_ns", "there are none");
    double *samples = calloc(count, sizeof *samples);
    if (!samples)
        return fault(r, "samples_ns", "no memory for them");
    for (size_t i = 0; i < count; i++)
        samples[i] = json_number_value(json_array_get(list, i));
    qsort(samples, count, sizeof *samples, compare_numbers);
    const double least = samples[0], median = lab_quantile(samples, count, 0.5);
    free(samples);
    if (!(least > 0.0))
        return fault(r, "samples_ns", "a sample is no time");
    return fabs(claimed - median) <= 1e-6 * median ||
           fault(r, "median_ns", "is not the median of the samples");
}

static bool judge_problems(const reader *r, lab_attestation *a, const json_t *predicate) {
    const json_t *verified = json_object_get(predicate, "verified"),
                 *timed = json_object_get(predicate, "timed"), *problem;
    size_t i;
    a->verified = json_array_size(verified);
    a->timed = json_array_size(timed);
    if (a->verified == 0)
        return fault(r, "verified", "there is no problem in it");
    if (a->timed == 0)
        return fault(r, "timed", "there is no problem in it");
    json_array_foreach(verified, i, problem) {
        if (!judge_verify(r, a, json_object_get(problem, "verify")))
            return false;
    }
    json_array_foreach(timed, i, problem) {
        if (!judge_verify(r, a, json_object_get(problem, "verify")) ||
            !judge_samples(r, problem))
            return false;
    }
    return true;
}

static bool read_device(const reader *r, lab_attestation *a, const json_t *predicate) {
    const json_t *machine = json_object_get(predicate, "machine"),
                 *gpu = json_object_get(machine, "gpu");
    double cc = 0.0;
    if (gpu && !read_number(r, gpu, "compute_capability", &cc))
        return false;
    a->cc = cc > 0.0 && cc < 1000.0 ? (int)cc : 0;
    if (gpu && a->cc == 0)
        return fault(r, "compute_capability", "is none");
    return read_text(r, gpu ? gpu : machine, gpu ? "name" : "processor", a->device,
                     sizeof a->device);
}

/* Was it the usual suites that were run? */
static bool read_suites(const reader *r, lab_attestation *a, const json_t *predicate) {
    const json_t *suites = json_object_get(predicate, "suites");
    char checked[256], timed[256];
    if (!read_text(r, suites, "verified", checked, sizeof checked) ||
        !read_text(r, suites, "timed", timed, sizeof timed))
        return false;
    a->partial = strcmp(checked, a->cc ? LAB_CHECKED_GPU : LAB_CHECKED_CPU) != 0 ||
                 strcmp(timed, a->cc ? LAB_TIMED_GPU : LAB_TIMED_CPU) != 0;
    return true;
}

static bool read_statement(const reader *r, lab_attestation *a, const json_t *statement) {
    const json_t *subjects = json_object_get(statement, "subject"),
                 *predicate = json_object_get(statement, "predicate");
    char part[24];
    if (!expect_text(r, statement, "_type", LAB_STATEMENT_TYPE) ||
        !expect_text(r, statement, "predicateType", LAB_PREDICATE_TYPE) ||
        !read_text(r, predicate, "kernel", a->kernel, sizeof a->kernel) ||
        !read_text(r, predicate, "made", a->made, sizeof a->made) ||
        !read_text(r, json_object_get(predicate, "compiler"), "name", a->compiler,
                   sizeof a->compiler) ||
        !read_device(r, a, predicate) || !read_suites(r, a, predicate))
        return false;
    a->peer = json_object_get(predicate, "peer") != NULL;
    if (!read_subject(r, subjects, a->kernel, a->peer ? "library" : "source", a->source))
        return false;
    snprintf(part, sizeof part, "sm_%d", a->cc);
    if (a->cc && !a->peer && !read_subject(r, subjects, a->kernel, part, a->code))
        return false;
    return judge_problems(r, a, predicate);
}

bool lab_attestation_read(lab_attestation *attestation, const char *path, lab_message *why) {
    const reader r = {.path = path, .why = why};
    json_error_t error;
    *attestation = (lab_attestation){.cc = 0};
    json_t *statement = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!statement)
        return lab_fail(why, "%s:%d: %s", path, error.line, error.text);
    lab_json_clean(statement);
    const bool ok = read_statement(&r, attestation, statement);
    json_decref(statement);
    return ok;
}
