/* bench.c: interleaved timing of verified problems. */
#include "lab/measure/bench.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/base/clock.h"
#include "lab/base/entropy.h"
#include "lab/base/interrupt.h"
#include "lab/base/random.h"
#include "lab/measure/forecast.h"
#include "lab/measure/station.h"
#include "lab/measure/station_fair.h"
#include "lab/measure/station_probe.h"
#include "lab/plan/cpu_floor.h"
#include "lab/plan/plan_floor.h"
#include "lab/verify/verify_jobs.h"

lab_bench_options lab_bench_defaults(void) {
    return (lab_bench_options){.min_samples = 20,
                               .max_samples = 2000,
                               .seconds = 1.0,
                               .precision = 0.0025,
                               .warmup_seconds = 0.1};
}

double lab_bench_gflops(const lab_bench_case *timed, double ns) {
    return ns > 0.0 ? timed->flops / ns : 0.0;
}

lab_samples lab_bench_samples(const lab_bench_case *timed) {
    return (lab_samples){.values = timed->samples_ns,
                         .count = timed->sample_count,
                         .process = timed->process,
                         .round = timed->round};
}

bool lab_bench_reserve(lab_bench_case *c, size_t capacity, bool with_readings) {
    double *samples = realloc(c->samples_ns, capacity * sizeof *samples);
    if (samples)
        c->samples_ns = samples;
    uint32_t *process = realloc(c->process, capacity * sizeof *process);
    if (process)
        c->process = process;
    uint32_t *round = realloc(c->round, capacity * sizeof *round);
    if (round)
        c->round = round;
    lab_gpu_reading *readings =
        with_readings ? realloc(c->readings, capacity * sizeof *readings) : NULL;
    if (readings)
        c->readings = readings;
    return samples && process && round && (!with_readings || readings);
}

void lab_bench_free(lab_bench_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        lab_bench_case *c = &cases[i];
        free(c->samples_ns);
        free(c->process);
        free(c->round);
        free(c->readings);
        c->samples_ns = NULL;
        c->process = c->round = NULL;
        c->readings = NULL;
        c->sample_count = 0;
    }
}

double lab_bench_floor_ns(const lab_spec *spec, const lab_device *device, lab_cache_mode mode) {
    lab_work work;
    lab_floor floor;
    lab_work_of(&work, spec);
    if (mode == LAB_WARM && work.bytes <= (double)device->limits.l2_bytes)
        work.bytes = 0.0;
    lab_floor_of(&floor, &work, spec->operation->dtype(spec), device);
    return 1e9 * lab_floor_seconds(&floor);
}

/* The lower bound on the time of a call on the case's GPU. */
static void find_floor(lab_bench_case *c, const lab_bench_options *options) {
    att_context_info info = {.size = sizeof info};
    lab_device device;
    if (att_context_query(c->subject.ctx, &info) == ATT_OK && info.device == ATT_DEVICE_CPU)
        c->least_ns = lab_cpu_floor_ns(c->spec);
    /* A call may return to the host long before the GPU has finished. */
    if (options->timer == LAB_TIMER_LATENCY || info.device != ATT_DEVICE_CUDA ||
        !lab_device_live(&device, info.device_index, NULL))
        return;
    c->floor_ns = lab_bench_floor_ns(c->spec, &device, options->mode);
}

/* A time that no machine of its kind can reach means that the measurement is wrong. */
static void judge_time(lab_station *s) {
    const lab_bench_case *c = s->owner;
    char text[160];
    const double floor = fmax(c->floor_ns, c->least_ns);
    if (!c->timed || c->ns.median >= floor)
        return;
    snprintf(text, sizeof text, "the median of %.0f ns is below the floor of %.0f ns",
             c->ns.median, floor);
    lab_station_stop(s, LAB_FAIL, text);
}

/* ---------------------------------------------------------------------------- rounds */

/* The stations of a wave, and when their sampling ends. */
typedef struct rounds {
    lab_station *stations;
    size_t count;
    size_t *order; /* of the stations in this round */
    const lab_bench_options *options;
    lab_random random;
    size_t next_look; /* the round before which precision is checked next */
    bool precise;
} rounds;

static void shuffle(rounds *r) {
    for (size_t i = r->count; i > 1; i--) {
        const size_t j = (size_t)lab_random_below(&r->random, (int64_t)i);
        const size_t kept = r->order[i - 1];
        r->order[i - 1] = r->order[j];
        r->order[j] = kept;
    }
}

/* Whether every case would have `min_samples` with one more. */
static bool have_enough(const rounds *r) {
    for (size_t i = 0; i < r->count; i++) {
        const lab_bench_case *c = r->stations[i].owner;
        if (c->timed && c->sample_count + 1 < r->options->min_samples)
            return false;
    }
    return true;
}

/* Whether every median is known precisely enough. Checked each time the number of rounds has
 * grown by a tenth. */
