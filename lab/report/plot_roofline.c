/* plot_roofline.c: operations per second over operations per byte, under the limits of a
 * device. */
#include <math.h>

#include "lab/base/markup.h"
#include "lab/report/plot.h"

enum { LEFT = 40, RIGHT = LAB_PLOT_WIDTH - 10, PLOT_HEIGHT = 240, ROOF_LINE = 15 };

typedef struct frame {
    lab_plot_scale x, y;
} frame;

static double flat_top(const lab_plot_roofline *plot) {
    double top = 0.0;
    for (size_t i = 0; i < plot->roof_count; i++)
        if (!plot->roofs[i].slanted)
            top = fmax(top, plot->roofs[i].rate);
    return top;
}

static double fastest_memory(const lab_plot_roofline *plot) {
    double rate = 0.0;
    for (size_t i = 0; i < plot->roof_count; i++)
        if (plot->roofs[i].slanted)
            rate = fmax(rate, plot->roofs[i].rate);
    return rate;
}

/* Wide enough for every point and for the ridge, where the limits meet. */
static frame frame_of(const lab_plot_roofline *plot, double top) {
    const double flat = flat_top(plot), memory = fastest_memory(plot);
    double left = INFINITY, right = 0.0, low = INFINITY, high = flat;
    for (size_t i = 0; i < plot->point_count; i++) {
        left = fmin(left, plot->points[i].intensity);
        right = fmax(right, plot->points[i].intensity);
        low = fmin(low, plot->points[i].rate);
        high = fmax(high, plot->points[i].rate);
    }
    if (flat > 0.0 && memory > 0.0) {
        left = fmin(left, flat / memory / 4.0);
        right = fmax(right, flat / memory * 4.0);
    }
    return (frame){.x = lab_plot_scale_make(true, left, right, LEFT, RIGHT),
                   .y = lab_plot_scale_make(true, low, high * 1.3, top + PLOT_HEIGHT, top)};
}

/* A limit is drawn only where no other limit is lower. */
static void put_roof(FILE *out, const lab_plot_roofline *plot, const lab_plot_roof *roof,
                     const frame *f) {
    const double flat = flat_top(plot), memory = fastest_memory(plot);
    double from = f->x.low, to = f->x.high;
    if (roof->slanted) {
        from = fmax(from, f->y.low / roof->rate);
        to = fmin(to, (flat > 0.0 ? flat : f->y.high) / roof->rate);
    } else if (memory > 0.0) {
        from = fmax(from, roof->rate / memory);
    }
    if (!(roof->rate > 0.0) || from >= to)
        return;
    const double low = roof->slanted ? from * roof->rate : roof->rate;
    const double high = roof->slanted ? to * roof->rate : roof->rate;
    lab_markup(out,
               "<path class=\"roof%s\" d=\"M%.1f %.1fL%.1f %.1f\"><title>%s</title></path>\n",
               roof->dashed ? " seen" : "", lab_plot_at(&f->x, from), lab_plot_at(&f->y, low),
               lab_plot_at(&f->x, to), lab_plot_at(&f->y, high), roof->name);
}

/* The names of the limits, below the axis: on a phone there is no room beside the lines. */
static void put_roof_names(FILE *out, const lab_plot_roofline *plot, double y) {
    for (size_t i = 0; i < plot->roof_count; i++, y += ROOF_LINE) {
        lab_markup(out, "<path class=\"roof%s\" d=\"M8 %.1fH32\"/>\n",
                   plot->roofs[i].dashed ? " seen" : "", y - 4.0);
        lab_plot_label(out, "key", "start", 38.0, y, plot->roofs[i].name, 58);
    }
}

double lab_plot_roofline_svg(FILE *out, const lab_plot_roofline *plot, const char *id) {
    const double legend =
        lab_plot_legend(NULL, plot->series, plot->series_count, LAB_PLOT_WIDTH);
    const double top = legend + 18.0, bottom = top + PLOT_HEIGHT,
                 height = bottom + 44.0 + ROOF_LINE * (double)plot->roof_count;
    const frame f = frame_of(plot, top);
    lab_plot_open(out, id, plot->title, plot->summary, LAB_PLOT_WIDTH, height);
    lab_plot_legend(out, plot->series, plot->series_count, LAB_PLOT_WIDTH);
    lab_plot_label(out, "axis", "start", 2.0, legend + 12.0, "operations per second", 40);
    lab_plot_y_axis(out, &f.y, LEFT, RIGHT);
    lab_plot_x_axis(out, &f.x, top, bottom, "operations per byte that must move");
    for (size_t i = 0; i < plot->roof_count; i++)
        put_roof(out, plot, &plot->roofs[i], &f);
    for (size_t i = plot->point_count; i-- > 0;) { /* the first series is on top */
        const lab_plot_point *point = &plot->points[i];
        lab_plot_shape(out, plot->series[point->series].slot,
                       lab_plot_at(&f.x, point->intensity), lab_plot_at(&f.y, point->rate),
                       point->note);
    }
    put_roof_names(out, plot, bottom + 44.0);
    lab_markup(out, "</svg>\n");
    return height;
}
