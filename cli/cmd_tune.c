/* cmd_tune.c: attest tune. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "lab/base/progress.h"
#include "lab/base/screen.h"
#include "lab/tune/tune.h"

static const char default_output[] = "tuned.rows";

/* The state of the callback that prints progress. */
typedef struct watcher {
    FILE *text;
    lab_progress bar;
    double budget;
} watcher;

/* Print a line for every new best and for every wrong answer. */
static void watch(const lab_tuning *t, const lab_trial *trial, bool best, double seconds,
                  void *state) {
    watcher *w = state;
    char name[256], what[320];
    lab_variant_name(&t->base, &trial->variant, name, sizeof name);
    const lab_trial *cheapest = lab_tuning_best(t);
    if (best || trial->outcome == LAB_FAIL) {
        lab_progress_end(&w->bar);
        fprintf(w->text, "%7.1f s  trial %-4zu %-28s ", seconds, t->trial_count, name);
        if (best)
            fprintf(w->text, "%.3f of the built-in row's time\n", trial->cost);
        else
            fprintf(w->text, "WRONG: %s\n", trial->message);
        fflush(w->text);
        lab_progress_start(&w->bar, stderr, "tuning, seconds", (size_t)ceil(w->budget));
    }
    snprintf(what, sizeof what, "%zu trials, best %.3f", t->trial_count,
             cheapest ? cheapest->cost : NAN);
    lab_progress_update(&w->bar, (size_t)seconds, what);
}

static void put_side(FILE *text, const char *name, const lab_bench_case *c) {
    if (c->timed)
        fprintf(text, "%-8s %.2f us [%.2f, %.2f], %zu samples\n", name, c->ns.median / 1e3,
                c->ns.low / 1e3, c->ns.high / 1e3, c->sample_count);
    else
        fprintf(text, "%-8s not timed: %s\n", name, c->verify.message);
}

static void put_verdict(FILE *text, const lab_verdict *v) {
    fputs("verdict  ", text);
    lab_put_verdict(text, lab_verdict_name(v->kind));
    fprintf(text, ": %+.1f %% [%+.1f, %+.1f] of the built-in row's time\n", 100.0 * v->effect,
            100.0 * v->low, 100.0 * v->high);
}

static void put_result(FILE *text, const lab_tuning *t) {
    size_t refused = 0;
    for (size_t i = 0; i < t->trial_count; i++)
        refused += t->trials[i].outcome == LAB_REFUSED;
    fprintf(text, "tried    %zu variants, %zu refused, %zu with wrong answers%s\n",
            t->trial_count, refused, t->wrong,
            t->exhausted ? "; nothing feasible is left" : "");
    if (!t->has_winner) {
        fprintf(text, "winner   none: %s\n",
                t->trial_count ? "the built-in constants are the best of them"
                               : "the budget ended before the first trial");
        return;
    }
    char name[256];
    lab_variant_name(&t->base, &t->winner, name, sizeof name);
    fprintf(text, "winner   %s: %s\nmeasured again, on fresh inputs and samples:\n",
            t->winner_id, name);
    put_side(text, "shipped", &t->final[0]);
    put_side(text, "tuned", &t->final[1]);
    if (t->judged)
        put_verdict(text, &t->verdict);
}

/* Only a faster row is kept. */
static cli_exit keep(const cli_session *session, const lab_tuning *t) {
    const cli_options *o = session->options;
    const char *path = o->tuned ? o->tuned : default_output;
    if (!t->judged || t->verdict.kind != LAB_FASTER) {
        fputs("row      none written: the built-in row is kept\n", session->text);
        return t->wrong ? CLI_CHECK_FAILED : CLI_HOLDS;
    }
    lab_message why;
    if (!lab_tune_keep(t, path, &why)) {
        cli_complain(o, "%s", why.text);
        return CLI_NOT_POSSIBLE;
    }
    fprintf(session->text,
            "row      written to %s; --rows %s or ATTEST_ROWS=%s uses it; copied to "
            "~/.config/attest/rows, it is always used\n",
            path, path, path);
    return t->wrong ? CLI_CHECK_FAILED : CLI_HOLDS;
}

