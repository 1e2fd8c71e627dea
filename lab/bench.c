/* bench.c: interleaved timing of verified problems. */
#include "lab/bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/clock.h"
#include "lab/device_memory.h"
#include "lab/device_timer.h"
#include "lab/plan_floor.h"
#include "lab/tensors.h"

/* A sample shorter than this is made of several calls; one below the last gets a sample before it
 * that is not timed, to bring its inputs back into the cache that the other cases used. */
static const double shortest_sample_ns = 20e3, shortest_gpu_sample_ns = 100e3,
                    warm_before_ns = 5e6;

/* Runs in one graph at most. */
enum { GRAPH_CALLS_MOST = 256 };

/* Multiply-adds for judging the timed answer: a sample of rows, on top of the full verification. */
enum { TIMED_ANSWER_WORK = 20000000 };

/* What one case holds while it is timed. */
typedef struct station {
    lab_bench_case *owner;
    lab_prepared prepared;
    lab_tensors *tensors;
    lab_buffer workspace;
    lab_mirror mirror;
    lab_device_timer timer; /* on a GPU */
    double estimate_ns;     /* of one call */
    uint64_t answer;        /* hash of the outputs, taken in the first round */
    size_t capacity;
} station;

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

static void case_failed(lab_bench_case *c, lab_outcome outcome, const char *text) {
    c->timed = false;
    c->verify.outcome = outcome;
    snprintf(c->verify.message, sizeof c->verify.message, "%s", text);
}

static void station_close(station *s) {
    lab_device_timer_close(&s->timer);
    lab_mirror_close(&s->mirror);
    lab_prepared_destroy(&s->prepared);
    lab_tensors_destroy(s->tensors);
    lab_workspace_destroy(&s->workspace);
    memset(s, 0, sizeof *s);
}

/* A call failed: the timing of the case ends here. */
static bool station_failed(station *s, const char *text) {
    s->owner->verify.status = att_last_error()->status;
    case_failed(s->owner, LAB_FAIL, text);
    return false;
}

static bool run_once(station *s) {
    lab_message why;
    const att_status status =
        lab_prepared_run(&s->prepared, &s->mirror.args, s->mirror.workspace, NULL, &why);
    if (status == ATT_OK)
        return true;
    s->owner->verify.status = status;
    case_failed(s->owner, LAB_FAIL, why.text);
    return false;
}

/* Time the calls of one sample; *ns is the time of one call. */
static bool time_calls(station *s, double *ns) {
    lab_message why;
    if (s->mirror.gpu)
        return lab_device_timer_sample(&s->timer, ns, &why) || station_failed(s, why.text);
    const size_t calls = s->owner->calls_per_sample;
    const uint64_t before = lab_clock_ns();
    for (size_t i = 0; i < calls; i++)
        if (!run_once(s))
            return false;
    *ns = (double)(lab_clock_ns() - before) / (double)calls;
    return true;
}

/* How many calls a sample has from now on. */
static bool set_calls(station *s, size_t calls) {
    lab_message why;
    s->owner->calls_per_sample = calls;
    if (!s->mirror.gpu)
        return true;
    lab_device_timer_close(&s->timer);
    return lab_device_timer_open(&s->timer, &s->mirror, &s->prepared, calls, &why) ||
           station_failed(s, why.text);
}

/* Subject, inputs, workspace. False where the case cannot be timed; the case then says why. */
static bool station_open(station *s, lab_bench_case *c, uint64_t seed) {
    memset(s, 0, sizeof *s);
    s->owner = c;
    lab_message why = {.text = ""};
    const att_status status =
        lab_subject_prepare(&s->prepared, &c->subject, &c->spec->problem, &why);
    if (status != ATT_OK) {
        c->verify.status = status;
        case_failed(c, LAB_REFUSED, why.text);
        return false;
    }
    if (!lab_tensors_create(&s->tensors, c->spec, seed, &why) ||
        !lab_workspace_create(&s->workspace, lab_prepared_workspace(&s->prepared), &why) ||
        !lab_mirror_tensors(&s->mirror, c->subject.ctx, s->tensors, &s->workspace, &why)) {
        case_failed(c, LAB_REFUSED, why.text);
        station_close(s);
        return false;
    }
    s->mirror.args.launch = &c->launch;
    c->timed = true;
    return true;
}

static bool warm_up(station *s, double seconds) {
    const uint64_t start = lab_clock_ns();
    const double budget_ns = seconds * 1e9;
    double fastest = 0.0, elapsed;
    if (!set_calls(s, 1))
        return false;
    do {
        double ns = 0.0;
        if (!time_calls(s, &ns))
            return false;
        fastest = fastest == 0.0 || ns < fastest ? ns : fastest;
        elapsed = (double)(lab_clock_ns() - start);
    } while (elapsed < budget_ns);
    s->estimate_ns = fastest > 1.0 ? fastest : 1.0;
    const double shortest = s->mirror.gpu ? shortest_gpu_sample_ns : shortest_sample_ns;
    const size_t calls = 1 + (size_t)(shortest / s->estimate_ns);
    return set_calls(s, s->mirror.gpu && calls > GRAPH_CALLS_MOST ? GRAPH_CALLS_MOST : calls);
}

