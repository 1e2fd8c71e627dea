/* station_fair.c: pairs of single calls, and the nodes of a captured run. */
#include "lab/measure/station_fair.h"

#include <stdio.h>
#include <stdlib.h>

#include "lab/base/clock.h"
#include "lab/base/entropy.h"
#include "lab/tensors/tensors_turn.h"

enum {
    MEMORY_PAIRS = 8,
    UPDATE_PAIRS = 4,
    DIRECT_PAIRS = 64,
    PAIRS_FEWEST = 2,
    TRIALS = 3,
    SIGHTS_MOST = 8
};

/* Limits per case: the time for the pairs, the longest call for which pairs are made at all,
 * the largest inputs to upload again and again, and the largest to upload to a GPU once more
 * for every repeated call, or to fill again for every call. */
static const double pairs_ns = 0.5e9, call_most_ns = 0.3e9, turned_bytes_most = 0x1p28,
                    sent_bytes = 0x1p24;

/* To know what has changed, a subject must read its inputs: updating gains nothing on a problem
 * of fewer operations per byte. */
static const double operations_per_byte = 4.0;

/* A difference counts if it is larger than this fraction and this time. */
static const double remembers_share = 0.25, handicap_share = 0.03, clock_slack_ns = 1e3;

/* Two ways to make one call, timed alternately on the first set. */
typedef struct pairs {
    lab_station *station;
    lab_input_set *set;
    size_t count;
    lab_device_timer timer[2]; /* on a GPU */
    const lab_prepared *way[2];
    unsigned char *finished; /* a copy of the outputs, to restore them */
    int sights;              /* calls on inputs that have been seen */
    bool turned;             /* the inputs are changed */
} pairs;

/* --------------------------------------------------------------------------- one call */

static bool say(lab_station *s, lab_message *why) {
    return lab_station_stop(s, LAB_FAIL, why->text);
}

static bool call(pairs *p, int way, double *ns, lab_message *why) {
    lab_mirror *m = &p->set->mirror;
    if (m->gpu)
        return lab_device_timer_sample(&p->timer[way], ns, why);
    const uint64_t before = lab_clock_ns();
    const att_status status = lab_prepared_run(p->way[way], &m->any, m->workspace, NULL, why);
    *ns = (double)(lab_clock_ns() - before);
    return status == ATT_OK;
}

static bool open_pairs(pairs *p, lab_station *s, const lab_prepared *first,
                       const lab_prepared *second, size_t most, lab_message *why) {
    const double sights = 0.5 * pairs_ns / (MEMORY_PAIRS * s->estimate_ns) - 1.0;
    const bool cheap = !lab_station_on_gpu(s) || lab_spec_bytes(s->owner->spec) < sent_bytes;
    *p = (pairs){.station = s, .set = &s->sets[0], .way = {first, second}, .sights = 1};
    if (cheap && sights > 1.0)
        p->sights = sights < SIGHTS_MOST ? (int)sights : SIGHTS_MOST;
    const double fit = pairs_ns / ((2.0 + 2.0 * p->sights) * s->estimate_ns);
    p->count = fit < PAIRS_FEWEST ? PAIRS_FEWEST : fit > (double)most ? most : (size_t)fit;
    for (int i = 0; i < 2 && p->set->mirror.gpu; i++)
        if (!lab_device_timer_open(&p->timer[i], &p->set->mirror, p->way[i], 1, why))
            return false;
    p->finished = malloc(lab_tensors_output_bytes(p->set->tensors) + 1);
    return p->finished || lab_fail(why, "no memory for a copy of the outputs");
}

static void close_pairs(pairs *p) {
    for (int i = 0; i < 2; i++)
        lab_device_timer_close(&p->timer[i]);
    free(p->finished);
}

/* ----------------------------------------------------------------- remembered answers */

/* Turn the inputs `turns` times, then time a call. Three turns change them, two do not, and
 * both write nearly the same amount. */
