/* forecast.h: how far a benchmark has come, and how long it will take. */
#ifndef LAB_FORECAST_H
#define LAB_FORECAST_H

#include "lab/measure/bench.h"

typedef struct lab_forecast {
    double share;   /* fraction of the work done, below 1 */
    double seconds; /* total, estimated; less if the precision is reached earlier */
} lab_forecast;

/* The forecast after `rounds` rounds of `cases` cases that took `elapsed` seconds. With rounds
 * = 0 it knows only the time that was asked for. */
lab_forecast lab_forecast_of(const lab_bench_options *options, size_t cases, size_t rounds,
                             double elapsed);

#endif
