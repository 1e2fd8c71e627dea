/* tune.c: runs trials until the time is up, then measures the winner again. */
#include "lab/tune/tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/clock.h"

/* -------------------------------------------------------------------------------- trials */

const lab_trial *lab_tuning_best(const lab_tuning *t) {
    const lab_trial *best = NULL;
    for (size_t i = 0; i < t->trial_count; i++)
        if (isfinite(t->trials[i].cost) && (!best || t->trials[i].cost < best->cost))
            best = &t->trials[i];
    return best;
}

static bool add_trial(lab_tuning *t, const lab_trial *trial, lab_message *why) {
    if (t->trial_count == t->trial_room) {
        const size_t room = t->trial_room ? 2 * t->trial_room : 64;
        lab_trial *grown = realloc(t->trials, room * sizeof *grown);
        if (!grown)
            return lab_fail(why, "no memory for %zu trials", room);
        t->trials = grown;
        t->trial_room = room;
    }
    t->trials[t->trial_count++] = *trial;
    return true;
}

static void trial_id(const lab_variant *v, char id[LAB_VARIANT_ID]) {
    snprintf(id, LAB_VARIANT_ID, "user_tune_m%dn%ds%dw%d_%x", v->m, v->n, v->stages, v->warps,
             v->off);
}

/* Time a candidate and the shipped row alternately. `ctx` is NULL if the row was refused. */
static bool time_pair(lab_tuning *t, lab_bench_case pair[2], att_context *ctx,
                      const lab_bench_options *options, lab_message *why) {
    FILE *nowhere = fopen("/dev/null", "w"); /* the search shows its own progress */
    if (!nowhere)
        return lab_fail(why, "/dev/null cannot be opened");
    pair[0] = (lab_bench_case){.spec = t->base.spec,
                               .subject = lab_subject_attest(t->ctx),
                               .twin = t->shipped.spec ? &t->shipped : NULL};
    pair[1] = (lab_bench_case){.spec = t->base.spec, .subject = lab_subject_attest(ctx)};
    const bool ok = lab_bench_run(pair, 2, options, nowhere, why);
    fclose(nowhere);
    return ok;
}

static bool try_variant(lab_tuning *t, lab_trial *trial, att_context *ctx, lab_message *why) {
    lab_bench_case pair[2] = {{.spec = NULL}, {.spec = NULL}};
    if (!time_pair(t, pair, ctx, &t->options.bench, why))
        return false;
    const lab_bench_case *shipped = &pair[0], *candidate = &pair[1];
    bool ok = true;
    if (!shipped->timed) {
        ok = lab_fail(why, "the built-in row cannot be timed: %s", shipped->verify.message);
    } else {
        trial->outcome = candidate->verify.outcome;
        snprintf(trial->message, sizeof trial->message, "%.150s", candidate->verify.message);
        if (candidate->timed) {
            trial->ns = candidate->ns.median;
            trial->base_ns = shipped->ns.median;
            trial->cost = trial->ns / trial->base_ns;
        }
    }
    lab_bench_free(pair, 2);
    t->shipped =
        pair[0]; /* without samples: it need not be verified again for the next trial */
    return ok;
}

/* The state of a search. */
typedef struct sweep {
    lab_tuning *t;
    lab_search search;
    uint64_t start_ns;
    lab_tune_watch *watch;
    void *watch_state;
} sweep;

static double elapsed(const sweep *s) {
    return (double)(lab_clock_ns() - s->start_ns) / 1e9;
}

/* Some time is reserved for the final measurement. */
static bool is_over(const sweep *s) {
    const lab_tune_options *o = &s->t->options;
    if (o->max_trials && s->search.told_count >= o->max_trials)
        return true;
    const double kept = fmin(0.25 * o->budget_seconds, 2.0 + 12.0 * o->bench.seconds);
    return elapsed(s) >= o->budget_seconds - kept;
}

/* Open contexts for the genomes that are not in the record; NULL if a row is refused, which its
 * trial then reports. */
static void open_batch(const lab_tuning *t, const lab_genome *batch, size_t count,
                       att_context **contexts, lab_message *words) {
    for (size_t i = 0; i < count; i++) {
        char id[LAB_VARIANT_ID];
        const lab_variant v = lab_tune_variant(&t->base, &batch[i]);
        trial_id(&v, id);
        contexts[i] = NULL;
        lab_variant_open(&contexts[i], &t->base, &v, id, false, &words[i]);
    }
    lab_variants_compile(contexts, count, t->base.spec, t->options.stream);
}

static bool run_trial(sweep *s, const lab_genome *genome, att_context *ctx,
                      const lab_message *refusal, lab_message *why) {
    lab_tuning *t = s->t;
    lab_trial trial = {.variant = lab_tune_variant(&t->base, genome),
                       .outcome = LAB_REFUSED,
                       .cost = INFINITY};
    if (!ctx)
        snprintf(trial.message, sizeof trial.message, "%.150s", refusal->text);
    else if (!try_variant(t, &trial, ctx, why))
        return false;
    const lab_trial *best = lab_tuning_best(t);
    const bool is_best = trial.cost < (best ? best->cost : INFINITY);
    t->wrong += trial.outcome == LAB_FAIL;
    if (!add_trial(t, &trial, why) || !lab_tune_state_write(t, why))
        return false;
    if (!lab_search_tell(&s->search, genome, trial.cost))
        return lab_fail(why, "no memory for %zu trials", t->trial_count);
    if (s->watch)
        s->watch(t, &t->trials[t->trial_count - 1], is_best, elapsed(s), s->watch_state);
    return true;
}

