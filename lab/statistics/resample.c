/* resample.c: bootstrap draws of whole processes, then of samples within each. */
#include "lab/statistics/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sample and where it came from, for sorting. */
typedef struct origin {
    double value;
    uint32_t process;
} origin;

static int by_value(const void *left, const void *right) {
    return lab_ascending(&((const origin *)left)->value, &((const origin *)right)->value);
}

static uint32_t process_of(const lab_samples *samples, size_t i) {
    return samples->process ? samples->process[i] : 0;
}

static bool check(const lab_samples *samples, lab_message *why) {
    if (samples->count == 0 || samples->count > UINT32_MAX)
        return lab_fail(why, "%zu samples cannot be summarised", samples->count);
    for (size_t i = 0; i < samples->count; i++) {
        if (!isfinite(samples->values[i]))
            return lab_fail(why, "sample %zu is not finite", i);
        if (i > 0 && process_of(samples, i) < process_of(samples, i - 1))
            return lab_fail(why, "sample %zu: its process stands before that of the last", i);
    }
    return true;
}

/* Number the processes that occur from 0 and record where the positions of each will begin. */
static void find_processes(lab_resampler *r, const lab_samples *samples, origin *origins) {
    r->processes = 0;
    for (size_t i = 0; i < samples->count; i++) {
        if (i == 0 || process_of(samples, i) != process_of(samples, i - 1))
            r->first[r->processes++] = i;
        origins[i] = (origin){samples->values[i], (uint32_t)(r->processes - 1)};
    }
    r->first[r->processes] = samples->count;
}

static void place(lab_resampler *r, const origin *sorted) {
    size_t *next = r->first + r->count + 1; /* the second half of the array */
    memcpy(next, r->first, r->processes * sizeof *next);
    for (size_t i = 0; i < r->count; i++) {
        r->sorted[i] = sorted[i].value;
        r->position[next[sorted[i].process]++] = (uint32_t)i;
    }
}

bool lab_resampler_open(lab_resampler *r, const lab_samples *samples, lab_message *why) {
    *r = (lab_resampler){.count = samples->count};
    if (!check(samples, why))
        return false;
    origin *origins = malloc(r->count * sizeof *origins);
    r->sorted = malloc(r->count * sizeof *r->sorted);
    r->position = malloc(r->count * sizeof *r->position);
    r->first = malloc(2 * (r->count + 1) * sizeof *r->first);
    r->drawn = malloc(r->count * sizeof *r->drawn);
    const bool ok = origins && r->sorted && r->position && r->first && r->drawn;
    if (ok) {
        find_processes(r, samples, origins);
        qsort(origins, r->count, sizeof *origins, by_value);
        place(r, origins);
    }
    free(origins);
    return ok || lab_fail(why, "no memory to resample %zu samples", samples->count);
}

void lab_resampler_close(lab_resampler *r) {
    free(r->sorted);
    free(r->position);
    free(r->first);
    free(r->drawn);
    *r = (lab_resampler){0};
}

/* The median of a resample, given how often each sorted sample was drawn: one pass, no
 * sorting. */
static double counted_median(const lab_resampler *r, size_t total) {
    const size_t lower_rank = (total - 1) / 2, upper_rank = total / 2;
    size_t seen = 0, i = 0;
    while (seen + r->drawn[i] <= lower_rank)
        seen += r->drawn[i++];
    const double lower = r->sorted[i];
    while (seen + r->drawn[i] <= upper_rank)
        seen += r->drawn[i++];
    return 0.5 * (lower + r->sorted[i]);
}

double lab_resample_median(lab_resampler *r, lab_random *random) {
    memset(r->drawn, 0, r->count * sizeof *r->drawn);
    size_t total = 0;
    for (size_t p = 0; p < r->processes; p++) {
        const size_t chosen =
            r->processes > 1 ? (size_t)lab_random_below(random, (int64_t)r->processes) : 0;
        const uint32_t *position = r->position + r->first[chosen];
        const size_t size = r->first[chosen + 1] - r->first[chosen];
        for (size_t i = 0; i < size; i++)
            r->drawn[position[lab_random_below(random, (int64_t)size)]]++;
        total += size;
    }
    return counted_median(r, total);
}

double lab_resample_widening(const lab_resampler *r) {
    const double p = (double)r->processes;
    return r->processes > 1 ? sqrt(p / (p - 1.0)) : 1.0;
}
