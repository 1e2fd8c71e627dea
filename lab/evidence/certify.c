/* certify.c: chooses the problems of a kernel, runs them and assembles the statement. */
#include "lab/evidence/certify.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clock.h"
#include "lab/evidence/attestation.h"
#include "lab/evidence/place.h"
#include "lab/evidence/predicate.h"
#include "lab/verify/verify_jobs.h"
#include "core/registry.h"

/* The state for one kernel. */
typedef struct work {
    const lab_certify *job;
    const att_kernel_row *row; /* NULL: a plug-in */
    att_context
        *natural;     /* the library chooses, among kernels up to this one's instruction set */
    att_context *own; /* only this kernel; a merging kernel never runs alone and uses the
                       * first */
    lab_subject subject;
    att_context_info info;
    lab_chooser chooser;
    lab_code_digests digests;
    json_t *checked, *timed;
    json_t *unsplit_checked,
        *unsplit_timed; /* for a kernel that helps others: it had nothing to do */
    lab_certified *out;
} work;

bool lab_certify_wants(const att_context *ctx, size_t row, const char *pattern) {
    att_kernel_info info = {.size = sizeof info};
    return att_kernel_query(ctx, row, &info) == ATT_OK && info.available && !info.rung &&
           (!pattern || fnmatch(pattern, info.id, 0) == 0);
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
        .rows = "", /* only the library's own kernels */
    };
    return att_context_create(out, &options) == ATT_OK || cannot(w, att_last_error()->text);
}

/* A plug-in declares what it supports; if it fails, that is not a refusal. */
static bool peer_serves(const work *w, const lab_spec *spec) {
    lab_prepared prepared;
    const att_status status = lab_subject_prepare(&prepared, &w->subject, spec, NULL);
    if (status == ATT_OK)
        lab_prepared_destroy(&prepared);
    return status != ATT_E_UNSUPPORTED;
}

/* One problem of a kernel and its outcome. */
typedef struct check {
    const lab_spec *spec;
    const att_kernel_row
        *expected;  /* the kernel of the plan that the library makes on its own, */
    bool of_choice; /* which is made first */
    bool done, ok;
    bool split; /* keys are split, and merged by another kernel */
    lab_message why;
    lab_verify_result result;
} check;

/* The plan that the library makes on its own must have the expected kernel. */
static bool try_plan(const work *w, check *c) {
    char line[LAB_SPEC_MAX];
    att_plan *plan = NULL;
    lab_spec_print(c->spec, line, sizeof line);
    if (c->spec->operation->plan(&plan, w->natural, c->spec) != ATT_OK)
        return lab_fail(&c->why, "%s: %s", line, att_last_error()->text);
    const char *id = att_plan_kernel(plan);
    const bool ok = c->expected && strcmp(id, c->expected->id) == 0;
    if (!ok)
        lab_fail(&c->why, "%s: the library chooses %s, where %s is expected", line, id,
                 c->expected ? c->expected->id : "nothing");
    c->split = att_plan_workspace(plan) > 0;
    att_plan_destroy(plan);
    return ok;
}

/* Check that the answer is right and that the code that computed it is the code that the
 * statement will name. */
static bool judge(work *w, const lab_spec *spec, const lab_verify_result *result) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    if (result->outcome == LAB_REFUSED && result->status == ATT_OK)
        return cannot(w, result->message); /* no memory for the laboratory's own copy */
    if (result->outcome != LAB_PASS)
        return lab_fail(&w->out->why, "%s: %.300s", line, result->message);
    if (*w->digests.code && !lab_row_helps(w->row) && result->launch.kernel &&
        strcmp(result->launch.code_sha256, w->digests.code) != 0)
        return lab_fail(&w->out->why,
                        "%s: the machine code that ran, sha256 %.16s..., is not the library's, "
                        "%.16s...",
                        line, result->launch.code_sha256, w->digests.code);
    const double share = lab_error_share(lab_worst_error(result));
    w->out->worst_share = share > w->out->worst_share ? share : w->out->worst_share;
    return true;
}

