/* plot_parts.c: what every plot has: its frame, marks, axis, legend and labels. */
#include <stdio.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/plot.h"

void lab_plot_open(FILE *out, const char *id, const char *title, const char *summary,
                   double height) {
    lab_markup(out,
               "<svg class=\"plot\" viewBox=\"0 0 %d %.1f\" role=\"img\" "
               "aria-labelledby=\"%s-t %s-d\">\n"
               "<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n",
               LAB_PLOT_WIDTH, height, id, id, id, title, id, summary);
}

static size_t last_series(size_t series) {
    return series < LAB_PLOT_SERIES ? series : LAB_PLOT_SERIES - 1;
}

void lab_plot_shape(FILE *out, size_t series, double x, double y, const char *note) {
    static const char *const paths[LAB_PLOT_SERIES] = {
        "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", /* disc */
        "M-3.5 -3.5h7v7h-7z",                  /* square */
        "M0 -5l5 5l-5 5l-5 -5z",               /* diamond */
        "M0 -4.5l5 8h-10z",                    /* triangle */
        "M0 4.5l5 -8h-10z",                    /* triangle, point down */
        "M-4 -4l8 8M-4 4l8 -8",                /* cross */
        "M0 -5v10M-5 0h10",                    /* plus */
        "M-5 -2h10v4h-10z",                    /* bar */
    };
    const size_t s = last_series(series);
    lab_markup(out, "<path class=\"mark s%zu\" transform=\"translate(%.1f %.1f)\" d=\"%s\">", s,
               x, y, paths[s]);
    if (note)
        lab_markup(out, "<title>%s</title>", note);
    lab_markup(out, "</path>\n");
}

void lab_plot_x_axis(FILE *out, const lab_plot_scale *scale, double top, double bottom,
                     const char *axis) {
    double ticks[LAB_PLOT_TICKS];
    const size_t count = lab_plot_ticks(scale, ticks, 7);
    for (size_t i = 0; i < count; i++) {
        char number[32];
        const double x = lab_plot_at(scale, ticks[i]);
        lab_plot_number(number, sizeof number, ticks[i]);
        lab_markup(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, top, bottom);
        lab_plot_label(out, "tick", "middle", x, bottom + 13.0, number, 12);
    }
    lab_plot_label(out, "axis", "middle", 0.5 * (scale->from + scale->to), bottom + 28.0, axis,
                   56);
}

double lab_plot_legend(FILE *out, const char *const *series, size_t count, size_t first) {
    double x = 14.0, y = 0.0;
    if (count < 2)
        return y;
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(series[i]);
        const double width = 26.0 + 6.3 * (double)(length < 40 ? length : 40);
        if (x > 14.0 && x + width > LAB_PLOT_WIDTH) {
            x = 14.0;
            y += 16.0;
        }
        if (out) {
            lab_plot_shape(out, first + i, x, y + 8.0, NULL);
            lab_plot_label(out, "key", "start", x + 9.0, y + 12.0, series[i], 40);
        }
        x += width;
    }
    return y + 18.0;
}

void lab_plot_label(FILE *out, const char *class_name, const char *anchor, double x, double y,
                    const char *text, size_t columns) {
    char shown[512];
    lab_plain_text(shown, sizeof shown, text, columns);
    lab_markup(out, "<text class=\"%s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s",
               class_name, anchor, x, y, shown);
    if (strcmp(shown, text) != 0)
        lab_markup(out, "<title>%s</title>", text);
    lab_markup(out, "</text>\n");
}
