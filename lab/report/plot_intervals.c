/* plot_intervals.c: values with their intervals, one row each: as rows of a page, and as a
 * picture. */
#include <math.h>

#include "lab/base/markup.h"
#include "lab/report/plot.h"

enum {
    LABELS = 330, /* in the picture: the column of labels */
    RIGHT = LAB_PLOT_WIDE - 14,
    LANE = 11,
    GAP = 7,
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

static double row_height(const lab_plot_intervals *plot) {
    const size_t lanes = plot->series_count > 0 ? plot->series_count : 1;
    return LANE * (double)lanes + GAP;
}

static double lane_at(const lab_plot_mark *mark) {
    return 0.5 * GAP + LANE * ((double)mark->series + 0.5);
}

static size_t slot_of(const lab_plot_intervals *plot, const lab_plot_mark *mark) {
    return mark->series < plot->series_count ? plot->series[mark->series].slot : 0;
}

/* ------------------------------------------------------------------ rows of a page */

/* Every x is a percentage of the strip's width, which only the browser knows. */
static void put_strip(FILE *out, const lab_plot_intervals *plot, const lab_plot_scale *scale,
                      size_t row, const char *id) {
    lab_markup(out,
               "<svg class=\"strip\" height=\"%.0f\" aria-hidden=\"true\"><use "
               "href=\"#%s-g\"/>\n",
               row_height(plot), id);
    for (size_t i = 0; i < plot->mark_count; i++) {
        const lab_plot_mark *mark = &plot->marks[i];
        const size_t slot = lab_plot_slot(slot_of(plot, mark));
        const double y = lane_at(mark);
        if (mark->row != row)
            continue;
        lab_markup(out,
                   "<line class=\"span s%zu\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"%.1f\" "
                   "y2=\"%.1f\"/><svg x=\"%.2f%%\" y=\"%.1f\" overflow=\"visible\"><path "
                   "class=\"mark s%zu\" d=\"%s\">",
                   slot, lab_plot_at(scale, mark->low), lab_plot_at(scale, mark->high), y, y,
                   lab_plot_at(scale, mark->value), y, slot, lab_plot_outline(slot));
        if (mark->note)
            lab_markup(out, "<title>%s</title>", mark->note);
        lab_markup(out, "</path></svg>\n");
    }
    lab_markup(out, "</svg>");
}

/* The lines behind every row are drawn once, in the row of the numbers, and reused by the
 * others. */
static void put_grid(FILE *out, const lab_plot_intervals *plot, const lab_plot_scale *scale,
                     const double *ticks, size_t count, const char *id) {
    lab_markup(out, "<g id=\"%s-g\">", id);
    for (size_t i = 0; i < count; i++)
        lab_markup(out, "<line class=\"grid\" x1=\"%.2f%%\" x2=\"%.2f%%\" y2=\"100%%\"/>",
                   lab_plot_at(scale, ticks[i]), lab_plot_at(scale, ticks[i]));
    if (plot->line > 0.0)
        lab_markup(out, "<line class=\"even\" x1=\"%.2f%%\" x2=\"%.2f%%\" y2=\"100%%\"/>",
                   lab_plot_at(scale, plot->line), lab_plot_at(scale, plot->line));
    lab_markup(out, "</g>\n");
}

static void put_numbers(FILE *out, const lab_plot_intervals *plot, const lab_plot_scale *scale,
                        const char *id) {
    double ticks[LAB_PLOT_TICKS];
    const size_t count = lab_plot_ticks(scale, ticks, 6);
    lab_markup(out,
               "<div class=\"row foot\"><span>%s</span><svg class=\"strip\" height=\"20\" "
               "aria-hidden=\"true\">",
               plot->axis);
    lab_markup(out, "<defs>");
    put_grid(out, plot, scale, ticks, count, id);
    lab_markup(out, "</defs>");
    for (size_t i = 0; i < count; i++) {
        char number[32];
        lab_plot_number(number, sizeof number, ticks[i]);
        lab_markup(out,
                   "<text class=\"tick\" text-anchor=\"middle\" x=\"%.2f%%\" "
                   "y=\"14\">%s</text>",
                   lab_plot_at(scale, ticks[i]), number);
    }
    lab_markup(out, "</svg></div>\n");
}

static void put_sides(FILE *out, const lab_plot_intervals *plot, const lab_plot_scale *scale) {
    const double x = lab_plot_at(scale, plot->line);
    if (!(plot->line > 0.0) || (!plot->line_low && !plot->line_high))
        return;
    lab_markup(out, "<div class=\"row head\"><span></span><svg class=\"strip\" height=\"16\" "
                    "aria-hidden=\"true\">");
    if (plot->line_low && x > 30.0)
        lab_markup(out,
                   "<text class=\"side\" text-anchor=\"end\" x=\"%.2f%%\" y=\"12\" "
                   "dx=\"-6\">%s</text>",
                   x, plot->line_low);
    if (plot->line_high && x < 70.0)
        lab_markup(out, "<text class=\"side\" x=\"%.2f%%\" y=\"12\" dx=\"6\">%s</text>", x,
                   plot->line_high);
    lab_markup(out, "</svg></div>\n");
}

void lab_plot_intervals_rows(FILE *out, const lab_plot_intervals *plot, const char *id) {
    const lab_plot_scale scale = lab_plot_intervals_scale(plot, 0.0, 100.0);
    lab_plot_keys(out, plot->series, plot->series_count);
    lab_markup(out, "<div class=\"rows\">\n");
    put_sides(out, plot, &scale);
    for (size_t i = 0; i < plot->row_count; i++) {
        lab_markup(out, "<div class=\"row\"><code>%s", plot->rows[i]);
        if (plot->values)
            lab_markup(out, " <b>%s</b>", plot->values[i]);
        lab_markup(out, "</code>");
        put_strip(out, plot, &scale, i, id);
        lab_markup(out, "</div>\n");
    }
    put_numbers(out, plot, &scale, id);
    lab_markup(out, "</div>\n");
}

/* -------------------------------------------------------------------------- picture */

static void put_mark(FILE *out, const lab_plot_intervals *plot, const lab_plot_mark *mark,
                     const lab_plot_scale *scale, double y) {
    const size_t slot = lab_plot_slot(slot_of(plot, mark));
    lab_markup(out, "<path class=\"span s%zu\" d=\"M%.1f %.1fH%.1f\"/>\n", slot,
               lab_plot_at(scale, mark->low), y, lab_plot_at(scale, mark->high));
    lab_plot_shape(out, slot, lab_plot_at(scale, mark->value), y, mark->note);
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

double lab_plot_intervals_svg(FILE *out, const lab_plot_intervals *plot, const char *id) {
    const lab_plot_scale scale = lab_plot_intervals_scale(plot, LABELS, RIGHT);
    const double row = row_height(plot);
    const double legend =
        lab_plot_legend(NULL, plot->series, plot->series_count, LAB_PLOT_WIDE);
    const double sides = plot->line_low || plot->line_high ? SIDES : 0.0;
    const double top = legend + 4.0, first = top + sides,
                 bottom = first + row * (double)plot->row_count, height = bottom + 36.0;
    lab_plot_open(out, id, plot->title, plot->summary, LAB_PLOT_WIDE, height);
    lab_plot_legend(out, plot->series, plot->series_count, LAB_PLOT_WIDE);
    lab_plot_x_axis(out, &scale, first, bottom, plot->axis);
    put_line(out, plot, &scale, top, bottom);
    for (size_t i = 0; i < plot->row_count; i++) {
        const double y = first + row * ((double)i + 0.5) + 4.0;
        lab_plot_label(out, "row", "start", 2.0, y, plot->rows[i], plot->values ? 38 : 46);
        if (plot->values)
            lab_plot_label(out, "value", "end", LABELS - 10.0, y, plot->values[i], 12);
    }
    for (size_t i = 0; i < plot->mark_count; i++)
        put_mark(out, plot, &plot->marks[i], &scale,
                 first + row * (double)plot->marks[i].row + lane_at(&plot->marks[i]));
    lab_markup(out, "</svg>\n");
    return height;
}
