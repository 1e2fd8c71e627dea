/* plot_intervals.c: rows of values with their intervals, as SVG. */
#include <math.h>

#include "lab/base/markup.h"
#include "lab/report/plot.h"

enum {
    LEFT = 12,
    RIGHT = LAB_PLOT_WIDTH - 14,
    LABEL = 17,
    LANE = 9,
    GAP = 6,
    SIDES = 16,
    SIDE_ROOM = 84
};

lab_plot_scale lab_plot_intervals_scale(const lab_plot_intervals *plot, double from,
                                        double to) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < plot->mark_count; i++) {
        low = fmin(low, plot->marks[i].low);
        high = fmax(high, plot->marks[i].high);
    }
    if (plot->line > 0.0) {
        low = fmin(low, plot->line);
        high = fmax(high, plot->line);
    }
    return lab_plot_scale_make(plot->log, low, high, from, to);
}

/* An interval narrower than its mark is still drawn: its ends stand out where the page is enlarged. */
static void put_mark(FILE *out, const lab_plot_intervals *plot, const lab_plot_mark *mark,
                     const lab_plot_scale *scale, double y) {
    const size_t series = plot->first_series + mark->series;
    const double low = lab_plot_at(scale, mark->low), high = lab_plot_at(scale, mark->high);
    lab_markup(out,
               "<path class=\"span s%zu\" d=\"M%.1f %.1fH%.1fM%.1f %.1fv6M%.1f %.1fv6\"/>\n",
               series < LAB_PLOT_SERIES ? series : LAB_PLOT_SERIES - 1, low, y, high, low,
               y - 3.0, high, y - 3.0);
    lab_plot_shape(out, series, lab_plot_at(scale, mark->value), y, mark->note);
}

static void put_line(FILE *out, const lab_plot_intervals *plot, const lab_plot_scale *scale,
                     double top, double bottom) {
    if (!(plot->line > 0.0))
        return;
    const double x = lab_plot_at(scale, plot->line);
    lab_markup(out, "<path class=\"even\" d=\"M%.1f %.1fV%.1f\"/>\n", x, top, bottom);
    if (plot->line_low && x > scale->from + SIDE_ROOM)
        lab_plot_label(out, "side", "end", x - 5.0, top + 11.0, plot->line_low, 24);
    if (plot->line_high && x < scale->to - SIDE_ROOM)
        lab_plot_label(out, "side", "start", x + 5.0, top + 11.0, plot->line_high, 24);
}

void lab_plot_intervals_svg(FILE *out, const lab_plot_intervals *plot, const char *id) {
    const lab_plot_scale scale = lab_plot_intervals_scale(plot, LEFT, RIGHT);
    const size_t lanes = plot->series_count > 0 ? plot->series_count : 1;
    const double row = LABEL + LANE * (double)lanes + GAP;
    const double legend =
        lab_plot_legend(NULL, plot->series, plot->series_count, plot->first_series);
    const double sides = plot->line_low || plot->line_high ? SIDES : 0.0;
    const double top = legend + 4.0, bottom = top + sides + row * (double)plot->row_count;
    lab_plot_open(out, id, plot->title, plot->summary, bottom + 36.0);
    lab_plot_legend(out, plot->series, plot->series_count, plot->first_series);
    lab_plot_x_axis(out, &scale, top + sides, bottom, plot->axis);
    put_line(out, plot, &scale, top, bottom);
    for (size_t i = 0; i < plot->row_count; i++) {
        const double y = top + sides + row * (double)i;
        lab_plot_label(out, "row", "start", 2.0, y + 12.0, plot->rows[i], 52);
        if (plot->values)
            lab_plot_label(out, "value", "end", LAB_PLOT_WIDTH - 2.0, y + 12.0, plot->values[i],
                           12);
    }
    for (size_t i = 0; i < plot->mark_count; i++) {
        const lab_plot_mark *mark = &plot->marks[i];
        put_mark(out, plot, mark, &scale,
                 top + sides + row * (double)mark->row + LABEL +
                     LANE * ((double)mark->series + 0.5));
    }
    lab_markup(out, "</svg>\n");
}