static bool is_precise(rounds *r, size_t round) {
    if (r->options->precision <= 0.0 || round < r->next_look)
        return r->precise;
    r->next_look = round + 1 + round / 10;
    r->precise = true;
    for (size_t i = 0; r->precise && i < r->count; i++) {
        const lab_bench_case *c = r->stations[i].owner;
        if (c->timed)
            r->precise =
                lab_half_width(c->samples_ns, c->sample_count) <= r->options->precision;
    }
    return r->precise;
}

/* Whether this round is the last. A machine that throttles all the time gets twice as many
 * rounds. */
static bool is_last(rounds *r, size_t round, bool time_is_up) {
    const lab_bench_options *o = r->options;
    if (round + 1 >= o->max_samples)
        return true;
    if (!have_enough(r))
        return time_is_up && round + 1 >= 2 * o->min_samples;
    return time_is_up || is_precise(r, round);
}

/* In a round longer than this many seconds the bar names the case that is being timed. */
static const double long_round = 0.5;

/* `finished` cases came before these. `next` is timed next; NULL: a round has ended. */
static void show(const rounds *r, lab_progress *bar, size_t finished, size_t round,
                 double elapsed, const lab_bench_case *next) {
    const lab_forecast f = lab_forecast_of(r->options, r->count, round, elapsed);
    char what[LAB_SPEC_MAX + 64];
    int used = 0;
    if (round > 0)
        used = snprintf(what, sizeof what, "%.0f s of about %.0f, ", elapsed, f.seconds);
    used += snprintf(what + used, sizeof what - (size_t)used, "round %zu%s",
                     round + (next != 0), next ? ", " : "");
    if (next)
        lab_spec_print(next->spec, what + used, sizeof what - (size_t)used);
    lab_progress_update(bar, finished + (size_t)(f.share * (double)r->count), what);
}

static bool sample_in_rounds(rounds *r, lab_progress *bar, size_t finished) {
    const double budget_ns = r->options->seconds * 1e9 * (double)r->count;
    const uint64_t start = lab_clock_ns();
    bool last = false;
    for (size_t round = 0; !last; round++) {
        const double elapsed = (double)(lab_clock_ns() - start);
        last = is_last(r, round, elapsed >= budget_ns) || lab_interrupted();
        shuffle(r);
        for (size_t i = 0; i < r->count; i++) {
            lab_station *s = &r->stations[r->order[i]];
            if (round == 0 || elapsed / 1e9 > long_round * (double)round)
                show(r, bar, finished, round, elapsed / 1e9, s->owner);
            const bool probed = s->owner->timed && lab_probe_is_due(s, round);
            const bool before = probed && lab_entropy() % 2;
            if (before)
                lab_probe_take(s);
            if (s->owner->timed && !lab_station_sample(s, round, last))
                return false;
            if (probed && !before && s->owner->timed)
                lab_probe_take(s);
        }
        show(r, bar, finished, round + 1, 1e-9 * (double)(lab_clock_ns() - start), NULL);
    }
    return true;
}

static bool sample_all(lab_station *stations, size_t count, const lab_bench_options *options,
                       lab_progress *bar, size_t finished) {
    rounds r = {.stations = stations,
                .count = count,
                .order = malloc(count * sizeof *r.order),
                .options = options};
    for (size_t i = 0; r.order && i < count; i++)
        r.order[i] = i;
    lab_random_seed(&r.random, options->seed, 2);
    const bool ok = r.order && sample_in_rounds(&r, bar, finished);
    free(r.order);
    return ok;
}

/* Work on streams other than the timed one is not in the time. */
static void judge_streams(lab_station *s) {
    if (s->owner->timed && lab_station_on_gpu(s) && lab_device_timer_missed_work(&s->timer))
        lab_station_stop(s, LAB_FAIL,
                         "after most samples the GPU was still at work on another stream");
}

/* A case that lost most of its samples has no usable result. */
static void judge_loss(lab_station *s) {
    const lab_bench_case *c = s->owner;
    char reasons[128], text[256];
    if (!c->timed || c->sample_count > c->discarded)
        return;
    lab_slow_reasons(c->discarded_for, reasons, sizeof reasons);
    snprintf(text, sizeof text, "%zu of %zu samples were thrown away: the GPU throttled (%s)",
             c->discarded, c->discarded + c->sample_count, reasons);
    lab_station_stop(s, LAB_FAIL, text);
}