static bool call_after(pairs *p, uint64_t seed, int turns, double *ns, lab_message *why) {
    lab_mirror *m = &p->set->mirror;
    for (int n = 0; n < turns; n++)
        lab_tensors_turn(p->set->tensors, seed);
    p->turned ^= turns % 2 != 0;
    return lab_mirror_upload_inputs(m, why) && lab_mirror_upload_outputs(m, why) &&
           call(p, 0, ns, why) && lab_mirror_download_outputs(m, why);
}

/* Repeat calls on the same inputs and outputs, which are rewritten before each; the time is
 * that of the last call. */
static bool call_on_seen(pairs *p, uint64_t seed, double *ns, lab_message *why) {
    lab_tensors_keep_outputs(p->set->tensors, p->finished);
    for (int n = 0; n < p->sights; n++) {
        lab_tensors_put_outputs(p->set->tensors, p->finished);
        if (!call_after(p, seed, 2, ns, why))
            return false;
    }
    return true;
}

/* One call on changed inputs and poisoned outputs, then several on the same ones, of which the
 * last is timed: some subjects remember only inputs that they have met a few times. As many
 * calls come before the first: a call that follows other calls is faster than a single one. */
static bool time_pair(pairs *p, uint64_t seed, double ns[2], lab_message *why) {
    double untimed;
    if (!call_on_seen(p, seed, &untimed, why))
        return false;
    lab_tensors_poison_outputs(p->set->tensors);
    return call_after(p, seed, 3, &ns[0], why) && call_on_seen(p, seed, &ns[1], why);
}

/* An answer to the previous inputs is wrong in the turned rows. */
static bool turned_rows_are_right(pairs *p, uint64_t seed, lab_message *why) {
    lab_tensors *t = p->set->tensors;
    lab_row rows[LAB_TURNED];
    const lab_verify_options options = {.rows = rows,
                                        .row_count = lab_tensors_turned_rows(t, seed, rows)};
    lab_verify_result r = p->station->owner->verify;
    r.message[0] = '\0';
    lab_verify_outputs(&r, t, &options);
    return r.outcome == LAB_PASS || lab_fail(why, "%s", r.message);
}

/* Check the last call on changed inputs, which found an answer in its outputs, and the first,
 * which found poison. */
static bool both_are_right(pairs *p, uint64_t seed, lab_message *why) {
    if (!turned_rows_are_right(p, seed, why))
        return false;
    lab_tensors_put_outputs(p->set->tensors, p->finished);
    return turned_rows_are_right(p, seed, why);
}

static bool fresh_and_seen(pairs *p, double ns[2], lab_message *why) {
    const uint64_t seed = lab_entropy();
    double untimed;
    if (!call(p, 0, &untimed, why) || !lab_mirror_download_outputs(&p->set->mirror, why))
        return false;
    const bool ok = time_pair(p, seed, ns, why) && both_are_right(p, seed, why);
    if (p->turned)
        lab_tensors_turn(p->set->tensors, seed);
    p->turned = false;
    return ok;
}

/* --------------------------------------------------------------------- updated answers */

/* Write every input, and poison the outputs, then time a call. */
static bool call_on_written(pairs *p, uint64_t seed, double *ns, lab_message *why) {
    lab_tensors *t = p->set->tensors;
    lab_mirror *m = &p->set->mirror;
    lab_tensors_poison_outputs(t);
    return lab_tensors_renew(t, seed, why) && lab_mirror_upload_inputs(m, why) &&
           lab_mirror_upload_outputs(m, why) && call(p, 0, ns, why) &&
           lab_mirror_download_outputs(m, why);
}

/* Some rows, drawn after the call. */
static bool drawn_rows_are_right(pairs *p, lab_message *why) {
    const lab_verify_options options = {.max_work = 1000000};
    lab_verify_result r = p->station->owner->verify;
    r.message[0] = '\0';
    lab_verify_outputs(&r, p->set->tensors, &options);
    return r.outcome == LAB_PASS || lab_fail(why, "%s", r.message);
}

