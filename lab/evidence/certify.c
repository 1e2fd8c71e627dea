/* certify.c: choosing the problems of a kernel, running them, and putting the statement together. */
#include "lab/evidence/certify.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clock.h"
#include "lab/evidence/attestation.h"
#include "lab/evidence/place.h"
#include "lab/evidence/predicate.h"
#include "attention/cuda/tiling.h"
#include "core/registry.h"

/* Where no problem would be given to the kernel, this many that it can serve are timed. */
enum { FORCED_MOST = 2 };

/* One kernel at work. */
typedef struct work {
    const lab_certify *job;
    const att_kernel_row *row; /* NULL: a plug-in */
    att_context
        *natural; /* the library chooses, among the kernels up to this one's instruction set */
    att_context *own; /* this kernel alone; a merging one is never alone, and has the first */
    lab_subject subject;
    att_context_info info;
    lab_code_digests digests;
    json_t *checked, *timed;
    lab_certified *out;
} work;

bool lab_certify_wants(const att_context *ctx, size_t row, const char *pattern) {
    att_kernel_info info = {.size = sizeof info};
    return att_kernel_query(ctx, row, &info) == ATT_OK && info.available && !info.rung &&
           (!pattern || fnmatch(pattern, info.id, 0) == 0);
}

static bool merges(const att_kernel_row *row) {
    return row && row->cuda && row->cuda->role == ATT_ROLE_COMBINE;
}

static bool cannot(work *w, const char *text) {
    w->out->impossible = true;
    return lab_fail(&w->out->why, "%s", text);
}

static bool open_context(work *w, att_context **out, const char *kernel) {
    const att_context_options options = {
        .size = sizeof options,
        .device = w->job->device,
        .device_index = w->job->device_index,
        .threads = w->job->threads,
        .isa = w->row->isa,
        .flags = ATT_ALLOW_UNATTESTED,
        .kernel = kernel,
        .rows = "", /* the library's own kernels only */
    };
    return att_context_create(out, &options) == ATT_OK || cannot(w, att_last_error()->text);
}

static const att_cuda_kernel *gpu_row(const char *id) {
    for (size_t i = 0; i < att_registry_count(); i++)
        if (strcmp(att_registry_row(i)->id, id) == 0)
            return att_registry_row(i)->cuda;
    return NULL;
}

static bool peer_serves(const work *w, const lab_spec *spec) {
    lab_prepared prepared;
    if (lab_subject_prepare(&prepared, &w->subject, &spec->problem, NULL) != ATT_OK)
        return false;
    lab_prepared_destroy(&prepared);
    return true;
}

/* Would `ctx` give the problem to the kernel of `w`? */
static bool serves(const work *w, att_context *ctx, const lab_spec *spec) {
    att_plan *plan = NULL;
    if (!w->row)
        return peer_serves(w, spec);
    if (att_plan_create(&plan, ctx, &spec->problem) != ATT_OK)
        return false;
    const char *id = att_plan_kernel(plan);
    bool found = strcmp(id, w->row->id) == 0;
    if (merges(w->row)) {
        const att_cuda_kernel *first = gpu_row(id);
        found = first && att_plan_workspace(plan) > 0 &&
                att_cuda_combine_of(first, true) == w->row->cuda;
    }
    att_plan_destroy(plan);
    return found;
}

static double share_of(const lab_errors *errors) {
    return errors->bar > 0.0 ? errors->kernel / errors->bar : 0.0;
}

/* The answer is right, and the code that gave it is the code that the statement will name. */
static bool judge(work *w, const lab_spec *spec, const lab_verify_result *result) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    if (result->outcome == LAB_REFUSED)
        return cannot(w, result->message);
    if (result->outcome != LAB_PASS)
        return lab_fail(&w->out->why, "%s: %.300s", line, result->message);
    if (*w->digests.code && !merges(w->row) && result->launch.kernel &&
        strcmp(result->launch.code_sha256, w->digests.code) != 0)
        return lab_fail(&w->out->why,
                        "%s: the machine code that ran, sha256 %.16s..., is not the library's, "
                        "%.16s...",
                        line, result->launch.code_sha256, w->digests.code);
    const double o = share_of(&result->o), lse = share_of(&result->lse);
    w->out->worst_share = o > w->out->worst_share ? o : w->out->worst_share;
    w->out->worst_share = lse > w->out->worst_share ? lse : w->out->worst_share;
    return true;
}

/* Verify the problems of a suite that `ctx` gives to the kernel. */
static bool check_suite(work *w, const lab_suite *suite, att_context *ctx, FILE *stream) {
    const lab_verify_options options = {.seed = w->job->bench.seed};
    lab_progress bar;
    lab_progress_start(&bar, stream, "verifying", suite->count);
    bool ok = true;
    for (size_t i = 0; ok && i < suite->count; i++) {
        lab_verify_result result;
        lab_progress_update(&bar, i, w->out->kernel);
        if (!serves(w, ctx, &suite->specs[i]))
            continue;
        lab_verify_subject(&result, &w->subject, &suite->specs[i], &options);
        ok = judge(w, &suite->specs[i], &result);
        if (ok)
            json_array_append_new(w->checked, lab_predicate_checked(&suite->specs[i], &result));
    }
    lab_progress_end(&bar);
    return ok;
}

