/* spans.h: the noise between identical processes: how far apart the medians of two processes of
 * one run lie.
 *
 * Two runs of the same code differ by this noise; only a larger effect between them counts. */
#ifndef LAB_SPANS_H
#define LAB_SPANS_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"
#include "lab/statistics/stats.h"

typedef struct lab_spans {
    double *all; /* differences of the logarithms of medians, of every pair of processes */
    size_t count, capacity;
    size_t fewest; /* smallest number of processes of a run; 0: no run yet */
} lab_spans;

/* Add the processes of a run: positive samples of one problem. */
bool lab_spans_add(lab_spans *spans, const lab_samples *samples, lab_message *why);

/* The 95 % quantile of the spans divided by the square root of the smallest number of
 * processes, because medians over P processes lie closer together; at least LAB_MINIMUM_EFFECT.
 * LAB_MINIMUM_EFFECT_ALONE if there are no spans: no run had several processes. */
double lab_spans_minimum_effect(lab_spans *spans);

void lab_spans_free(lab_spans *spans);

#endif