static bool keep_sample(station *s, double ns) {
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

/* One sample, on poisoned outputs if `poisoned`. False where memory ran out; a run that fails ends
 * the timing of its case only. */
static bool take_sample(station *s, bool poisoned) {
    lab_message why;
    double ns;
    if (s->estimate_ns < warm_before_ns && !(s->mirror.gpu ? time_calls(s, &ns) : run_once(s)))
        return true;
    if (poisoned) {
        lab_tensors_poison_outputs(s->tensors);
        if (!lab_mirror_upload_outputs(&s->mirror, &why)) {
            station_failed(s, why.text);
            return true;
        }
    }
    return !time_calls(s, &ns) || keep_sample(s, ns);
}

/* The first checked sample remembers the bits of its answer, later ones compare. */
static bool take_checked_sample(station *s, bool first) {
    lab_message why;
    if (!take_sample(s, true))
        return false;
    if (s->owner->timed && !lab_mirror_download_outputs(&s->mirror, &why))
        station_failed(s, why.text);
    const uint64_t answer = lab_tensors_hash_outputs(s->tensors);
    if (first)
        s->answer = answer;
    else if (s->owner->timed && answer != s->answer)
        case_failed(s->owner, LAB_FAIL, "the first and the last timed run differ");
    return true;
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
static void judge_time(lab_bench_case *c) {
    char text[160];
    if (!c->timed || c->ns.median >= c->floor_ns)
        return;
    snprintf(text, sizeof text, "the median of %.0f ns is below the floor of %.0f ns",
             c->ns.median, c->floor_ns);
    case_failed(c, LAB_FAIL, text);
}

/* The oracle and the guards on what the last timed call left. */
static void judge_timed_answer(station *s, uint64_t seed) {
    lab_bench_case *c = s->owner;
    const lab_verify_options options = {.seed = seed, .max_work = TIMED_ANSWER_WORK};
    lab_verify_result timed = c->verify;
    timed.message[0] = '\0';
    lab_message why = {.text = ""};
    if (!lab_mirror_download_inputs(&s->mirror, &why)) {
        station_failed(s, why.text);
        return;
    }
    lab_verify_outputs(&timed, s->tensors, &options);
    if (timed.outcome != LAB_PASS)
        case_failed(c, LAB_FAIL, timed.message);
    else if (!lab_tensors_check(s->tensors, &why) || !lab_workspace_check(&s->workspace, &why))
        case_failed(c, LAB_FAIL, why.text);
}

/* `finished` cases came before these; for the progress bar. */
static bool sample_in_rounds(station *stations, size_t count, const lab_bench_options *options,
                             lab_progress *bar, size_t finished) {
    const double budget_ns = options->seconds * 1e9 * (double)count;
    const uint64_t start = lab_clock_ns();
    bool last = false;
    for (size_t round = 0; !last; round++) {
        const double elapsed = (double)(lab_clock_ns() - start);
        last = round + 1 >= options->max_samples ||
               (round + 1 >= options->min_samples && elapsed >= budget_ns);
        for (size_t i = 0; i < count; i++) {
            station *s = &stations[i];
            if (!s->owner->timed)
                continue;
            const bool first = round == 0;
            if (!(first || last ? take_checked_sample(s, first) : take_sample(s, false)))
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
static bool time_wave(station *stations, size_t count, const lab_bench_options *options,
                      lab_progress *bar, size_t finished, lab_message *why) {
    for (size_t i = 0; i < count; i++)
        if (stations[i].owner->timed)
            warm_up(&stations[i], options->warmup_seconds);
    if (!sample_in_rounds(stations, count, options, bar, finished))
        return lab_fail(why, "no memory for the samples");
    for (size_t i = 0; i < count; i++) {
        lab_bench_case *c = stations[i].owner;
        if (c->timed)
            judge_timed_answer(&stations[i], options->seed);
        if (c->timed &&
            !lab_summarise(&c->ns, c->samples_ns, c->sample_count, options->seed, why))
            return false;
        judge_time(c);
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
static size_t open_wave(station *stations, lab_bench_case *cases, size_t count, size_t *next,
                        uint64_t seed) {
    size_t open = 0;
    double held = 0.0;
    for (; *next < count; ++*next) {
        lab_bench_case *c = &cases[*next];
        if (c->verify.outcome != LAB_PASS)
            continue;
        const double bytes = lab_spec_bytes(c->spec);
        if (open > 0 && held + bytes > memory_allowance())
            break;
        if (station_open(&stations[open], c, seed)) {
            held += bytes;
            open++;
        }
    }
    return open;
}

bool lab_bench_run(lab_bench_case *cases, size_t count, const lab_bench_options *options,
                   FILE *stream, lab_message *why) {
    verify_cases(cases, count, options->seed, stream);
    station *stations = calloc(count ? count : 1, sizeof *stations);
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
            station_close(&stations[i]);
    }
    lab_progress_end(&bar);
    free(stations);
    return ok;
}
