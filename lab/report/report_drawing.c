/* report_drawing.c: finds rows and series by name. */
#include "lab/report/report_drawing.h"

#include <stdlib.h>
#include <string.h>

void lab_drawing_free(lab_drawing *d) {
    for (size_t i = 0; d->texts && i < d->text_count; i++)
        free(d->texts[i]);
    free(d->rows);
    free(d->of);
    free(d->series);
    free(d->marks);
    free(d->texts);
}

bool lab_drawing_make(lab_drawing *d, const lab_report *report, size_t most) {
    const size_t n = most ? most : 1;
    *d = (lab_drawing){.report = report,
                       .rows = calloc(n, sizeof *d->rows),
                       .of = calloc(n, sizeof(const void *)),
                       .series = calloc(n, sizeof *d->series),
                       .marks = calloc(n, sizeof *d->marks),
                       .texts = calloc(2 * n, sizeof *d->texts)};
    if (d->rows && d->of && d->series && d->marks && d->texts)
        return true;
    lab_drawing_free(d);
    return false;
}

/* A copy that lives as long as the drawing. */
static const char *keep(lab_drawing *d, const char *text) {
    char *copy = strdup(text);
    if (!copy)
        return "";
    d->texts[d->text_count++] = copy;
    return copy;
}

static size_t row_of(lab_drawing *d, const lab_report_timing *t) {
    char label[512];
    size_t row = 0;
    while (row < d->row_count && (strcmp(d->of[row]->problem, t->problem) != 0 ||
                                  strcmp(d->of[row]->variant, t->variant) != 0))
        row++;
    if (row == d->row_count) {
        d->of[row] = t;
        d->rows[d->row_count++] = keep(d, lab_report_label(label, sizeof label, t));
    }
    return row;
}

static size_t series_of(lab_drawing *d, const char *name) {
    size_t i = 0;
    while (i < d->series_count && strcmp(d->series[i].name, name) != 0)
        i++;
    if (i == d->series_count)
        d->series[d->series_count++] =
            (lab_plot_key){.name = name, .slot = lab_report_slot(d->report, name)};
    return i;
}

void lab_drawing_add(lab_drawing *d, const lab_report_timing *t, const char *series,
                     double value, double low, double high, const char *note) {
    const size_t row = row_of(d, t);
    d->marks[d->mark_count] = (lab_plot_mark){.row = row,
                                              .series = series_of(d, series),
                                              .value = value,
                                              .low = low,
                                              .high = high,
                                              .note = keep(d, note)};
    d->mark_count++;
}

void lab_drawing_into(const lab_drawing *d, lab_plot_intervals *plot) {
    plot->rows = d->rows;
    plot->row_count = d->row_count;
    plot->series = d->series;
    plot->series_count = d->series_count;
    plot->marks = d->marks;
    plot->mark_count = d->mark_count;
}
