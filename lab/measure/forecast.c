/* forecast.c: sampling continues until there are enough rounds and enough time has passed, or
 * until the maximum of rounds. */
#include "lab/measure/forecast.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

lab_forecast lab_forecast_of(const lab_bench_options *options, size_t cases, size_t rounds,
                             double elapsed) {
    const double budget = options->seconds * (double)cases;
    if (rounds == 0)
        return (lab_forecast){.share = 0.0, .seconds = budget};
    const double a_round = elapsed / (double)rounds;
    const double enough = larger(budget, a_round * (double)options->min_samples);
    const double most = a_round * (double)options->max_samples;
    const double seconds = larger(smaller(enough, most), elapsed);
    /* The bar must not show the last round as finished before it is. */
    const double share = seconds > 0.0 ? elapsed / seconds : 0.0;
    return (lab_forecast){.share = smaller(share, 0.999), .seconds = seconds};
}
