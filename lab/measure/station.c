/* station.c: prepares, runs and times one case. */
#include "lab/measure/station.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lab/base/clock.h"
#include "lab/base/entropy.h"
#include "lab/measure/station_judge.h"
#include "lab/measure/station_turn.h"

/* A warm sample shorter than this consists of several calls. If a call takes longer than the
 * last of these, nothing is run before it to bring its inputs back into the cache that the
 * other cases used. */
static const double shortest_sample_ns = 20e3, shortest_gpu_sample_ns = 100e3,
                    warm_before_ns = 5e6;

/* The most runs in one graph, and the most launches that the GPU may lag behind the host. */
enum { GRAPH_CALLS_MOST = 256, LAUNCHES_MOST = 64 };

bool lab_station_on_gpu(const lab_station *s) {
    return s->sets[0].mirror.gpu != NULL;
}

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

/* ------------------------------------------------------------------------------ life */

static void set_close(lab_input_set *set) {
    const bool borrows = set->mirror.borrows;
    lab_mirror_close(&set->mirror);
    if (!borrows)
        lab_tensors_destroy(set->tensors);
    lab_workspace_destroy(&set->workspace);
    memset(set, 0, sizeof *set);
}

static bool set_open(lab_station *s, lab_input_set *set, uint64_t seed, lab_message *why) {
    lab_bench_case *c = s->owner;
    *set = (lab_input_set){.seed = seed};
    if (!lab_tensors_create(&set->tensors, c->spec, seed, why) ||
        !lab_workspace_create(&set->workspace, lab_prepared_workspace(&s->prepared), why) ||
        !lab_mirror_tensors(&set->mirror, c->subject.ctx, set->tensors, &set->workspace, why)) {
        set_close(set);
        return false;
    }
    lab_mirror_pin(&set->mirror);
    c->spec->operation->record(&set->mirror.any, &c->launch);
    return true;
}

/* The tensors of `lender`, at the same addresses. */
static bool set_borrow(lab_station *s, lab_input_set *set, const lab_input_set *lender,
                       lab_message *why) {
    *set = (lab_input_set){.tensors = lender->tensors, .seed = lender->seed};
    if (!lab_workspace_create(&set->workspace, lab_prepared_workspace(&s->prepared), why))
        return false;
    if (!lab_mirror_borrow(&set->mirror, &lender->mirror, &set->workspace, why)) {
        lab_workspace_destroy(&set->workspace);
        return false;
    }
    s->owner->spec->operation->record(&set->mirror.any, &s->owner->launch);
    return true;
}

static bool same_device(const att_context *a, const att_context *b) {
    att_context_info info[2] = {{.size = sizeof info[0]}, {.size = sizeof info[1]}};
    return att_context_query(a, &info[0]) == ATT_OK &&
           att_context_query(b, &info[1]) == ATT_OK && info[0].device == info[1].device &&
           info[0].device_index == info[1].device_index;
}

const lab_station *lab_station_lender(const lab_station *stations, size_t count,
                                      const lab_bench_case *c) {
    char wanted[LAB_SPEC_MAX], line[LAB_SPEC_MAX];
    lab_spec_print(c->spec, wanted, sizeof wanted);
    for (size_t i = 0; i < count; i++) {
        lab_spec_print(stations[i].owner->spec, line, sizeof line);
        if (strcmp(line, wanted) == 0 &&
            same_device(stations[i].owner->subject.ctx, c->subject.ctx))
            return &stations[i];
    }
    return NULL;
}

void lab_station_close(lab_station *s) {
    lab_device_timer_close(&s->timer);
    lab_prepared_destroy(&s->prepared); /* it may still have work in flight that it should not
                                         * have */
    for (size_t i = 0; i < s->set_count; i++)
        set_close(&s->sets[i]);
    lab_nvml_close(s->nvml);
    memset(s, 0, sizeof *s);
}

/* The number of copies that fit together in half the second-level cache, including the
 * first. */
static size_t sets_wanted(const lab_station *s) {
    const double bytes = lab_spec_bytes(s->owner->spec);
    const double room = 0.5 * (double)lab_cache_second_level(&s->sets[0].mirror);
    if (s->options->mode == LAB_COLD || bytes * 2.0 > room)
        return 1;
    return bytes * LAB_INPUT_SETS <= room ? LAB_INPUT_SETS : (size_t)(room / bytes);
}

static void find_nvml(lab_station *s) {
    att_context_info info = {.size = sizeof info};
    if (lab_station_on_gpu(s) && att_context_query(s->owner->subject.ctx, &info) == ATT_OK)
        s->nvml = lab_nvml_open(info.gpu_uuid, NULL);
}

/* Open its own sets: the first, and as many more as memory allows. */
static bool open_sets(lab_station *s, lab_message *why) {
    const uint64_t seed = s->options->seed + 1;
    if (!set_open(s, &s->sets[0], seed, why))
        return false;
    const size_t wanted = sets_wanted(s);
    for (s->set_count = 1; s->set_count < wanted; s->set_count++)
        if (!set_open(s, &s->sets[s->set_count], seed + s->set_count, why))
            break;
    return true;
}

