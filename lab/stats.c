/* stats.c: quantiles and the percentile bootstrap of the median. */
#include "lab/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/random.h"

enum { RESAMPLES = 2000 };

static int ascending(const void *left, const void *right) {
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

/* Median of a resample given as how often each sorted sample was drawn: a walk, not a sort. */
static double counted_median(const double *sorted, const uint32_t *drawn, size_t count) {
    const size_t lower_rank = (count - 1) / 2, upper_rank = count / 2;
    size_t seen = 0, i = 0;
    while (seen + drawn[i] <= lower_rank)
        seen += drawn[i++];
    const double lower = sorted[i];
    while (seen + drawn[i] <= upper_rank)
        seen += drawn[i++];
    return 0.5 * (lower + sorted[i]);
}

static void bootstrap_median(double *medians, const double *sorted, uint32_t *drawn,
                             size_t count, uint64_t seed) {
    lab_random random;
    lab_random_seed(&random, seed, 0);
    for (int r = 0; r < RESAMPLES; r++) {
        memset(drawn, 0, count * sizeof *drawn);
        for (size_t i = 0; i < count; i++)
            drawn[lab_random_below(&random, (int64_t)count)]++;
        medians[r] = counted_median(sorted, drawn, count);
    }
}

bool lab_summarise(lab_summary *out, const double *samples, size_t count, uint64_t seed,
                   lab_message *why) {
    memset(out, 0, sizeof *out);
    if (count == 0 || count > UINT32_MAX)
        return lab_fail(why, "%zu samples cannot be summarised", count);
    bool ok = true;
    double *sorted = malloc(count * sizeof *sorted);
    double *medians = malloc(RESAMPLES * sizeof *medians);
    uint32_t *drawn = malloc(count * sizeof *drawn);
    if (!sorted || !medians || !drawn) {
        ok = lab_fail(why, "no memory to summarise %zu samples", count);
        goto done;
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = samples[i];
        if (!isfinite(samples[i])) {
            ok = lab_fail(why, "sample %zu is not finite", i);
            goto done;
        }
    }
    qsort(sorted, count, sizeof *sorted, ascending);
    bootstrap_median(medians, sorted, drawn, count, seed);
    qsort(medians, RESAMPLES, sizeof *medians, ascending);

    out->count = count;
    out->median = lab_quantile(sorted, count, 0.5);
    out->low = lab_quantile(medians, RESAMPLES, 0.025);
    out->high = lab_quantile(medians, RESAMPLES, 0.975);
    out->min = sorted[0];
    out->max = sorted[count - 1];
    const double range = lab_quantile(sorted, count, 0.75) - lab_quantile(sorted, count, 0.25);
    out->spread_percent = out->median > 0.0 ? 100.0 * range / out->median : 0.0;
done:
    free(sorted);
    free(medians);
    free(drawn);
    return ok;
}