static bool check_problems(work *w, FILE *stream) {
    bool ok = check_suite(w, &w->job->checked, w->own, stream);
    for (size_t i = 0; ok && w->row && i < LAB_CHOSEN_SUITES; i++)
        ok = check_suite(w, &w->job->chosen[i], w->natural, stream);
    w->out->checked = json_array_size(w->checked);
    return ok && (w->out->checked > 0 || cannot(w, "it serves no problem of the suite"));
}

/* The problems to time: those that the library would give to the kernel, or else some that it serves. */
static size_t choose_timed(const work *w, lab_bench_case *cases) {
    const lab_suite *suite = &w->job->timed;
    size_t count = 0;
    for (size_t i = 0; i < suite->count; i++)
        if (serves(w, w->natural, &suite->specs[i]))
            cases[count++].spec = &suite->specs[i];
    if (count > 0)
        return count;
    for (size_t i = 0; i < suite->count && count < FORCED_MOST; i++)
        if (serves(w, w->own, &suite->specs[i]))
            cases[count++].spec = &suite->specs[i];
    return count;
}

static bool time_cases(work *w, lab_bench_case *cases, size_t count, FILE *stream) {
    for (size_t i = 0; i < count; i++)
        cases[i].subject = w->subject;
    if (!lab_bench_run(cases, count, &w->job->bench, stream, &w->out->why)) {
        w->out->impossible = true;
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!judge(w, cases[i].spec, &cases[i].verify))
            return false;
        json_array_append_new(w->timed, lab_predicate_timed(&cases[i]));
    }
    w->out->timed = count;
    return true;
}

static bool time_problems(work *w, FILE *stream) {
    const size_t most = w->job->timed.count;
    lab_bench_case *cases = calloc(most ? most : 1, sizeof *cases);
    if (!cases)
        return cannot(w, "out of memory");
    const size_t count = choose_timed(w, cases);
    const bool ok = count > 0 ? time_cases(w, cases, count, stream)
                              : cannot(w, "it serves no problem of the timed suite");
    lab_bench_free(cases, count);
    free(cases);
    return ok;
}

static bool prepare_kernel(work *w) {
    lab_message why;
    if (!open_context(w, &w->natural, NULL) ||
        (!merges(w->row) && !open_context(w, &w->own, w->row->id)))
        return false;
    if (!w->own)
        w->own = w->natural;
    w->subject = lab_subject_attest(w->own);
    if (att_context_query(w->natural, &w->info) != ATT_OK)
        return cannot(w, att_last_error()->text);
    if (!lab_code_digests_of(&w->digests, w->row, w->info.compute_capability, &why))
        return cannot(w, why.text);
    if (w->row->cuda && !*w->digests.code)
        return cannot(w, "the library has no machine code for this GPU: certify a build by "
                         "nvcc");
    return true;
}

static bool prepare_peer(work *w, const lab_peer *peer, att_context *ctx) {
    w->own = w->natural = ctx;
    w->subject = lab_subject_peer(peer, ctx);
    snprintf(w->digests.compiler, sizeof w->digests.compiler, "not known");
    if (att_context_query(ctx, &w->info) != ATT_OK)
        return cannot(w, att_last_error()->text);
    return lab_file_digest(peer->file, w->digests.library) ||
           cannot(w, "the file of the plug-in cannot be read");
}

/* Verify, time, and put the statement together. `peer` is an object (consumed) about a plug-in, or NULL. */
static void conclude(work *w, const char *role, json_t *peer, FILE *stream) {
    lab_certified *out = w->out;
    w->checked = json_array();
    w->timed = json_array();
    if (check_problems(w, stream) && time_problems(w, stream)) {
        json_t *predicate = lab_predicate_make(w->job, out->kernel, role, w->own, &w->digests);
        if (peer)
            json_object_set(predicate, "peer", peer);
        json_object_set(predicate, "verified", w->checked);
        json_object_set(predicate, "timed", w->timed);
        out->statement = lab_attestation_make(out->kernel, w->info.compute_capability,
                                              &w->digests, predicate);
        if (!out->statement)
            cannot(w, "out of memory");
    }
    json_decref(peer);
    json_decref(w->checked);
    json_decref(w->timed);
}

static double seconds_since(uint64_t start) {
    return (double)(lab_clock_ns() - start) * 1e-9;
}

void lab_certify_kernel(lab_certified *out, const lab_certify *job, size_t row, FILE *stream) {
    const uint64_t start = lab_clock_ns();
    const att_kernel_row *found = att_registry_row(row);
    *out = (lab_certified){.checked = 0};
    snprintf(out->kernel, sizeof out->kernel, "%s", found->id);
    work w = {.job = job, .row = found, .info = {.size = sizeof w.info}, .out = out};
    if (prepare_kernel(&w))
        conclude(&w, att_row_role(found), NULL, stream);
    if (w.own != w.natural)
        att_context_destroy(w.own);
    att_context_destroy(w.natural);
    out->seconds = seconds_since(start);
}

void lab_certify_peer(lab_certified *out, const lab_certify *job, const lab_peer *peer,
                      att_context *ctx, FILE *stream) {
    const uint64_t start = lab_clock_ns();
    char name[48];
    *out = (lab_certified){.checked = 0};
    lab_place_name(peer->table.name, name, sizeof name);
    snprintf(out->kernel, sizeof out->kernel, "peer-%s", name);
    work w = {.job = job, .info = {.size = sizeof w.info}, .out = out};
    if (prepare_peer(&w, peer, ctx))
        conclude(&w, "peer",
                 json_pack("{s:s, s:s, s:s}", "name", peer->table.name, "version",
                           w.subject.version, "file", peer->file),
                 stream);
    out->seconds = seconds_since(start);
}