/* Time the cases of stations[0 .. count), all of which are open. */
static bool time_wave(lab_station *stations, size_t count, const lab_bench_options *options,
                      lab_progress *bar, size_t finished, lab_message *why) {
    for (size_t i = 0; i < count; i++) {
        if (!stations[i].owner->timed)
            continue;
        char line[LAB_SPEC_MAX + 16] = "warming up, ";
        lab_spec_print(stations[i].owner->spec, line + 12, sizeof line - 12);
        lab_progress_update(bar, finished, line);
        lab_station_warm_up(&stations[i], options->warmup_seconds);
    }
    for (size_t i = 0; i < count; i++)
        if (stations[i].owner->timed)
            lab_station_agree(&stations[i], stations, count);
    if (!sample_all(stations, count, options, bar, finished))
        return lab_fail(why, "no memory for the samples");
    for (size_t i = 0; i < count; i++) {
        lab_bench_case *c = stations[i].owner;
        judge_loss(&stations[i]);
        judge_streams(&stations[i]);
        if (c->timed &&
            !lab_summarise(&c->ns, c->samples_ns, c->sample_count, options->seed, why))
            return false;
        judge_time(&stations[i]);
        lab_probe_judge(&stations[i]);
        lab_fair_examine(&stations[i]);
    }
    return true;
}

/* The bytes of tensors that may be held at once: a quarter of the memory. */
static double memory_allowance(void) {
    return 0.25 * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

/* The cases while they are verified. */
typedef struct verification {
    lab_bench_case *cases;
    const lab_bench_options *bench;
    pthread_mutex_t lock; /* of the other fields */
    lab_progress bar;
    size_t finished;
} verification;

static void verify_case(void *context, size_t i) {
    verification *v = context;
    lab_bench_case *c = &v->cases[i];
    const lab_verify_options options = {
        .seed = v->bench->seed, .rows_seed = v->bench->rows_seed, .store = v->bench->store};
    c->unreached = true;
    if (lab_interrupted() || c->twin)
        return;
    char line[LAB_SPEC_MAX];
    lab_spec_print(c->spec, line, sizeof line);
    pthread_mutex_lock(&v->lock);
    lab_progress_update(&v->bar, v->finished++, line);
    pthread_mutex_unlock(&v->lock);
    lab_verify_subject(&c->verify, &c->subject, c->spec, &options);
    c->unreached = c->verify.outcome == LAB_PASS;
}

static bool verify_cases(lab_bench_case *cases, size_t count, const lab_bench_options *bench,
                         FILE *stream) {
    verification v = {.cases = cases, .bench = bench, .lock = PTHREAD_MUTEX_INITIALIZER};
    const lab_spec **specs = malloc((count + 1) * sizeof *specs);
    if (!specs)
        return false;
    for (size_t i = 0; i < count; i++)
        specs[i] = cases[i].spec;
    lab_progress_start(&v.bar, stream, "verifying", count);
    lab_verify_each(specs, count, bench->at_once, verify_case, &v);
    lab_progress_end(&v.bar);
    for (size_t i = 0; i < count; i++) {
        lab_bench_case *c = &cases[i];
        if (c->twin && !lab_interrupted()) {
            c->verify = c->twin->verify;
            c->unreached = c->verify.outcome == LAB_PASS;
        }
        c->flops = lab_spec_flops(c->spec);
        find_floor(c, bench);
    }
    free(specs);
    return true;
}

/* Open the cases from *next on that passed, as many as fit in memory together but at least one;
 * *next becomes the first case that was not considered. Returns how many are open. */
static size_t open_wave(lab_station *stations, lab_bench_case *cases, size_t count,
                        size_t *next, const lab_bench_options *options,
                        lab_cache_flush *flush) {
    size_t open = 0;
    double held = 0.0;
    for (; *next < count; ++*next) {
        lab_bench_case *c = &cases[*next];
        if (c->verify.outcome != LAB_PASS)
            continue;
        c->unreached = false;
        const lab_station *lender = lab_station_lender(stations, open, c);
        const double bytes = lender ? 0.0 : lab_spec_bytes(c->spec);
        if (open > 0 && held + bytes > memory_allowance()) {
            c->unreached = true; /* until the next wave */
            break;
        }
        if (lab_station_open(&stations[open], c, options, flush, lender)) {
            held += bytes;
            open++;
        }
    }
    return open;
}

bool lab_bench_run(lab_bench_case *cases, size_t count, const lab_bench_options *options,
                   FILE *stream, lab_message *why) {
    const bool verified = verify_cases(cases, count, options, stream);
    lab_station *stations = verified ? calloc(count ? count : 1, sizeof *stations) : NULL;
    if (!stations)
        return lab_fail(why, "no memory for %zu cases", count);
    lab_cache_flush flush = {.block = NULL};
    lab_progress bar;
    lab_progress_start(&bar, stream, "timing", count);
    bool ok = true;
    for (size_t next = 0; ok && next < count && !lab_interrupted();) {
        const size_t finished = next;
        const size_t open = open_wave(stations, cases, count, &next, options, &flush);
        if (open > 0)
            ok = time_wave(stations, open, options, &bar, finished, why);
        for (size_t i = open; i-- > 0;) /* borrowers before lenders */
            lab_station_close(&stations[i]);
    }
    lab_progress_end(&bar);
    lab_cache_flush_close(&flush);
    free(stations);
    return ok;
}
