/* plot.h: plots as SVG, as rows of a page, and with characters for a terminal.
 *
 * Curves, rooflines and waterfalls are drawn 360 points wide, for a phone, and scale with their
 * container. Intervals are rows of the page, as wide as the page; as a separate picture they
 * are LAB_PLOT_WIDE points wide. Nothing is shown by colour alone: series have shapes, marks
 * have titles, and every plot has a table beside it. Colours are classes (s0, s1 ...). */
#ifndef LAB_PLOT_H
#define LAB_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    LAB_PLOT_WIDTH = 360,
    LAB_PLOT_WIDE = 960,
    LAB_PLOT_SERIES = 24, /* that many are distinguishable; later ones share the last shape */
    LAB_PLOT_TICKS = 12
};

/* A series: its name, and its shape and colour throughout a page. */
typedef struct lab_plot_key {
    const char *name;
    size_t slot;
} lab_plot_key;

/* -------------------------------------------------------------------------- scales */

typedef struct lab_plot_scale {
    bool log;
    double low, high; /* values; low < high, above 0 if log */
    double from, to;  /* coordinates */
} lab_plot_scale;

/* A scale that contains every value from low to high with some margin. Values that are not
 * finite, or not above 0 on a logarithmic scale, are ignored; if nothing is left it goes from 1
 * to 10. */
lab_plot_scale lab_plot_scale_make(bool log, double low, double high, double from, double to);

/* The coordinate of a value; values outside are drawn at the end. */
double lab_plot_at(const lab_plot_scale *scale, double value);

/* Round values within the scale, at most `most` (<= LAB_PLOT_TICKS); returns their number. */
size_t lab_plot_ticks(const lab_plot_scale *scale, double ticks[LAB_PLOT_TICKS], size_t most);

/* "0.5", "12", "3.5k", "2M". */
void lab_plot_number(char *buf, size_t n, double value);

/* ------------------------------------------------------------------------- intervals */

typedef struct lab_plot_mark {
    size_t row, series;      /* indices into the plot's lists */
    double value, low, high; /* low <= value <= high; equal if there is no interval */
    const char *note;        /* tooltip of the mark */
} lab_plot_mark;

/* Values with intervals, one row each. */
typedef struct lab_plot_intervals {
    const char *title, *summary; /* text alternative of the picture */
    const char *axis;            /* what the values are */
    const char *const *rows;
    const char *const *values; /* right of each row; NULL: none */
    size_t row_count;
    const lab_plot_key *series;
    size_t series_count;
    const lab_plot_mark *marks;
    size_t mark_count;
    bool log;
    double line;                      /* a value to draw a line at; 0: none */
    const char *line_low, *line_high; /* labels for its two sides; may be NULL */
} lab_plot_intervals;

/* The scale of its values, including intervals and line, drawn between `from` and `to`. */
lab_plot_scale lab_plot_intervals_scale(const lab_plot_intervals *plot, double from, double to);

/* Rows of a page: labels beside the axis if there is room, above it on a phone. `id` is the
 * prefix of the ids of the plot's elements; the caller must make it unique in the page. */
void lab_plot_intervals_rows(FILE *out, const lab_plot_intervals *plot, const char *id);

/* As a picture, LAB_PLOT_WIDE points wide. This and the other functions that draw a picture
 * return its height. */
double lab_plot_intervals_svg(FILE *out, const lab_plot_intervals *plot, const char *id);

/* The same with characters, `columns` wide; with colour where `color`. */
void lab_plot_intervals_text(FILE *out, const lab_plot_intervals *plot, size_t columns,
                             bool color);

/* ----------------------------------------------------------------------------- curves */

/* An upper limit, drawn across the plot. */
typedef struct lab_plot_ceiling {
    const char *name;
    double value;
    bool dashed; /* measured, not stated by the maker */
} lab_plot_ceiling;

typedef struct lab_plot_spot {
    double x, y;
    size_t series;
    const char *note;
} lab_plot_spot;

