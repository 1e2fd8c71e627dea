/* forecast.h: how far a benchmark is, and how long it will take. */
#ifndef LAB_FORECAST_H
#define LAB_FORECAST_H

#include "lab/measure/bench.h"

typedef struct lab_forecast {
    double share; /* of the work that is done, below 1 */
    double
        seconds; /* of the whole, as far as can be told; less where precision is reached before */
} lab_forecast;

/* After `rounds` rounds of `cases` cases that took `elapsed` seconds; rounds 0 foretells nothing but the time that is asked
 * for. */
lab_forecast lab_forecast_of(const lab_bench_options *options, size_t cases, size_t rounds,
                             double elapsed);

#endif