/* Replay trials from the record, which must be what the search proposes. Returns how many of
 * the batch it answered. */
static size_t replay(sweep *s, const lab_genome *batch, size_t count, bool *fits) {
    const lab_tuning *t = s->t;
    size_t at = 0;
    for (; at < count && s->search.told_count < t->resumed; at++) {
        const lab_trial *trial = &t->trials[s->search.told_count];
        const lab_variant v = lab_tune_variant(&t->base, &batch[at]);
        *fits = memcmp(&v, &trial->variant, sizeof v) == 0 &&
                lab_search_tell(&s->search, &batch[at], trial->cost);
        if (!*fits)
            break;
    }
    return at;
}

static bool run_slice(sweep *s, const lab_genome *batch, size_t count, lab_message *why) {
    att_context *contexts[LAB_POPULATION_MAX] = {NULL};
    lab_message words[LAB_POPULATION_MAX];
    open_batch(s->t, batch, count, contexts, words);
    bool ok = true;
    for (size_t i = 0; ok && i < count && !is_over(s); i++)
        ok = run_trial(s, &batch[i], contexts[i], &words[i], why);
    for (size_t i = 0; i < count; i++)
        att_context_destroy(contexts[i]);
    return ok;
}

static bool run_generation(sweep *s, const lab_genome *batch, size_t count, lab_message *why) {
    bool fits = true, ok = true;
    const size_t known = replay(s, batch, count, &fits);
    if (!fits)
        return lab_fail(why, "%s: its trials are not those of seed %llu", s->t->options.state,
                        (unsigned long long)s->t->options.bench.seed);
    /* As many at a time as can be compiled at once, so that the time is checked in between. */
    const size_t slice = lab_variants_at_once();
    for (size_t at = known; ok && at < count && !is_over(s); at += slice)
        ok = run_slice(s, batch + at, count - at < slice ? count - at : slice, why);
    return ok;
}

static bool search_for(sweep *s, lab_message *why) {
    lab_genome seeds[LAB_TUNE_SEEDS], batch[LAB_POPULATION_MAX];
    const size_t seed_count = lab_tune_seeds(&s->t->ground, seeds);
    while (!is_over(s)) {
        const size_t count = lab_search_ask(&s->search, seeds, seed_count, batch);
        s->t->exhausted = count == 0;
        if (count == 0)
            return true;
        if (!run_generation(s, batch, count, why))
            return false;
    }
    return true;
}

/* -------------------------------------------------------------------------------- winner */

enum {
    FINAL_TIMES = 5
}; /* samples of the final measurement, as a multiple of those of a
    * trial */

static bool measure_winner(lab_tuning *t, lab_message *why) {
    const lab_trial *best = lab_tuning_best(t);
    if (!best || memcmp(&best->variant, &t->base.shipped, sizeof best->variant) == 0)
        return true;
    t->has_winner = true;
    t->winner = best->variant;
    lab_tune_id(&t->base, t->winner_id);
    att_context *ctx = NULL;
    if (!lab_variant_open(&ctx, &t->base, &t->winner, t->winner_id, false, why))
        return false;
    lab_bench_options options = t->options.bench;
    options.seed = ~options.seed; /* other inputs than in any trial */
    options.seconds *= FINAL_TIMES;
    options.min_samples *= 2;
    t->shipped.spec = NULL; /* start fresh */
    options.max_samples =
        options.max_samples < options.min_samples ? options.min_samples : options.max_samples;
    const bool ok = time_pair(t, t->final, ctx, &options, why);
    if (ok && t->final[0].timed && t->final[1].timed) {
        const lab_samples a = lab_bench_samples(&t->final[0]),
                          b = lab_bench_samples(&t->final[1]);
        t->judged = lab_verdict_of(&t->verdict, &a, &b, LAB_PAIRED, LAB_MINIMUM_EFFECT,
                                   options.seed, why);
    }
    t->wrong += ok && t->final[1].verify.outcome == LAB_FAIL;
    att_context_destroy(ctx);
    return ok;
}

bool lab_tune(lab_tuning *t, att_context *ctx, const lab_spec *spec,
              const lab_tune_options *options, lab_tune_watch *watch, void *state,
              lab_message *why) {
    *t = (lab_tuning){.ctx = ctx, .options = *options};
    sweep s = {.t = t, .start_ns = lab_clock_ns(), .watch = watch, .watch_state = state};
    *why = (lab_message){.text = ""};
    if (!lab_base_find(&t->base, ctx, spec, why))
        return false;
    t->device = malloc(sizeof *t->device);
    if (!t->device)
        return lab_fail(why, "out of memory");
    if (!lab_device_live(t->device, t->base.gpu.device_index, why) ||
        (options->resume && !lab_tune_state_read(t, why)))
        return false;
    t->ground = (lab_tune_ground){.base = &t->base, .device = t->device};
    lab_tune_space(&t->space, &t->ground);
    lab_search_start(&s.search, &t->space, options->population, options->bench.seed);
    const bool ok = search_for(&s, why);
    lab_search_free(&s.search);
    return ok && measure_winner(t, why);
}

void lab_tuning_free(lab_tuning *t) {
    lab_bench_free(t->final, 2);
    free(t->trials);
    free(t->device);
    *t = (lab_tuning){.ctx = NULL};
}
