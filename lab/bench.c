/* bench.c: interleaved timing of verified problems. */
#include "lab/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lab/clock.h"
#include "lab/plan_floor.h"
#include "lab/station.h"

lab_bench_options lab_bench_defaults(void) {
    return (lab_bench_options){
        .min_samples = 20, .max_samples = 2000, .seconds = 1.0, .warmup_seconds = 0.1};
}

double lab_bench_gflops(const lab_bench_case *timed, double ns) {
    return ns > 0.0 ? timed->flops / ns : 0.0;
}

void lab_bench_free(lab_bench_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(cases[i].samples_ns);
        cases[i].samples_ns = NULL;
        cases[i].sample_count = 0;
    }
}

/* The least time of a call on the case's GPU. */
static void find_floor(lab_bench_case *c) {
    att_context_info info = {.size = sizeof info};
    lab_device device;
    if (att_context_query(c->subject.ctx, &info) != ATT_OK || info.device != ATT_DEVICE_CUDA ||
        !lab_device_live(&device, info.device_index, NULL))
        return;
    lab_work work;
    lab_floor floor;
    lab_work_of(&work, c->spec);
    if (work.bytes <= (double)device.limits.l2_bytes)
        work.bytes = 0.0;
    lab_floor_of(&floor, &work, c->spec->problem.dtype, &device);
    c->floor_ns = 1e9 * lab_floor_seconds(&floor);
}

/* A time that no machine of its kind can have is a mistake of the measurement. */
static void judge_time(lab_station *s) {
    const lab_bench_case *c = s->owner;
    char text[160];
    if (!c->timed || c->ns.median >= c->floor_ns)
        return;
    snprintf(text, sizeof text, "the median of %.0f ns is below the floor of %.0f ns",
             c->ns.median, c->floor_ns);
    lab_station_stop(s, LAB_FAIL, text);
}

/* `finished` cases came before these; for the progress bar. */
static bool sample_in_rounds(lab_station *stations, size_t count,
                             const lab_bench_options *options, lab_progress *bar,
                             size_t finished) {
    const double budget_ns = options->seconds * 1e9 * (double)count;
    const uint64_t start = lab_clock_ns();
    bool last = false;
    for (size_t round = 0; !last; round++) {
        const double elapsed = (double)(lab_clock_ns() - start);
        last = round + 1 >= options->max_samples ||
               (round + 1 >= options->min_samples && elapsed >= budget_ns);
        for (size_t i = 0; i < count; i++) {
            if (stations[i].owner->timed && !lab_station_sample(&stations[i], round, last))
                return false;
        }
        char what[64];
        snprintf(what, sizeof what, "round %zu, %.0f s of about %.0f", round + 1, elapsed / 1e9,
                 budget_ns / 1e9);
        const double share = elapsed < budget_ns ? elapsed / budget_ns : 1.0;
        lab_progress_update(bar, finished + (size_t)(share * (double)count), what);
    }
    return true;
}

/* Time the cases of stations[0 .. count), all of which are open. */
static bool time_wave(lab_station *stations, size_t count, const lab_bench_options *options,
                      lab_progress *bar, size_t finished, lab_message *why) {
    for (size_t i = 0; i < count; i++)
        if (stations[i].owner->timed)
            lab_station_warm_up(&stations[i], options->warmup_seconds);
    if (!sample_in_rounds(stations, count, options, bar, finished))
        return lab_fail(why, "no memory for the samples");
    for (size_t i = 0; i < count; i++) {
        lab_bench_case *c = stations[i].owner;
        if (c->timed &&
            !lab_summarise(&c->ns, c->samples_ns, c->sample_count, options->seed, why))
            return false;
        judge_time(&stations[i]);
    }
    return true;
}

/* How many bytes of tensors may be held at once: a quarter of the memory. */
static double memory_allowance(void) {
    return 0.25 * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

static void verify_cases(lab_bench_case *cases, size_t count, uint64_t seed, FILE *stream) {
    const lab_verify_options options = {.seed = seed};
    lab_progress bar;
    lab_progress_start(&bar, stream, "verifying", count);
    for (size_t i = 0; i < count; i++) {
        lab_bench_case *c = &cases[i];
        char line[LAB_SPEC_MAX];
        lab_spec_print(c->spec, line, sizeof line);
        lab_progress_update(&bar, i, line);
        c->flops = lab_spec_flops(c->spec);
        find_floor(c);
        lab_verify_subject(&c->verify, &c->subject, c->spec, &options);
    }
    lab_progress_end(&bar);
}

/* Open the cases from *next on that passed, as many as fit in memory together but one at least;
 * *next becomes the first that was not looked at. Returns how many are open. */
static size_t open_wave(lab_station *stations, lab_bench_case *cases, size_t count,
                        size_t *next, uint64_t seed) {
    size_t open = 0;
    double held = 0.0;
    for (; *next < count; ++*next) {
        lab_bench_case *c = &cases[*next];
        if (c->verify.outcome != LAB_PASS)
            continue;
        const double bytes = lab_spec_bytes(c->spec);
        if (open > 0 && held + bytes > memory_allowance())
            break;
        if (lab_station_open(&stations[open], c, seed)) {
            held += bytes;
            open++;
        }
    }
    return open;
}

bool lab_bench_run(lab_bench_case *cases, size_t count, const lab_bench_options *options,
                   FILE *stream, lab_message *why) {
    verify_cases(cases, count, options->seed, stream);
    lab_station *stations = calloc(count ? count : 1, sizeof *stations);
    if (!stations)
        return lab_fail(why, "no memory for %zu cases", count);
    lab_progress bar;
    lab_progress_start(&bar, stream, "timing", count);
    bool ok = true;
    for (size_t next = 0; ok && next < count;) {
        const size_t finished = next;
        const size_t open = open_wave(stations, cases, count, &next, options->seed + 1);
        if (open > 0)
            ok = time_wave(stations, open, options, &bar, finished, why);
        for (size_t i = 0; i < open; i++)
            lab_station_close(&stations[i]);
    }
    lab_progress_end(&bar);
    free(stations);
    return ok;
}
