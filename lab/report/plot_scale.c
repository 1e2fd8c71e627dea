/* plot_scale.c: maps values to coordinates, and finds round numbers. */
#include <math.h>

#include "lab/report/plot.h"

/* Far enough from the limits of double that differences and ratios of such values are
 * finite. */
static bool usable(bool log, double value) {
    return fabs(value) < 1e150 && (!log || value > 1e-150);
}

lab_plot_scale lab_plot_scale_make(bool log, double low, double high, double from, double to) {
    if (!usable(log, low))
        low = high;
    if (!usable(log, high))
        high = low;
    if (!usable(log, low)) {
        low = 1.0;
        high = 10.0;
    }
    if (low > high) {
        const double swap = low;
        low = high;
        high = swap;
    }
    if (log) {
        const double air = fmax(pow(high / low, 0.04), 1.02);
        low /= air;
        high *= air;
    } else {
        const double air =
            fmax(0.04 * (high - low), fabs(high) > 0.0 ? 0.01 * fabs(high) : 0.5);
        low = low >= 0.0 && low - air < 0.0 ? 0.0 : low - air;
        high += air;
    }
    return (lab_plot_scale){.log = log, .low = low, .high = high, .from = from, .to = to};
}

double lab_plot_at(const lab_plot_scale *s, double value) {
    if (!usable(s->log, value))
        return s->from;
    const double share = s->log ? log(value / s->low) / log(s->high / s->low)
                                : (value - s->low) / (s->high - s->low);
    return s->from + fmin(fmax(share, 0.0), 1.0) * (s->to - s->from);
}

/* The powers of ten, or those and some values between, within the scale; 0 if there are more
 * than `most`. */
static size_t log_ticks(const lab_plot_scale *s, double ticks[LAB_PLOT_TICKS], size_t most,
                        const double *steps, size_t step_count, int every) {
    size_t count = 0;
    const int first = (int)floor(log10(s->low)), last = (int)ceil(log10(s->high));
    for (int decade = first; decade <= last; decade++) {
        if (decade % every != 0)
            continue;
        for (size_t i = 0; i < step_count; i++) {
            const double value = steps[i] * pow(10.0, decade);
            if (value < s->low || value > s->high)
                continue;
            if (count == most)
                return 0;
            ticks[count++] = value;
        }
    }
    return count;
}

static size_t linear_ticks(const lab_plot_scale *s, double ticks[LAB_PLOT_TICKS], size_t most) {
    static const double multiples[] = {1.0, 2.0, 2.5, 5.0};
    const double decade = pow(10.0, floor(log10((s->high - s->low) / (double)most)));
    for (double unit = decade;; unit *= 10.0)
        for (size_t i = 0; i < 4; i++) {
            const double step = multiples[i] * unit, first = ceil(s->low / step - 1e-9);
            const double last = floor(s->high / step + 1e-9);
            if (last - first + 1.0 > (double)most)
                continue;
            const size_t count = (size_t)(last - first + 1.0);
            for (size_t k = 0; k < count; k++)
                ticks[k] = (first + (double)k) * step + 0.0; /* avoids -0 */
            return count;
        }
}

size_t lab_plot_ticks(const lab_plot_scale *s, double ticks[LAB_PLOT_TICKS], size_t most) {
    static const double fine[] = {1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0};
    static const double some[] = {1.0, 1.5, 2.0, 3.0, 5.0, 7.0};
    static const double few[] = {1.0, 2.0, 5.0}, two[] = {1.0, 3.0};
    most = most < LAB_PLOT_TICKS ? most : LAB_PLOT_TICKS;
    if (!s->log || s->high < 4.0 * s->low)
        return linear_ticks(s, ticks, most);
    size_t count = log_ticks(s, ticks, most, fine, 12, 1);
    if (count < 3) /* 0: too many, or none */
        count = log_ticks(s, ticks, most, some, 6, 1);
    if (count < 2)
        count = log_ticks(s, ticks, most, few, 3, 1);
    if (count < 2)
        count = log_ticks(s, ticks, most, two, 2, 1);
    for (int every = 1; count < 2 && every <= 64; every *= 2)
        count = log_ticks(s, ticks, most, two, 1, every);
    return count >= 2 ? count : linear_ticks(s, ticks, most);
}

void lab_plot_number(char *buf, size_t n, double value) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t i = 0;
    while (fabs(value) >= 999.5 && i + 1 < sizeof prefixes / sizeof prefixes[0]) {
        value /= 1000.0;
        i++;
    }
    snprintf(buf, n, "%.3g%s", value, prefixes[i]);
}
