/* plot_text.c: rows of values with their intervals, drawn with characters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/base/table.h"
#include "lab/report/plot.h"

enum { VALUE_WIDTH = 8, PLOT_LEAST = 16, LINE_MOST = 1024 };

static const char signs[LAB_PLOT_SERIES + 1] = "ox*+#%@&=$~^!?0123>I<QUV";
static const char *const colors[LAB_PLOT_SERIES] = {
    "36", "33", "35", "32", "34", "31", "36", "37", "33", "35", "32", "34",
    "31", "36", "36", "36", "36", "36", "36", "33", "35", "32", "34", "31"};

static size_t series_of(const lab_plot_intervals *plot, const lab_plot_mark *mark) {
    return lab_plot_slot(mark->series < plot->series_count ? plot->series[mark->series].slot
                                                           : 0);
}

static size_t label_width(const lab_plot_intervals *plot, size_t columns) {
    size_t widest = 0;
    for (size_t i = 0; i < plot->row_count; i++) {
        const size_t width = lab_text_width(plot->rows[i]);
        widest = width > widest ? width : widest;
    }
    const size_t most = columns - PLOT_LEAST - VALUE_WIDTH - 2;
    return widest < most ? widest : most;
}

static size_t cell_of(const lab_plot_scale *scale, double value) {
    return (size_t)lround(lab_plot_at(scale, value));
}

/* One mark as a line of text: "label  |   --o--    1.13". */
static void put_mark(FILE *out, const lab_plot_intervals *plot, const lab_plot_mark *mark,
                     const lab_plot_scale *scale, size_t label, size_t width, bool first,
                     bool color) {
    char cells[LINE_MOST], name[LINE_MOST], number[32];
    memset(cells, ' ', width);
    if (plot->line > 0.0)
        cells[cell_of(scale, plot->line)] = '|';
    const size_t low = cell_of(scale, mark->low), high = cell_of(scale, mark->high);
    const size_t at = cell_of(scale, mark->value), series = series_of(plot, mark);
    for (size_t i = low; i <= high; i++)
        cells[i] = cells[i] == '|' ? '+' : '-';
    lab_plain_text(name, sizeof name, first ? plot->rows[mark->row] : "", label);
    lab_plot_number(number, sizeof number, mark->value);
    fprintf(out, "%s%*s  %.*s", name, (int)(label - lab_text_width(name)), "", (int)at, cells);
    fprintf(out, "%s%s%s%c%s", color ? "\033[1;" : "", color ? colors[series] : "",
            color ? "m" : "", signs[series], color ? "\033[0m" : "");
    fprintf(out, "%.*s%*s\n", (int)(width - at - 1), cells + at + 1, VALUE_WIDTH, number);
}

static void put_axis(FILE *out, const lab_plot_intervals *plot, const lab_plot_scale *scale,
                     size_t label, size_t width) {
    char cells[LINE_MOST], axis[LINE_MOST];
    double ticks[LAB_PLOT_TICKS];
    const size_t count = lab_plot_ticks(scale, ticks, width > 48 ? 7 : 4);
    memset(cells, ' ', width);
    size_t free_from = 0;
    for (size_t i = 0; i < count; i++) {
        char number[32];
        lab_plot_number(number, sizeof number, ticks[i]);
        const size_t length = strlen(number), at = cell_of(scale, ticks[i]);
        const size_t start = at >= length / 2 ? at - length / 2 : 0;
        if (start < free_from || start + length > width)
            continue;
        for (size_t k = 0; k < length; k++)
            cells[start + k] = number[k];
        free_from = start + length + 1;
    }
    fprintf(out, "%*s  %.*s\n", (int)label, "", (int)width, cells);
    fprintf(out, "%*s  %s\n", (int)label, "",
            lab_plain_text(axis, sizeof axis, plot->axis, width));
}

static void put_legend(FILE *out, const lab_plot_intervals *plot, size_t columns) {
    for (size_t i = 0; i < plot->series_count; i++) {
        char name[256];
        const lab_plot_mark mark = {.series = i};
        fprintf(out, "  %c %s\n", signs[series_of(plot, &mark)],
                lab_plain_text(name, sizeof name, plot->series[i].name, columns - 4));
    }
}

void lab_plot_intervals_text(FILE *out, const lab_plot_intervals *plot, size_t columns,
                             bool color) {
    columns = columns < LINE_MOST - 8 ? columns : LINE_MOST - 8;
    columns = columns > 2 * PLOT_LEAST + VALUE_WIDTH ? columns : 2 * PLOT_LEAST + VALUE_WIDTH;
    const size_t label = label_width(plot, columns);
    const size_t width = columns - label - VALUE_WIDTH - 2;
    const lab_plot_scale scale = lab_plot_intervals_scale(plot, 0.0, (double)(width - 1));
    char title[LINE_MOST];
    fprintf(out, "%s\n", lab_plain_text(title, sizeof title, plot->title, columns));
    put_legend(out, plot, columns);
    for (size_t row = 0; row < plot->row_count; row++) {
        bool first = true;
        for (size_t i = 0; i < plot->mark_count; i++)
            if (plot->marks[i].row == row) {
                put_mark(out, plot, &plot->marks[i], &scale, label, width, first, color);
                first = false;
            }
    }
    put_axis(out, plot, &scale, label, width);
}