/* Inputs of which nothing is as before; then the same ones, written once more. Inputs that are
 * turned differ in a few rows: what such a change does to kept sums can be added to them. */
static bool all_new_and_same(pairs *p, double ns[2], lab_message *why) {
    const uint64_t seed = lab_entropy();
    double untimed;
    const bool ok = call_on_written(p, p->set->seed, &untimed, why) &&
                    call_on_written(p, seed, &ns[0], why) && drawn_rows_are_right(p, why) &&
                    call_on_written(p, seed, &ns[1], why);
    lab_message ignored;
    return lab_tensors_renew(p->set->tensors, p->set->seed, ok ? why : &ignored) && ok;
}

/* ------------------------------------------------------------------------- handicaps */

static bool run_and_direct(pairs *p, double ns[2], lab_message *why) {
    double untimed;
    return call(p, 0, &untimed, why) && call(p, 0, &ns[0], why) && call(p, 1, &untimed, why) &&
           call(p, 1, &ns[1], why);
}

/* -------------------------------------------------------------------------- verdicts */

typedef bool taking(pairs *p, double ns[2], lab_message *why);

static bool exceeds(const double ns[2], double share) {
    return ns[0] > (1.0 + share) * ns[1] + clock_slack_ns;
}

/* The ratio of the fastest first call to the fastest second call; 0 if it is not longer by
 * `share` and by more than the uncertainty of the clock; negative if a call failed. Noise only
 * adds time, so the fastest calls are the least disturbed. A memory shows in most pairs as
 * well; a machine that has become slower does not. */
static double slower_by(pairs *p, taking *take, double share, lab_message *why) {
    double fastest[2] = {0.0, 0.0};
    size_t slower = 0;
    for (size_t i = 0; i < p->count; i++) {
        double ns[2];
        if (!take(p, ns, why))
            return -1.0;
        slower += exceeds(ns, share);
        for (int k = 0; k < 2; k++)
            fastest[k] = i == 0 || ns[k] < fastest[k] ? ns[k] : fastest[k];
    }
    if (take != run_and_direct && 2 * slower < p->count)
        return 0.0;
    return exceeds(fastest, share) && fastest[1] > 0.0 ? fastest[0] / fastest[1] : 0.0;
}

/* A difference is believed if it recurs TRIALS times; returns the smallest. */
static double differs_by(pairs *p, taking *take, double share) {
    double least = 0.0;
    for (int n = 0; n < TRIALS; n++) {
        lab_message why;
        const double ratio = slower_by(p, take, share, &why);
        if (ratio < 0.0)
            say(p->station, &why);
        if (ratio <= 0.0)
            return 0.0;
        least = n == 0 || ratio < least ? ratio : least;
    }
    return least;
}

/* Time the case's own call and another one alternately; if `first` takes longer than `second`,
 * the case fails with this text. */
static void examine_pairs(lab_station *s, const lab_prepared *other, size_t most, taking *take,
                          double share, const char *first, const char *second) {
    pairs p;
    lab_message why;
    const bool ok = open_pairs(&p, s, &s->prepared, other, most, &why);
    if (!ok)
        say(s, &why);
    const double ratio = ok ? differs_by(&p, take, share) : 0.0;
    if (ratio > 0.0) {
        lab_fail(&why, "%s takes %.2f times as long as %s", first, ratio, second);
        say(s, &why);
    }
    close_pairs(&p);
}

static void examine_memory(lab_station *s) {
    if (lab_spec_bytes(s->owner->spec) > turned_bytes_most ||
        !lab_tensors_turnable(s->sets[0].tensors))
        return;
    examine_pairs(s, &s->prepared, MEMORY_PAIRS, fresh_and_seen, remembers_share,
                  "a call on inputs and outputs that it has not seen",
                  "one on those it has: it remembers answers");
}

