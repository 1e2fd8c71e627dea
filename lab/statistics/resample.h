/* resample.h: samples sorted once and then drawn repeatedly by process; shared by the
 * bootstraps of stats.c and verdict.c. */
#ifndef LAB_RESAMPLE_H
#define LAB_RESAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/base/message.h"
#include "lab/base/random.h"
#include "lab/statistics/stats.h"

/* The number of resamples of every bootstrap and of shuffles of every permutation test. */
enum { LAB_RESAMPLES = 2000 };

typedef struct lab_resampler {
    size_t count;
    double *sorted;
    uint32_t *position; /* sorted positions, process by process */
    size_t processes;
    size_t *first;   /* process p is position[first[p] .. first[p + 1]) */
    uint32_t *drawn; /* how often each sorted sample is in the current resample */
} lab_resampler;

/* Prepare `samples`. Fails if there are none, if one is not finite, if processes are not in
 * ascending order, or if memory runs out. lab_resampler_close() must be called in every
 * case. */
bool lab_resampler_open(lab_resampler *r, const lab_samples *samples, lab_message *why);
void lab_resampler_close(lab_resampler *r);

/* Draw a resample, and return its median. */
double lab_resample_median(lab_resampler *r, lab_random *random);

/* The factor by which to widen the interval of the resamples: drawing P of P processes shows
 * only (P - 1) / P of their variance. 1 for one process. */
double lab_resample_widening(const lab_resampler *r);

#endif
