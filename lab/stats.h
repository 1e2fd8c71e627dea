/* stats.h: what raw samples say: a median, and how sure it is. */
#ifndef LAB_STATS_H
#define LAB_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/message.h"

typedef struct lab_summary {
    size_t count;
    double median;
    double low, high; /* 95 % interval of the median, percentile bootstrap */
    double min, max;
    double spread_percent; /* interquartile range over the median */
} lab_summary;

/* Summarise `count` > 0 finite samples; the same seed gives the same interval. The interval takes the
 * samples as independent: those of one process are not quite, so it is a lower bound on the doubt. */
bool lab_summarise(lab_summary *out, const double *samples, size_t count, uint64_t seed,
                   lab_message *why);

/* Quantile 0 <= q <= 1 of sorted samples, linear between neighbours. */
double lab_quantile(const double *sorted, size_t count, double q);

#endif