static void add_line(json_t *list, const lab_spec *spec) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    json_array_append_new(list, json_string(line));
}

/* The problems of a kernel during verification. */
typedef struct checks {
    work *w;
    check *list;
    const lab_spec **specs; /* in the order of the list */
    size_t count;
    pthread_mutex_t lock; /* of the other fields */
    lab_progress *bar;
    size_t finished;
    bool failed; /* no new work is started */
} checks;

static bool begin(checks *all) {
    pthread_mutex_lock(&all->lock);
    const bool go = !all->failed;
    if (go)
        lab_progress_update(all->bar, all->finished, all->w->out->kernel);
    pthread_mutex_unlock(&all->lock);
    return go;
}

static void end(checks *all, check *c) {
    pthread_mutex_lock(&all->lock);
    c->done = true;
    all->finished++;
    all->failed |= !c->ok;
    pthread_mutex_unlock(&all->lock);
}

/* A kernel that helps others has nothing to do if keys are not split. */
static bool is_idle(const work *w, const check *c) {
    return lab_row_helps(w->row) && !c->split;
}

static void run_check(void *context, size_t i) {
    checks *all = context;
    const work *w = all->w;
    check *c = &all->list[i];
    const lab_verify_options options = {.seed = w->job->bench.seed,
                                        .rows_seed = w->job->bench.rows_seed,
                                        .store = w->job->store};
    if (!begin(all))
        return;
    c->ok = !c->of_choice || try_plan(w, c);
    if (c->ok && !is_idle(w, c)) {
        lab_verify_subject(&c->result, &w->subject, c->spec, &options);
        c->ok = c->result.outcome == LAB_PASS;
    }
    end(all, c);
}

/* Report in the order of the list, whichever finished first: the failure, or the results to
 * keep. */
static bool conclude_checks(checks *all) {
    work *w = all->w;
    for (size_t i = 0; i < all->count; i++) {
        const check *c = &all->list[i];
        if (!c->done)
            continue;
        if (c->why.text[0])
            return lab_fail(&w->out->why, "%s", c->why.text);
        if (is_idle(w, c))
            add_line(w->unsplit_checked, c->spec);
        else if (judge(w, c->spec, &c->result))
            json_array_append_new(w->checked, lab_predicate_checked(c->spec, &c->result));
        else
            return false;
    }
    return true;
}

/* The problems that the kernel is verified on. */
static void list_kernel(checks *all) {
    const work *w = all->w;
    const lab_suite_set *set = &w->job->suites;
    const lab_spec *spec;
    for (size_t at = 0; (spec = lab_chooser_next_checked(&w->chooser, set, &at));) {
        check *c = &all->list[all->count++];
        c->spec = spec;
        c->of_choice = at > set->checked.count || lab_row_helps(w->row);
        c->expected = c->of_choice ? lab_chooser_choice(&w->chooser, spec) : NULL;
        c->split = true;
    }
}

static void list_peer(checks *all) {
    const lab_suite *suite = &all->w->job->suites.checked;
    for (size_t i = 0; i < suite->count; i++)
        if (peer_serves(all->w, &suite->specs[i]))
            all->list[all->count++] = (check){.spec = &suite->specs[i], .split = true};
}

static bool run_checks(checks *all, FILE *stream) {
    const work *w = all->w;
    lab_progress bar;
    if (w->row)
        list_kernel(all);
    else
        list_peer(all);
    for (size_t i = 0; i < all->count; i++)
        all->specs[i] = all->list[i].spec;
    all->bar = &bar;
    pthread_mutex_init(&all->lock, NULL);
    lab_progress_start(&bar, stream, "verifying", all->count);
    lab_verify_each(all->specs, all->count, w->row ? w->job->at_once : 1, run_check, all);
    lab_progress_end(&bar);
    pthread_mutex_destroy(&all->lock);
    return conclude_checks(all);
}

