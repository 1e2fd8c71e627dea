/* station.c: one case prepared, run and timed. */
#include "lab/station.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/clock.h"
#include "lab/station_judge.h"

/* A sample shorter than this is made of several calls; one below the last gets a sample before it
 * that is not timed, to bring its inputs back into the cache that the other cases used. */
static const double shortest_sample_ns = 20e3, shortest_gpu_sample_ns = 100e3,
                    warm_before_ns = 5e6;

/* Runs in one graph at most. */
enum { GRAPH_CALLS_MOST = 256 };

bool lab_station_stop(lab_station *s, lab_outcome outcome, const char *text) {
    lab_verify_result *r = &s->owner->verify;
    s->owner->timed = false;
    r->outcome = outcome;
    snprintf(r->message, sizeof r->message, "%s", text);
    return false;
}

bool lab_station_failed(lab_station *s, const char *text) {
    s->owner->verify.status = att_last_error()->status;
    return lab_station_stop(s, LAB_FAIL, text);
}

void lab_station_close(lab_station *s) {
    lab_device_timer_close(&s->timer);
    lab_mirror_close(&s->mirror);
    lab_prepared_destroy(&s->prepared);
    lab_tensors_destroy(s->tensors);
    lab_workspace_destroy(&s->workspace);
    memset(s, 0, sizeof *s);
}

bool lab_station_open(lab_station *s, lab_bench_case *c, uint64_t seed) {
    *s = (lab_station){.owner = c, .seed = seed};
    lab_message why = {.text = ""};
    const att_status status =
        lab_subject_prepare(&s->prepared, &c->subject, &c->spec->problem, &why);
    if (status != ATT_OK) {
        c->verify.status = status;
        return lab_station_stop(s, status == ATT_E_SYSTEM ? LAB_FAIL : LAB_REFUSED, why.text);
    }
    if (!lab_tensors_create(&s->tensors, c->spec, seed, &why) ||
        !lab_workspace_create(&s->workspace, lab_prepared_workspace(&s->prepared), &why) ||
        !lab_mirror_tensors(&s->mirror, c->subject.ctx, s->tensors, &s->workspace, &why)) {
        lab_station_stop(s, LAB_REFUSED, why.text);
        lab_station_close(s);
        return false;
    }
    s->mirror.args.launch = &c->launch;
    s->next_judged = lab_judge_next(0);
    c->timed = true;
    return true;
}

bool lab_station_run(lab_station *s) {
    lab_message why;
    const att_status status =
        lab_prepared_run(&s->prepared, &s->mirror.args, s->mirror.workspace, NULL, &why);
    if (status == ATT_OK)
        return true;
    s->owner->verify.status = status;
    return lab_station_stop(s, LAB_FAIL, why.text);
}

bool lab_station_time(lab_station *s, double *ns) {
    lab_message why;
    if (s->mirror.gpu)
        return lab_device_timer_sample(&s->timer, ns, &why) || lab_station_failed(s, why.text);
    const size_t calls = s->owner->calls_per_sample;
    const uint64_t before = lab_clock_ns();
    for (size_t i = 0; i < calls; i++)
        if (!lab_station_run(s))
            return false;
    *ns = (double)(lab_clock_ns() - before) / (double)calls;
    return true;
}

bool lab_station_set_calls(lab_station *s, size_t calls) {
    lab_message why;
    s->owner->calls_per_sample = calls;
    if (!s->mirror.gpu)
        return true;
    lab_device_timer_close(&s->timer);
    return lab_device_timer_open(&s->timer, &s->mirror, &s->prepared, calls, &why) ||
           lab_station_failed(s, why.text);
}

bool lab_station_warm_up(lab_station *s, double seconds) {
    const uint64_t start = lab_clock_ns();
    const double budget_ns = seconds * 1e9;
    double fastest = 0.0, elapsed;
    if (!lab_station_set_calls(s, 1))
        return false;
    do {
        double ns = 0.0;
        if (!lab_station_time(s, &ns))
            return false;
        fastest = fastest == 0.0 || ns < fastest ? ns : fastest;
        elapsed = (double)(lab_clock_ns() - start);
    } while (elapsed < budget_ns);
    s->estimate_ns = fastest > 1.0 ? fastest : 1.0;
    const double shortest = s->mirror.gpu ? shortest_gpu_sample_ns : shortest_sample_ns;
    const size_t calls = 1 + (size_t)(shortest / s->estimate_ns);
    return lab_station_set_calls(
        s, s->mirror.gpu && calls > GRAPH_CALLS_MOST ? GRAPH_CALLS_MOST : calls);
}

static bool keep_sample(lab_station *s, double ns) {
    lab_bench_case *c = s->owner;
    if (c->sample_count == s->capacity) {
        const size_t capacity = s->capacity ? 2 * s->capacity : 64;
        double *grown = realloc(c->samples_ns, capacity * sizeof *grown);
        if (!grown)
            return false;
        c->samples_ns = grown;
        s->capacity = capacity;
    }
    c->samples_ns[c->sample_count++] = ns;
    return true;
}

static bool bring_into_cache(lab_station *s) {
    double ns;
    return s->estimate_ns >= warm_before_ns ||
           (s->mirror.gpu ? lab_station_time(s, &ns) : lab_station_run(s));
}

bool lab_station_sample(lab_station *s, size_t round, bool last) {
    const bool judged = round == 0 || last || round == s->next_judged;
    double ns;
    if (judged && round > 0 && !lab_judge_renew(s, last))
        return true;
    if (!bring_into_cache(s) || (judged && !lab_judge_poison(s)) || !lab_station_time(s, &ns))
        return true;
    lab_judge_glance glance = {0};
    if (judged)
        lab_judge_look(&glance, s);
    if (!keep_sample(s, ns))
        return false;
    if (judged) {
        lab_judge_answer(s, &glance, round == 0, last);
        s->next_judged = lab_judge_next(round);
    }
    return true;
}
