/* stats.h: summarises raw samples: the median, its interval, and the outliers.
 *
 * The interval is a percentile bootstrap. Samples of one process share its conditions
 * (addresses, clocks, neighbours), so with several processes whole processes are drawn, then
 * samples within each. With one process the samples are treated as independent, and the
 * interval says nothing about another process. */
#ifndef LAB_STATS_H
#define LAB_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/base/message.h"

/* Samples as they were taken. */
typedef struct lab_samples {
    const double *values; /* finite; also > 0 if compared (lab/statistics/verdict.h) */
    size_t count;
    const uint32_t *process; /* the process of each sample, from 0, ascending; NULL: one
                              * process */
    const uint32_t *round;   /* within the process, ascending; NULL: unknown */
} lab_samples;

typedef struct lab_summary {
    size_t count;
    double median;
    double low, high; /* 95 % interval of the median */
    double min, max;
    double spread_percent;                 /* interquartile range over the median */
    size_t outliers_below, outliers_above; /* by Tukey's rule: beyond 1.5 interquartile ranges;
                                            * kept */
} lab_summary;

/* Summarise `count` > 0 finite samples of one process; the same seed gives the same
 * interval. */
bool lab_summarise(lab_summary *out, const double *samples, size_t count, uint64_t seed,
                   lab_message *why);

/* The same for the samples of several processes. */
bool lab_summarise_samples(lab_summary *out, const lab_samples *samples, uint64_t seed,
                           lab_message *why);

/* Half the 95 % interval of the median by order statistics, divided by the median: for a
 * stopping rule, because it needs no resampling. Infinite for fewer than 6 samples or if memory
 * runs out. */
double lab_half_width(const double *samples, size_t count);

/* Quantile 0 <= q <= 1 of sorted samples, with linear interpolation. */
double lab_quantile(const double *sorted, size_t count, double q);

/* For qsort() of doubles. */
int lab_ascending(const void *left, const void *right);

#endif