/* One record per problem, beside the rows. */
static void state_path(const cli_options *o, const lab_spec *spec, char *buf, size_t n) {
    char line[LAB_SPEC_MAX];
    uint32_t hash = 2166136261u; /* FNV-1a */
    lab_spec_print(spec, line, sizeof line);
    for (const char *at = line; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619u;
    snprintf(buf, n, "%s.%08x.state", o->tuned ? o->tuned : default_output, hash);
}

static cli_exit tune(cli_session *session, const lab_spec *spec, json_t *results) {
    const cli_options *o = session->options;
    char line[LAB_SPEC_MAX], path[4096];
    lab_spec_print(spec, line, sizeof line);
    state_path(o, spec, path, sizeof path);
    lab_tune_options options = {.bench = lab_bench_defaults(),
                                .population = (size_t)o->population,
                                .max_trials = (size_t)o->trials,
                                .budget_seconds = o->budget / (double)session->spec_count,
                                .state = o->state ? o->state : path,
                                .resume = o->resume,
                                .stream = stderr};
    options.bench.seed = o->seed;
    options.bench.min_samples = (size_t)o->min_samples;
    options.bench.max_samples = (size_t)o->max_samples;
    options.bench.seconds = o->seconds;
    options.bench.warmup_seconds = fmin(options.bench.warmup_seconds, o->seconds);
    fprintf(session->text, "problem  %s\nsearch   %g s, population %zu, seed %llu, record %s\n",
            line, options.budget_seconds, options.population,
            (unsigned long long)options.bench.seed, options.state);
    if (!o->resume && access(options.state, F_OK) == 0)
        fprintf(stderr, "note: the record of an earlier search is replaced; --resume continues "
                        "it instead\n");
    watcher w = {.text = session->text, .budget = options.budget_seconds};
    lab_progress_start(&w.bar, stderr, "tuning, seconds", (size_t)ceil(w.budget));
    lab_tuning tuning;
    lab_message why;
    cli_exit result = CLI_NOT_POSSIBLE;
    const bool ok = lab_tune(&tuning, session->ctx[0], spec, &options, watch, &w, &why);
    lab_progress_end(&w.bar);
    if (ok) {
        if (tuning.resumed)
            fprintf(session->text, "resumed  %zu trials of the record\n", tuning.resumed);
        fprintf(session->text, "kernel   %s on %s\n", tuning.base.id, tuning.base.gpu.gpu_name);
        put_result(session->text, &tuning);
        result = keep(session, &tuning);
        json_array_append_new(results, lab_tuning_object(&tuning));
    } else {
        cli_complain(o, "%s: %s", line, why.text);
    }
    lab_tuning_free(&tuning);
    return result;
}

static cli_exit tune_all(cli_session *session) {
    const cli_options *o = session->options;
    if (o->state && session->spec_count > 1) {
        cli_complain(o, "--state holds one problem, but %zu are given", session->spec_count);
        return CLI_USAGE;
    }
    cli_exit result = CLI_HOLDS;
    json_t *results = json_array();
    for (size_t i = 0; i < session->spec_count; i++) {
        if (i > 0)
            fputc('\n', session->text);
        const cli_exit one = tune(session, &session->specs[i], results);
        if (result != CLI_CHECK_FAILED && one != CLI_HOLDS)
            result = one;
    }
    if (json_array_size(results) == 0) { /* nothing was searched: write no document */
        json_decref(results);
        return result;
    }
    json_t *document = lab_json_document("attest-tune-1", session->ctx[0]);
    json_object_set_new(document, "results", results);
    return cli_session_finish(session, document, result);
}

cli_exit cli_tune(const cli_options *o) {
    cli_options options = *o;
    options.rows = ""; /* a built-in row is varied, whatever rows the user has */
    o = &options;
    cli_session session;
    if (o->population < 4 || o->population > LAB_POPULATION_MAX) {
        cli_complain(o, "--population %lld: expected 4 to %d", (long long)o->population,
                     LAB_POPULATION_MAX);
        return CLI_USAGE;
    }
    cli_exit result = cli_session_begin_gpu(&session, o, NULL);
    if (result == CLI_HOLDS)
        result = tune_all(&session);
    cli_session_close(&session);
    return result;
}