static bool check_problems(work *w, FILE *stream) {
    const lab_suite_set *set = &w->job->suites;
    const size_t most = set->checked.count + set->chosen[0].count + set->chosen[1].count + 1;
    checks all = {.w = w,
                  .list = calloc(most, sizeof *all.list),
                  .specs = calloc(most, sizeof *all.specs)};
    const bool ok =
        all.list && all.specs ? run_checks(&all, stream) : cannot(w, "out of memory");
    free(all.list);
    free(all.specs);
    w->out->checked = json_array_size(w->checked);
    return ok && (w->out->checked > 0 || cannot(w, "it serves no problem of the suite"));
}

/* Collect the problems to time into cases and *count; a kernel that helps others leaves out
 * those in which it has nothing to do. */
static bool choose_timed(work *w, lab_bench_case *cases, const lab_spec **list, size_t *count) {
    const lab_suite *suite = &w->job->suites.timed;
    const size_t most =
        w->row ? lab_chooser_timed(&w->chooser, &w->job->suites, list) : suite->count;
    for (size_t i = 0; i < most; i++) {
        const lab_spec *spec = w->row ? list[i] : &suite->specs[i];
        check c = {.spec = spec, .split = true};
        if (lab_row_helps(w->row)) {
            c.expected = lab_chooser_choice(&w->chooser, spec);
            if (!try_plan(w, &c))
                return lab_fail(&w->out->why, "%s", c.why.text);
        }
        if (is_idle(w, &c))
            add_line(w->unsplit_timed, spec);
        else if (w->row || peer_serves(w, spec))
            cases[(*count)++].spec = spec;
    }
    return *count > 0 || cannot(w, "it serves no problem of the timed suite");
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
    const size_t most = w->job->suites.timed.count + 1;
    lab_bench_case *cases = calloc(most, sizeof *cases);
    const lab_spec **list = calloc(most, sizeof *list);
    size_t count = 0;
    bool ok = (cases && list) || cannot(w, "out of memory");
    ok = ok && choose_timed(w, cases, list, &count) && time_cases(w, cases, count, stream);
    if (cases)
        lab_bench_free(cases, count);
    free(cases);
    free(list);
    return ok;
}

static bool prepare_kernel(work *w) {
    lab_message why;
    if (!open_context(w, &w->natural, NULL) ||
        (!lab_row_helps(w->row) && !open_context(w, &w->own, w->row->id)))
        return false;
    if (!w->own)
        w->own = w->natural;
    w->subject = lab_subject_attest(w->own);
    if (att_context_query(w->natural, &w->info) != ATT_OK)
        return cannot(w, att_last_error()->text);
    w->chooser = (lab_chooser){.row = w->row, .amx_f32 = lab_chooser_amx_f32()};
    if (w->row->cuda &&
        !lab_chooser_set_gpu(&w->chooser, w->info.gpu_name, w->info.compute_capability,
                             w->info.multiprocessors))
        return cannot(w, "the device file of this name describes another GPU");
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

/* Verify, time and assemble the statement. `peer` is an object (consumed) about a plug-in, or
 * NULL. */
static void conclude(work *w, const char *role, json_t *peer, FILE *stream) {
    lab_certified *out = w->out;
    w->checked = json_array();
    w->timed = json_array();
    w->unsplit_checked = json_array();
    w->unsplit_timed = json_array();
    if (check_problems(w, stream) && time_problems(w, stream)) {
        json_t *predicate = lab_predicate_make(w->job, out->kernel, role, w->own, &w->digests);
        if (peer)
            json_object_set(predicate, "peer", peer);
        json_object_set(predicate, "verified", w->checked);
        json_object_set(predicate, "timed", w->timed);
        if (lab_row_helps(w->row))
            json_object_set_new(predicate, "unsplit",
                                json_pack("{s:O, s:O}", "verified", w->unsplit_checked, "timed",
                                          w->unsplit_timed));
        out->statement = lab_attestation_make(out->kernel, w->info.compute_capability,
                                              &w->digests, predicate);
        if (!out->statement)
            cannot(w, "out of memory");
    }
    json_decref(peer);
    json_decref(w->checked);
    json_decref(w->timed);
    json_decref(w->unsplit_checked);
    json_decref(w->unsplit_timed);
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