/* Only on the CPU: on a GPU no inputs are turned before samples. */
static void examine_updates(lab_station *s) {
    const double bytes = lab_spec_bytes(s->owner->spec);
    if (lab_station_on_gpu(s) || bytes > sent_bytes ||
        lab_spec_flops(s->owner->spec) < operations_per_byte * bytes ||
        !lab_tensors_turnable(s->sets[0].tensors))
        return;
    examine_pairs(s, &s->prepared, UPDATE_PAIRS, all_new_and_same, remembers_share,
                  "a call on inputs that are all new",
                  "one on those of the call before: it updates its answers");
}

/* The direct call must be right before anything is compared with it. */
static bool direct_is_right(lab_station *s, const lab_prepared *direct, bool *has_one) {
    lab_input_set *set = &s->sets[0];
    const lab_verify_options options = {.max_work = 20000000};
    lab_verify_result r = s->owner->verify;
    lab_message why;
    lab_tensors_poison_outputs(set->tensors);
    *has_one = false;
    if (!lab_mirror_upload_outputs(&set->mirror, &why))
        return lab_station_failed(s, why.text);
    if (lab_prepared_run(direct, &set->mirror.any, set->mirror.workspace, set->mirror.stream,
                         &why) != ATT_OK)
        return true; /* not available for this problem */
    *has_one = true;
    if (!lab_mirror_download_outputs(&set->mirror, &why))
        return lab_station_failed(s, why.text);
    r.message[0] = '\0';
    lab_verify_outputs(&r, set->tensors, &options);
    if (r.outcome == LAB_PASS)
        return true;
    lab_fail(&why, "direct: %s", r.message);
    return say(s, &why);
}

static void examine_direct(lab_station *s) {
    lab_prepared direct;
    bool has_one;
    if (!lab_prepared_direct(&direct, &s->prepared) || !direct_is_right(s, &direct, &has_one) ||
        !has_one)
        return;
    examine_pairs(s, &direct, DIRECT_PAIRS, run_and_direct, handicap_share, "its run",
                  "its own direct call: a rival with a handicap");
}

/* The captured nodes are what is timed. */
static void examine_nodes(lab_station *s) {
    lab_graph_nodes nodes;
    lab_message why;
    const lab_subject *subject = &s->owner->subject;
    if (!s->timer.graph)
        return;
    if (!lab_device_timer_nodes(&s->timer, &nodes, &why)) {
        say(s, &why);
        return;
    }
    s->owner->nodes = nodes;
    const size_t runs = s->timer.runs.calls + s->timer.runs.extra;
    if (nodes.kernels + nodes.copies + nodes.fills + nodes.others == 0 && s->owner->flops > 0.0)
        lab_station_stop(s, LAB_FAIL, "a run puts nothing on its stream");
    else if (!lab_subject_is_attest(subject) &&
             nodes.copies + nodes.fills > subject->copies * runs) {
        lab_fail(
            &why,
            "a run makes %zu copies and %zu fills, and says that it needs %u: a rival with "
            "a handicap",
            nodes.copies / runs, nodes.fills / runs, (unsigned)subject->copies);
        say(s, &why);
    }
}

void lab_fair_examine(lab_station *s) {
    s->owner->spec->operation->record(&s->sets[0].mirror.any,
                                      NULL); /* the record belongs to the timed calls */
    /* The first makes no calls. Handicaps come before memory: a needless copy is slower when
     * its source has just changed, which looks like a remembered answer. */
    void (*const examinations[])(lab_station *) = {examine_nodes, examine_direct,
                                                   examine_memory, examine_updates};
    const size_t count =
        s->estimate_ns > call_most_ns ? 1 : sizeof examinations / sizeof examinations[0];
    for (size_t i = 0; i < count && s->owner->timed; i++)
        examinations[i](s);
}