/* Borrow as many sets as the lender has. */
static bool borrow_sets(lab_station *s, const lab_station *lender, lab_message *why) {
    for (; s->set_count < lender->set_count; s->set_count++)
        if (!set_borrow(s, &s->sets[s->set_count], &lender->sets[s->set_count], why))
            return false;
    return true;
}

bool lab_station_open(lab_station *s, lab_bench_case *c, const lab_bench_options *options,
                      lab_cache_flush *flush, const lab_station *lender) {
    *s = (lab_station){.owner = c, .options = options, .flush = flush};
    lab_message why = {.text = ""};
    const att_status status = lab_subject_prepare(&s->prepared, &c->subject, c->spec, &why);
    if (status != ATT_OK) {
        c->verify.status = status;
        return lab_station_stop(s, lab_outcome_of(status), why.text);
    }
    if (lender ? !borrow_sets(s, lender, &why) : !open_sets(s, &why)) {
        lab_station_stop(s, LAB_REFUSED, why.text);
        lab_station_close(s);
        return false;
    }
    for (size_t i = 0; i < s->set_count; i++)
        s->mirrors[i] = &s->sets[i].mirror;
    find_nvml(s);
    s->next_renewed = lab_judge_next(0);
    s->first_turn = lab_entropy();
    c->input_sets = s->set_count;
    c->timed = true;
    return true;
}

/* ---------------------------------------------------------------------------- timing */

/* Call `i` of a sample on the CPU, on the set whose turn it is. */
bool lab_station_call(lab_station *s, size_t i) {
    lab_message why;
    const lab_mirror *m = s->mirrors[(s->turn + i) % s->set_count];
    const att_status status = lab_prepared_run(&s->prepared, &m->any, m->workspace, NULL, &why);
    if (status == ATT_OK)
        return true;
    s->owner->verify.status = status;
    return lab_station_stop(s, LAB_FAIL, why.text);
}

bool lab_station_time(lab_station *s, double *ns) {
    lab_message why;
    if (lab_station_on_gpu(s))
        return lab_device_timer_sample(&s->timer, ns, &why) || lab_station_failed(s, why.text);
    const size_t calls = s->owner->calls_per_sample;
    s->first_used = s->turn;
    const uint64_t before = lab_clock_ns();
    for (size_t i = 0; i < calls + s->owner->extra_calls; i++)
        if (!lab_station_call(s, i))
            return false;
    *ns = (double)(lab_clock_ns() - before) / (double)calls;
    s->turn += calls;
    return true;
}

/* Make the calls of a sample, or enough to fill the cache in the same way, untimed. */
bool lab_station_lead(lab_station *s) {
    lab_message why;
    if (s->estimate_ns >= warm_before_ns)
        return true;
    if (lab_station_on_gpu(s))
        return lab_device_timer_lead(&s->timer, &why) || lab_station_failed(s, why.text);
    const size_t calls = s->owner->calls_per_sample;
    for (size_t i = 0; i < s->set_count && i < calls; i++)
        if (!lab_station_call(s, i))
            return false;
    return true;
}

/* Set the number of calls per sample. */
static bool set_calls(lab_station *s, size_t calls) {
    lab_message why;
    lab_bench_case *c = s->owner;
    c->calls_per_sample = calls;
    c->extra_calls = (size_t)floor(c->slowdown * (double)calls + 0.5);
    if (!lab_station_on_gpu(s))
        return true;
    const lab_timed_runs runs = {.prepared = &s->prepared,
                                 .mirrors = s->mirrors,
                                 .mirror_count = s->set_count,
                                 .calls = calls,
                                 .extra = c->extra_calls};
    lab_device_timer_close(&s->timer);
    return lab_device_timer_open_runs(&s->timer, s->options->timer, &runs, &why) ||
           lab_station_failed(s, why.text);
}

static size_t round_up(size_t n, size_t multiple) {
    return multiple > 1 ? (n + multiple - 1) / multiple * multiple : n;
}

/* The number of calls that make a sample long enough for the clock and use every set
 * equally. */
static size_t calls_wanted(const lab_station *s) {
    if (s->options->mode == LAB_COLD)
        return 1;
    const bool gpu = lab_station_on_gpu(s);
    const double shortest = gpu ? shortest_gpu_sample_ns : shortest_sample_ns;
    const size_t most =
        gpu && s->options->timer == LAB_TIMER_GRAPH ? GRAPH_CALLS_MOST : LAUNCHES_MOST;
    size_t calls = 1 + (size_t)(shortest / s->estimate_ns);
    if (gpu && calls > most)
        calls = most;
    /* On the CPU, single-call samples take the sets in turn. */
    if (calls > 1 || gpu)
        calls = round_up(calls, s->set_count);
    return round_up(calls, s->options->calls_multiple);
}