/* One line per series. The line connects the spots of a series in their order. */
typedef struct lab_plot_curves {
    const char *name; /* of a panel beside others */
    const char *title, *summary, *x_axis, *y_axis;
    const char *const
        *x_names; /* x is an index into these; NULL: x is a number on a logarithmic scale */
    size_t x_count;
    bool log_y; /* otherwise from 0 */
    size_t series_count;
    const lab_plot_key *series;
    const lab_plot_spot *spots;
    size_t spot_count;
    const lab_plot_ceiling *ceilings;
    size_t ceiling_count;
} lab_plot_curves;

/* One plot without a legend. */
double lab_plot_curves_svg(FILE *out, const lab_plot_curves *plot, const char *id);

/* The same without its frame, to be placed beside others. */
void lab_plot_curves_area(FILE *out, const lab_plot_curves *plot);

/* The output of lab_plot_curves_area(), and its title. */
typedef struct lab_plot_panel {
    const char *title, *area;
} lab_plot_panel;

/* Several plots side by side as one picture, LAB_PLOT_WIDE points wide, with one legend. */
typedef struct lab_plot_panels {
    const char *title, *summary;
    const lab_plot_panel *panels;
    size_t panel_count;
    const lab_plot_key *series;
    size_t series_count;
} lab_plot_panels;

double lab_plot_panels_svg(FILE *out, const lab_plot_panels *plot, const char *id);

/* --------------------------------------------------------------------------- roofline */

typedef struct lab_plot_roof {
    const char *name;
    bool slanted; /* memory: rate is bytes per second; otherwise operations per second */
    bool dashed;  /* measured, not stated by the maker */
    double rate;
} lab_plot_roof;

typedef struct lab_plot_point {
    double intensity; /* operations per byte */
    double rate;      /* operations per second */
    size_t series;
    const char *note;
} lab_plot_point;

typedef struct lab_plot_roofline {
    const char *title, *summary;
    const lab_plot_roof *roofs;
    size_t roof_count;
    const lab_plot_key *series;
    size_t series_count;
    const lab_plot_point *points;
    size_t point_count;
} lab_plot_roofline;

double lab_plot_roofline_svg(FILE *out, const lab_plot_roofline *plot, const char *id);

/* -------------------------------------------------------------------------- waterfall */

/* From the first value to the last, step by step. */
typedef struct lab_plot_waterfall {
    const char *title, *summary, *axis;
    const char *const *steps; /* names */
    const double *values, *low, *high;
    size_t count;
} lab_plot_waterfall;

double lab_plot_waterfall_svg(FILE *out, const lab_plot_waterfall *plot, const char *id);

/* ------------------------------------------------------------ parts that plots share */

/* <svg ...> with its title and description; the caller writes </svg>. */
void lab_plot_open(FILE *out, const char *id, const char *title, const char *summary,
                   double width, double height);

/* The class number of a slot, and the outline of its shape, 8 points wide around 0, 0. */
size_t lab_plot_slot(size_t slot);
const char *lab_plot_outline(size_t slot);

/* The mark of a series, centred at x, y. */
void lab_plot_shape(FILE *out, size_t slot, double x, double y, const char *note);

/* Grid lines from y = top to y = bottom with numbers below, and the axis title. */
void lab_plot_x_axis(FILE *out, const lab_plot_scale *scale, double top, double bottom,
                     const char *axis);

/* Grid lines from x = left to x = right with numbers on the left. */
void lab_plot_y_axis(FILE *out, const lab_plot_scale *scale, double left, double right);

/* Shapes with names in lines from the top of a picture of that width; returns the y below them.
 * `out` may be NULL to compute only that. A single series needs no legend. */
double lab_plot_legend(FILE *out, const lab_plot_key *series, size_t count, double width);

/* The same as a list in a page. */
void lab_plot_keys(FILE *out, const lab_plot_key *series, size_t count);

/* Text truncated to `columns` characters, in an element of this class. */
void lab_plot_label(FILE *out, const char *class_name, const char *anchor, double x, double y,
                    const char *text, size_t columns);

#endif
