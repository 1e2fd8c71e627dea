/* plot_curves.c: one line per series over a size or over runs, below the limits of the
 * device. */
#include <math.h>

#include "lab/base/markup.h"
#include "lab/report/plot.h"

enum {
    LEFT = 40,
    RIGHT = LAB_PLOT_WIDTH - 8,
    TOP = 20,
    AREA = 190,
    BOTTOM = TOP + AREA,
    HEIGHT = BOTTOM + 36,
    X_MOST = 64, /* labelled positions on the axis */
    COLUMNS = LAB_PLOT_WIDE / LAB_PLOT_WIDTH,
    PANEL_TITLE = 22
};

/* A single panel is not enlarged so much that its lines become too thick. */
#define SCALE_MOST 1.6

typedef struct frame {
    lab_plot_scale x, y;
} frame;

static frame frame_of(const lab_plot_curves *plot) {
    double left = INFINITY, right = 0.0, low = INFINITY, high = 0.0;
    for (size_t i = 0; i < plot->spot_count; i++) {
        const lab_plot_spot *spot = &plot->spots[i];
        left = fmin(left, spot->x);
        right = fmax(right, spot->x);
        low = fmin(low, spot->y);
        high = fmax(high, spot->y);
    }
    for (size_t i = 0; i < plot->ceiling_count; i++)
        high = fmax(high, plot->ceilings[i].value);
    const bool names = plot->x_names != NULL;
    const lab_plot_scale x = lab_plot_scale_make(
        !names, names ? -0.2 : left, names ? (double)plot->x_count - 0.8 : right, LEFT, RIGHT);
    return (frame){
        .x = x,
        .y = lab_plot_scale_make(plot->log_y, plot->log_y ? low : 0.0, high, BOTTOM, TOP)};
}

/* "512", "16k": sizes are mostly powers of two. */
static void print_size(char *buf, size_t n, double x) {
    if (x >= 1024.0 && fmod(x, 1024.0) == 0.0)
        snprintf(buf, n, "%.0fk", x / 1024.0);
    else
        lab_plot_number(buf, n, x);
}

/* A number below each position with a spot, unless the previous one is too close. */
static void put_sizes(FILE *out, const lab_plot_curves *plot, const frame *f) {
    double last = -INFINITY, x = -INFINITY;
    for (size_t marked = 0; marked < X_MOST; marked++) {
        double next = INFINITY;
        for (size_t i = 0; i < plot->spot_count; i++)
            if (plot->spots[i].x > x)
                next = fmin(next, plot->spots[i].x);
        if (!isfinite(next))
            return;
        x = next;
        const double at = lab_plot_at(&f->x, x);
        char number[32];
        lab_markup(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>\n", at, TOP, BOTTOM);
        if (at - last < 26.0)
            continue;
        last = at;
        print_size(number, sizeof number, x);
        lab_plot_label(out, "tick", "middle", at, BOTTOM + 13.0, number, 12);
    }
}

static void put_names(FILE *out, const lab_plot_curves *plot, const frame *f) {
    for (size_t i = 0; i < plot->x_count; i++) {
        const double at = lab_plot_at(&f->x, (double)i);
        lab_markup(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>\n", at, TOP, BOTTOM);
        lab_plot_label(out, "tick", "middle", at, BOTTOM + 13.0, plot->x_names[i], 12);
    }
}

/* Horizontal lines, with their names above the plot, where no curve crosses them. */
static void put_ceilings(FILE *out, const lab_plot_curves *plot, const frame *f) {
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < plot->ceiling_count; i++) {
        const lab_plot_ceiling *ceiling = &plot->ceilings[i];
        lab_markup(out, "<path class=\"roof%s\" d=\"M%d %.1fH%d\"><title>%s</title></path>\n",
                   ceiling->dashed ? " seen" : "", LEFT, lab_plot_at(&f->y, ceiling->value),
                   RIGHT, ceiling->name);
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                     i > 0 ? " · " : "", ceiling->name);
    }
    lab_plot_label(out, "side", "end", RIGHT, 11.0, names, 60);
}

