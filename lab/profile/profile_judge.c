/* profile_judge.c: names the bottleneck. */
#include <math.h>
#include <stdio.h>

#include "lab/profile/profile.h"

/* A unit that is at least this busy, in percent, limits the kernel; one at half of it is worth
 * naming. */
static const double busy = 60.0;

/* With fewer waves of blocks than this the GPU is not filled. */
static const double few_waves = 0.75;

/* What can limit a kernel, most informative first. */
static const struct {
    lab_metric metric;
    const char *text;
} units[] = {
    {LAB_METRIC_TENSOR, "the tensor cores"},   {LAB_METRIC_DRAM, "memory"},
    {LAB_METRIC_L2, "the second-level cache"}, {LAB_METRIC_FMA, "the FMA pipe"},
    {LAB_METRIC_SM, "a unit of the SMs"},
};
enum { UNITS = sizeof units / sizeof units[0] };

lab_metric lab_profile_worst_stall(const lab_profiled *p) {
    int worst = LAB_METRICS;
    for (int i = LAB_METRIC_STALL_FIRST; i < LAB_METRICS; i++)
        if (!isnan(p->values[i]) && (worst == LAB_METRICS || p->values[i] > p->values[worst]))
            worst = i;
    return (lab_metric)worst;
}

/* The busiest unit; UNITS if none is known. The last unit, which covers others, only if no
 * other is busy. */
static int busiest(const lab_profiled *p) {
    int best = UNITS;
    for (int i = 0; i < UNITS; i++) {
        const double value = p->values[units[i].metric];
        if (isnan(value))
            continue;
        if (best == UNITS || (value > p->values[units[best].metric] &&
                              (i + 1 < UNITS || p->values[units[best].metric] < busy)))
            best = i;
    }
    return best;
}

void lab_profile_bottleneck(const lab_profiled *p, char *buf, size_t n) {
    const int unit = busiest(p);
    const lab_metric stall = lab_profile_worst_stall(p);
    const double share = unit < UNITS ? p->values[units[unit].metric] : (double)NAN;
    const double waves = p->values[LAB_METRIC_WAVES];
    int used;
    if (unit == UNITS && stall == LAB_METRICS)
        used = snprintf(buf, n, "the bottleneck is unknown: all metrics are missing");
    else if (share >= busy)
        used =
            snprintf(buf, n, "bound by %s, busy %.0f %% of the time", units[unit].text, share);
    else if (waves < few_waves)
        used = snprintf(buf, n, "bound by too few blocks: they fill %.2f of a wave", waves);
    else
        used = snprintf(buf, n, "bound by latency");
    if (used < 0 || (size_t)used >= n)
        return;
    if (!(share >= busy) && unit < UNITS)
        used += snprintf(buf + used, n - (size_t)used, "; the busiest unit is %s, at %.0f %%",
                         units[unit].text, share);
    if ((size_t)used < n && stall < LAB_METRICS && p->values[stall] > 0.0)
        used += snprintf(buf + used, n - (size_t)used,
                         "; warps wait most for %s (%.2f for each instruction issued)",
                         lab_metric_rows[stall].label, p->values[stall]);
    if ((size_t)used < n && p->values[LAB_METRIC_SPILLS] > 0.0)
        snprintf(buf + used, n - (size_t)used, "; registers spill");
}