bool lab_station_warm_up(lab_station *s, double seconds) {
    const uint64_t start = lab_clock_ns();
    const double budget_ns = seconds * 1e9;
    double fastest = 0.0, elapsed;
    if (!set_calls(s, 1))
        return false;
    do {
        double ns = 0.0;
        if (!lab_station_lead(s) || !lab_station_time(s, &ns))
            return false;
        fastest = fastest == 0.0 || ns < fastest ? ns : fastest;
        elapsed = (double)(lab_clock_ns() - start);
    } while (elapsed < budget_ns);
    s->estimate_ns = fastest > 1.0 ? fastest : 1.0;
    double ns = 0.0;
    if (!set_calls(s, calls_wanted(s)) || !lab_station_lead(s) || !lab_station_time(s, &ns))
        return false;
    /* The time of a single call included the wait for its launch; many calls show the time of
     * each. */
    if (ns > 0.0 && ns < s->estimate_ns)
        s->estimate_ns = ns;
    const size_t calls = calls_wanted(s);
    return calls == s->owner->calls_per_sample || set_calls(s, calls);
}

bool lab_station_agree(lab_station *s, const lab_station *stations, size_t count) {
    size_t most = s->owner->calls_per_sample;
    for (size_t i = 0; i < count; i++) {
        const lab_station *other = &stations[i];
        if (other->owner->timed && other->sets[0].tensors == s->sets[0].tensors &&
            other->owner->calls_per_sample > most)
            most = other->owner->calls_per_sample;
    }
    return most == s->owner->calls_per_sample || set_calls(s, most);
}

/* --------------------------------------------------------------------------- samples */

/* Make room for one more sample in every array of the case. */
static bool make_room(lab_station *s) {
    lab_bench_case *c = s->owner;
    if (c->sample_count < s->capacity)
        return true;
    const size_t capacity = s->capacity ? 2 * s->capacity : 64;
    if (!lab_bench_reserve(c, capacity, s->nvml != NULL))
        return false;
    s->capacity = capacity;
    return true;
}

/* Keep the sample unless the GPU throttled. False if memory ran out. */
static bool keep_sample(lab_station *s, size_t round, double ns) {
    lab_bench_case *c = s->owner;
    lab_gpu_reading reading = {.slow = 0};
    if (s->nvml)
        lab_nvml_read(s->nvml, &reading);
    if (reading.slow & LAB_SLOW_THROTTLED) {
        c->discarded++;
        c->discarded_for |= reading.slow & LAB_SLOW_THROTTLED;
        return true;
    }
    c->power_capped += (reading.slow & LAB_SLOW_POWER_CAP) != 0;
    if (!make_room(s))
        return false;
    if (s->nvml)
        c->readings[c->sample_count] = reading;
    c->process[c->sample_count] = 0;
    c->round[c->sample_count] = (uint32_t)round;
    c->samples_ns[c->sample_count++] = ns;
    return true;
}

/* Prepare a sample: caches as the mode requires; outputs poisoned, all of them if the inputs
 * are new; inputs turned by `turn`. */
static bool get_ready(lab_station *s, bool renewed, uint64_t turn) {
    lab_message why;
    if (s->options->mode == LAB_WARM && !lab_station_lead(s))
        return false;
    if (renewed && !lab_judge_poison(s))
        return false;
    lab_turn_all(s, turn);
    return s->options->mode == LAB_WARM || lab_cache_flush_run(s->flush, s->mirrors[0], &why) ||
           lab_station_stop(s, LAB_FAIL, why.text);
}

/* Whether to judge the sample that has just been taken although its inputs are not new. On the
 * GPU outputs are poisoned only if the inputs are new. */
static bool is_drawn(const lab_station *s, size_t round) {
    return lab_turn_is_possible(s) && lab_entropy() % (2 + round) < 2;
}

/* Take the sample and judge it; false if memory ran out. */
static bool take_sample(lab_station *s, size_t round, bool renewed, bool last) {
    double ns;
    const bool same = round == 0 || last; /* these two must give the same bits */
    if (!get_ready(s, renewed, same ? s->first_turn : lab_entropy()) ||
        !lab_station_time(s, &ns))
        return true;
    lab_judge_glance glance;
    lab_judge_look(&glance, s);
    if (!keep_sample(s, round, ns))
        return false;
    if (renewed || is_drawn(s, round))
        lab_judge_answer(s, &glance, round == 0, last, 0);
    return true;
}

bool lab_station_sample(lab_station *s, size_t round, bool last) {
    const bool renewed = round == 0 || last || round == s->next_renewed;
    if (round == s->next_renewed)
        s->next_renewed = lab_judge_next(round);
    if (renewed)
        s->turn = 0; /* the first and the last round use the same sets */
    if (renewed && round > 0 && !lab_judge_renew(s, last))
        return true;
    const bool ok = take_sample(s, round, renewed, last);
    lab_turn_back_all(s);
    return ok;
}