static void put_series(FILE *out, const lab_plot_curves *plot, size_t series, const frame *f) {
    const size_t slot = lab_plot_slot(plot->series[series].slot);
    bool any = false;
    for (size_t i = 0; i < plot->spot_count; i++) {
        const lab_plot_spot *spot = &plot->spots[i];
        if (spot->series != series)
            continue;
        if (!any)
            lab_markup(out, "<path class=\"line s%zu\" d=\"", slot);
        lab_markup(out, "%s%.1f %.1f", any ? "L" : "M", lab_plot_at(&f->x, spot->x),
                   lab_plot_at(&f->y, spot->y));
        any = true;
    }
    if (any)
        lab_markup(out, "\"/>\n");
    for (size_t i = 0; i < plot->spot_count; i++) {
        const lab_plot_spot *spot = &plot->spots[i];
        if (spot->series == series)
            lab_plot_shape(out, slot, lab_plot_at(&f->x, spot->x), lab_plot_at(&f->y, spot->y),
                           spot->note);
    }
}

void lab_plot_curves_area(FILE *out, const lab_plot_curves *plot) {
    const frame f = frame_of(plot);
    lab_plot_label(out, "axis", "start", 2.0, 11.0, plot->y_axis, 56);
    lab_plot_y_axis(out, &f.y, LEFT, RIGHT);
    if (plot->x_names)
        put_names(out, plot, &f);
    else
        put_sizes(out, plot, &f);
    lab_plot_label(out, "axis", "middle", 0.5 * (LEFT + RIGHT), BOTTOM + 28.0, plot->x_axis,
                   56);
    put_ceilings(out, plot, &f);
    for (size_t i = plot->series_count; i-- > 0;) /* the first series is on top */
        put_series(out, plot, i, &f);
}

double lab_plot_curves_svg(FILE *out, const lab_plot_curves *plot, const char *id) {
    lab_plot_open(out, id, plot->title, plot->summary, LAB_PLOT_WIDTH, HEIGHT);
    lab_plot_curves_area(out, plot);
    lab_markup(out, "</svg>\n");
    return HEIGHT;
}

double lab_plot_panels_svg(FILE *out, const lab_plot_panels *plot, const char *id) {
    const size_t columns = plot->panel_count < COLUMNS ? plot->panel_count : COLUMNS;
    const double width = (double)LAB_PLOT_WIDE / (columns > 0 ? (double)columns : 1.0);
    const double scale = fmin(width * 0.96 / LAB_PLOT_WIDTH, SCALE_MOST),
                 step = HEIGHT * scale + PANEL_TITLE + 8.0;
    const double legend =
        24.0 + lab_plot_legend(NULL, plot->series, plot->series_count, LAB_PLOT_WIDE);
    const size_t lines = columns > 0 ? (plot->panel_count + columns - 1) / columns : 0;
    const double height = legend + step * (double)lines;
    lab_plot_open(out, id, plot->title, plot->summary, LAB_PLOT_WIDE, height);
    lab_plot_label(out, "title", "start", 2.0, 15.0, plot->title, 120);
    lab_markup(out, "<g transform=\"translate(0 22)\">");
    lab_plot_legend(out, plot->series, plot->series_count, LAB_PLOT_WIDE);
    lab_markup(out, "</g>\n");
    for (size_t i = 0; i < plot->panel_count; i++) {
        const size_t line = i / columns;
        const double x = width * (double)(i % columns), y = legend + step * (double)line;
        lab_plot_label(out, "panel", "start", x + 2.0, y + 15.0, plot->panels[i].title, 48);
        lab_markup(out, "<g transform=\"translate(%.1f %.1f) scale(%.4f)\">\n", x,
                   y + PANEL_TITLE, scale);
        fputs(plot->panels[i].area, out);
        lab_markup(out, "</g>\n");
    }
    lab_markup(out, "</svg>\n");
    return height;
}
