/* plot_waterfall.c: a value built up step by step. */
#include <math.h>

#include "lab/base/markup.h"
#include "lab/report/plot.h"

enum { LEFT = 8, RIGHT = LAB_PLOT_WIDTH - 62, ROW = 34, LABEL = 14, BAR = 12 };

static void put_bar(FILE *out, const char *kind, const lab_plot_scale *scale, double from,
                    double to, double y, const char *note) {
    const double a = lab_plot_at(scale, from), b = lab_plot_at(scale, to);
    lab_markup(out,
               "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\">"
               "<title>%s</title></rect>\n",
               kind, fmin(a, b), y, fmax(fabs(b - a), 1.0), BAR, note);
}

static void put_step(FILE *out, const lab_plot_waterfall *plot, size_t i,
                     const lab_plot_scale *scale, double top) {
    const bool whole = i == 0 || i + 1 == plot->count;
    const double before = i == 0 ? 0.0 : plot->values[i - 1], value = plot->values[i];
    const double y = top + ROW * (double)i + LABEL + 3.0;
    char note[64], change[48];
    char number[32];
    lab_plot_number(number, sizeof number, value);
    if (whole || before <= 0.0)
        snprintf(change, sizeof change, "%s", number);
    else
        snprintf(change, sizeof change, "%+.1f %%", 100.0 * (value - before) / before);
    snprintf(note, sizeof note, "%.40s, %.20s", number, change);
    lab_plot_label(out, "row", "start", 2.0, top + ROW * (double)i + 11.0, plot->steps[i], 52);
    put_bar(out,
            whole             ? "whole"
            : value <= before ? "gain"
                              : "cost",
            scale, whole ? 0.0 : before, value, y, note);
    const double low = lab_plot_at(scale, plot->low[i]),
                 high = lab_plot_at(scale, plot->high[i]);
    lab_markup(out, "<path class=\"whisker\" d=\"M%.1f %.1fH%.1fM%.1f %.1fv6M%.1f %.1fv6\"/>\n",
               low, y + BAR / 2.0, high, low, y + BAR / 2.0 - 3.0, high, y + BAR / 2.0 - 3.0);
    lab_plot_label(out, "value", "end", LAB_PLOT_WIDTH - 2.0, y + 10.0, change, 12);
}

double lab_plot_waterfall_svg(FILE *out, const lab_plot_waterfall *plot, const char *id) {
    double high = 0.0;
    for (size_t i = 0; i < plot->count; i++)
        high = fmax(high, plot->high[i]);
    const lab_plot_scale scale = lab_plot_scale_make(false, 0.0, high, LEFT, RIGHT);
    const double top = 4.0, bottom = top + ROW * (double)plot->count;
    lab_plot_open(out, id, plot->title, plot->summary, LAB_PLOT_WIDTH, bottom + 36.0);
    lab_plot_x_axis(out, &scale, top, bottom, plot->axis);
    for (size_t i = 0; i < plot->count; i++)
        put_step(out, plot, i, &scale, top);
    lab_markup(out, "</svg>\n");
    return bottom + 36.0;
}
