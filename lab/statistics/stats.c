/* stats.c: quantiles, outliers and the bootstrap interval of the median. */
#include "lab/statistics/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/statistics/resample.h"

int lab_ascending(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double lab_quantile(const double *sorted, size_t count, double q) {
    const double position = q * (double)(count - 1);
    const size_t below = (size_t)floor(position);
    const size_t above = below + 1 < count ? below + 1 : below;
    const double weight = position - (double)below;
    return sorted[below] + weight * (sorted[above] - sorted[below]);
}

/* The part that needs no resampling. */
static void describe(lab_summary *out, const double *sorted, size_t count) {
    out->count = count;
    out->median = lab_quantile(sorted, count, 0.5);
    out->min = sorted[0];
    out->max = sorted[count - 1];
    const double lower = lab_quantile(sorted, count, 0.25);
    const double upper = lab_quantile(sorted, count, 0.75);
    const double range = upper - lower, fence = 1.5 * range;
    out->spread_percent = out->median > 0.0 ? 100.0 * range / out->median : 0.0;
    for (size_t i = 0; i < count; i++) {
        out->outliers_below += sorted[i] < lower - fence;
        out->outliers_above += sorted[i] > upper + fence;
    }
}

bool lab_summarise_samples(lab_summary *out, const lab_samples *samples, uint64_t seed,
                           lab_message *why) {
    memset(out, 0, sizeof *out);
    lab_resampler r;
    double medians[LAB_RESAMPLES];
    const bool ok = lab_resampler_open(&r, samples, why);
    if (ok) {
        lab_random random;
        lab_random_seed(&random, seed, 0);
        for (int i = 0; i < LAB_RESAMPLES; i++)
            medians[i] = lab_resample_median(&r, &random);
        qsort(medians, LAB_RESAMPLES, sizeof *medians, lab_ascending);
        describe(out, r.sorted, r.count);
        const double widening = lab_resample_widening(&r), median = out->median;
        const double low = lab_quantile(medians, LAB_RESAMPLES, 0.025);
        const double high = lab_quantile(medians, LAB_RESAMPLES, 0.975);
        out->low = median + widening * (low - median);
        out->high = median + widening * (high - median);
    }
    lab_resampler_close(&r);
    return ok;
}

bool lab_summarise(lab_summary *out, const double *samples, size_t count, uint64_t seed,
                   lab_message *why) {
    const lab_samples all = {.values = samples, .count = count};
    return lab_summarise_samples(out, &all, seed, why);
}

double lab_half_width(const double *samples, size_t count) {
    enum { FEWEST = 6 }; /* the extremes of 6 samples enclose the median with 97 % */
    double *sorted = count >= FEWEST ? malloc(count * sizeof *sorted) : NULL;
    if (!sorted)
        return INFINITY;
    memcpy(sorted, samples, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, lab_ascending);
    /* The number of samples below the median is binomial. */
    const double reach = 1.96 * 0.5 / sqrt((double)count);
    const double low = lab_quantile(sorted, count, fmax(0.5 - reach, 0.0));
    const double high = lab_quantile(sorted, count, fmin(0.5 + reach, 1.0));
    const double median = lab_quantile(sorted, count, 0.5);
    free(sorted);
    return median > 0.0 ? 0.5 * (high - low) / median : (double)INFINITY;
}
