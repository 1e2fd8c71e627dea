/* report_drawing.h: a plot of rows, built mark by mark; rows and series are found by name. */
#ifndef LAB_REPORT_DRAWING_H
#define LAB_REPORT_DRAWING_H

#include "lab/report/plot.h"
#include "lab/report/report_view.h"

typedef struct lab_drawing {
    const lab_report *report;
    const char **rows;
    const lab_report_timing **of; /* the first timing of each row */
    lab_plot_key *series;
    lab_plot_mark *marks;
    char **texts; /* labels and notes, to be freed */
    size_t row_count, series_count, mark_count, text_count;
} lab_drawing;

/* Room for `most` marks, each in its own row and series at worst. */
bool lab_drawing_make(lab_drawing *drawing, const lab_report *report, size_t most);
void lab_drawing_free(lab_drawing *drawing);

/* Add a mark in the row of the timing's problem and in the series of this name, which must live
 * as long as the report. */
void lab_drawing_add(lab_drawing *drawing, const lab_report_timing *timing, const char *series,
                     double value, double low, double high, const char *note);

/* Set the rows, series and marks of a plot. */
void lab_drawing_into(const lab_drawing *drawing, lab_plot_intervals *plot);

#endif
