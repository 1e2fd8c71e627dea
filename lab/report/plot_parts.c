/* plot_parts.c: the parts of every plot: frame, marks, axis, legend and labels. */
#include <stdio.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/plot.h"

void lab_plot_open(FILE *out, const char *id, const char *title, const char *summary,
                   double width, double height) {
    lab_markup(out,
               "<svg class=\"plot\" viewBox=\"0 0 %.0f %.1f\" role=\"img\" "
               "aria-labelledby=\"%s-t %s-d\">\n"
               "<title id=\"%s-t\">%s</title>\n<desc id=\"%s-d\">%s</desc>\n",
               width, height, id, id, id, title, id, summary);
}

size_t lab_plot_slot(size_t slot) {
    return slot < LAB_PLOT_SERIES ? slot : LAB_PLOT_SERIES - 1;
}

const char *lab_plot_outline(size_t slot) {
    static const char *const paths[LAB_PLOT_SERIES] = {
        "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", /* disc */
        "M-3.5 -3.5h7v7h-7z",                  /* square */
        "M0 -5l5 5l-5 5l-5 -5z",               /* diamond */
        "M0 -4.5l5 8h-10z",                    /* triangle */
        "M0 4.5l5 -8h-10z",                    /* triangle, point down */
        "M-4 -4l8 8M-4 4l8 -8",                /* cross */
        "M0 -5v10M-5 0h10",                    /* plus */
        "M-5 -2h10v4h-10z",                    /* bar */
        /* From here on hollow by their class. Rivals: */
        "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "M0 -5l5 5l-5 5l-5 -5z",
        "M-3.5 -3.5h7v7h-7z",
        "M0 -4.5l5 8h-10z",
        "M0 4.5l5 -8h-10z",
        "M-5 -2h10v4h-10z",
        /* attest in another form, in the colour of attest: */
        "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "M-3.5 -3.5h7v7h-7z",
        "M0 -5l5 5l-5 5l-5 -5z",
        "M0 -4.5l5 8h-10z",
        "M0 4.5l5 -8h-10z",
        /* Rivals that are in no table: triangles to the right and left, an upright bar, a house,
         * a cup */
        "M-3.5 -5l8 5l-8 5z",
        "M3.5 -5l-8 5l8 5z",
        "M-2 -5h4v10h-4z",
        "M-4 4.5v-5l4 -4l4 4v5z",
        "M-4.5 -4h9l-2.5 8h-4z",
    };
    return paths[lab_plot_slot(slot)];
}

void lab_plot_shape(FILE *out, size_t slot, double x, double y, const char *note) {
    lab_markup(out, "<path class=\"mark s%zu\" transform=\"translate(%.1f %.1f)\" d=\"%s\">",
               lab_plot_slot(slot), x, y, lab_plot_outline(slot));
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

void lab_plot_y_axis(FILE *out, const lab_plot_scale *scale, double left, double right) {
    double ticks[LAB_PLOT_TICKS];
    const size_t count = lab_plot_ticks(scale, ticks, 7);
    for (size_t i = 0; i < count; i++) {
        char number[32];
        const double y = lab_plot_at(scale, ticks[i]);
        lab_plot_number(number, sizeof number, ticks[i]);
        lab_markup(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", left, y, right);
        lab_plot_label(out, "tick", "end", left - 4.0, y + 4.0, number, 12);
    }
}

/* About the width of a name in DejaVu Sans at 11 px; only the viewer knows its font. */
static double width_of(const char *name, size_t most) {
    double width = 0.0;
    for (size_t i = 0; name[i] && i < most; i++)
        width += strchr("fijlrtI.,:;'()/- ", name[i]) ? 3.9
                 : strchr("mwMW%", name[i])           ? 9.8
                 : name[i] >= 'A' && name[i] <= 'Z'   ? 7.6
                                                      : 6.6;
    return width;
}

double lab_plot_legend(FILE *out, const lab_plot_key *series, size_t count, double width) {
    double x = 14.0, y = 0.0;
    if (count < 2)
        return y;
    for (size_t i = 0; i < count; i++) {
        const double own = 32.0 + width_of(series[i].name, 40);
        if (x > 14.0 && x + own > width) {
            x = 14.0;
            y += 16.0;
        }
        if (out) {
            lab_plot_shape(out, series[i].slot, x, y + 8.0, NULL);
            lab_plot_label(out, "key", "start", x + 9.0, y + 12.0, series[i].name, 40);
        }
        x += own;
    }
    return y + 18.0;
}

void lab_plot_keys(FILE *out, const lab_plot_key *series, size_t count) {
    if (count < 2)
        return;
    lab_markup(out, "<ul class=\"keys\">\n");
    for (size_t i = 0; i < count; i++)
        lab_markup(out,
                   "<li><svg viewBox=\"-6 -6 12 12\" aria-hidden=\"true\"><path class=\"mark "
                   "s%zu\" d=\"%s\"/></svg>%s</li>\n",
                   lab_plot_slot(series[i].slot), lab_plot_outline(series[i].slot),
                   series[i].name);
    lab_markup(out, "</ul>\n");
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
