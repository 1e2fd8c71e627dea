/* report_page_problems.c: a plot a group of problems: speeds against rivals, or times where there are none. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* What one plot is put together from. Rows and series are found by their names. */
typedef struct drawing {
    const char **rows, **series;
    lab_plot_mark *marks;
    char **texts; /* labels and notes, to be freed */
    size_t row_count, series_count, mark_count, text_count;
} drawing;

static void drawing_free(drawing *d) {
    for (size_t i = 0; i < d->text_count; i++)
        free(d->texts[i]);
    free(d->rows);
    free(d->series);
    free(d->marks);
    free(d->texts);
}

/* Room for `most` marks, each in a row and a series of its own at worst. */
static bool drawing_make(drawing *d, size_t most) {
    const size_t n = most ? most : 1;
    *d = (drawing){.rows = calloc(n, sizeof *d->rows),
                   .series = calloc(n, sizeof *d->series),
                   .marks = calloc(n, sizeof *d->marks),
                   .texts = calloc(2 * n, sizeof *d->texts)};
    if (d->rows && d->series && d->marks && d->texts)
        return true;
    drawing_free(d);
    return false;
}

/* A copy that lives as long as the drawing. */
static const char *keep(drawing *d, const char *text) {
    char *copy = strdup(text);
    if (!copy)
        return "";
    d->texts[d->text_count++] = copy;
    return copy;
}

static size_t index_of(const char **names, size_t *count, const char *name) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    names[*count] = name;
    return (*count)++;
}

static void add_mark(drawing *d, const lab_report_timing *t, const char *series, double value,
                     double low, double high, const char *note) {
    char label[512];
    lab_report_label(label, sizeof label, t);
    lab_plot_mark *mark = &d->marks[d->mark_count++];
    const size_t rows = d->row_count;
    size_t row = 0;
    while (row < rows && strcmp(d->rows[row], label) != 0)
        row++;
    if (row == rows)
        d->rows[d->row_count++] = keep(d, label);
    *mark = (lab_plot_mark){.row = row,
                            .series = index_of(d->series, &d->series_count, series),
                            .value = value,
                            .low = low,
                            .high = high,
                            .note = keep(d, note)};
}

/* -------------------------------------------------------------------------- speeds */

static void add_pair(drawing *d, const lab_report *r, const lab_report_pair *pair,
                     const char *series) {
    const lab_report_timing *ours = &r->timings[pair->ours];
    char note[768], label[512];
    snprintf(note, sizeof note, "%s, against %s: %.3f (%.3f to %.3f), %s",
             lab_report_label(label, sizeof label, ours), series, pair->speed, pair->low,
             pair->high, lab_report_verdict_word(pair->verdict.kind));
    add_mark(d, ours, series, pair->speed, pair->low, pair->high, note);
}

static void put_pair_row(lab_page *page, const lab_report_pair *pair, const char *series) {
    const lab_report_timing *ours = &page->report->timings[pair->ours];
    const lab_report_timing *theirs = &page->report->timings[pair->theirs];
    char label[512];
    lab_markup(page->out, "<tr><td><code>%s</code></td><td>%s</td>",
               lab_report_label(label, sizeof label, ours), series);
    lab_page_verdict_cell(page, pair->verdict.kind);
    lab_markup(page->out, "<td class=\"num\">%.2f×</td><td class=\"num\">%.3f – %.3f</td>",
               pair->speed, pair->low, pair->high);
    lab_page_time_cell(page, ours->ns.median);
    lab_page_interval_cell(page, ours->ns.low, ours->ns.high);
    lab_page_time_cell(page, theirs->ns.median);
    lab_page_interval_cell(page, theirs->ns.low, theirs->ns.high);
    lab_markup(page->out, "</tr>\n");
}

static const char *const pair_headings[] = {
    "problem", "rival",          "verdict", "#speed",         "#95 % interval",
    "#attest", "#95 % interval", "#rival",  "#95 % interval",
};

static const char *const run_headings[] = {
    "problem", "first run",      "verdict", "#speed",         "#95 % interval",
    "#now",    "#95 % interval", "#then",   "#95 % interval",
};

/* Whether a pair belongs into a figure of this group. */
static bool pair_in(const lab_report *r, const lab_report_pair *pair,
                    const lab_report_group *group) {
    return lab_report_in_group(r, &r->timings[pair->ours], group);
}

static size_t count_in(const lab_report *r, const lab_report_pair *pairs, size_t count,
                       const lab_report_group *group) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += pair_in(r, &pairs[i], group);
    return found;
}

/* The series of a pair: the rival, or in a history the file of the later run. */
static const char *series_of(const lab_report *r, const lab_report_pair *pair, bool history) {
    return history ? r->files[r->timings[pair->ours].file].name
                   : r->timings[pair->theirs].subject;
}

static void speed_figure(lab_page *page, const lab_report_pair *pairs, size_t count,
                         const lab_report_group *group, bool history) {
    const lab_report *r = page->report;
    drawing d;
    if (!drawing_make(&d, count_in(r, pairs, count, group)))
        return;
    size_t tally[LAB_VERDICTS] = {0};
    for (size_t i = 0; i < count; i++)
        if (pair_in(r, &pairs[i], group)) {
            add_pair(&d, r, &pairs[i], series_of(r, &pairs[i], history));
            tally[pairs[i].verdict.kind]++;
        }
    char id[16], caption[512], summary[256];
    snprintf(caption, sizeof caption, "%s%s%s", group->device, *group->group ? ": " : "",
             group->group);
    snprintf(
        summary, sizeof summary,
        "Speeds with 95 %% intervals of %zu problems: %zu faster, %zu slower, %zu same, %zu "
        "ambiguous. The table below has every number.",
        d.row_count, tally[LAB_FASTER], tally[LAB_SLOWER], tally[LAB_SAME],
        tally[LAB_AMBIGUOUS]);
    lab_page_figure(page, id, caption);
    if (d.series_count == 1 && history)
        lab_markup(page->out, "<p class=\"soft\">%s against the first run</p>\n", d.series[0]);
    else if (d.series_count == 1)
        lab_markup(page->out, "<p class=\"soft\">against %s</p>\n", d.series[0]);
    const lab_plot_intervals plot = {
        .title = caption,
        .summary = summary,
        .axis = history ? "times the speed of the first run" : "times the rival's speed",
        .rows = d.rows,
        .row_count = d.row_count,
        .series = d.series,
        .series_count = d.series_count,
        .first_series = history ? 0 : 1,
        .marks = d.marks,
        .mark_count = d.mark_count,
        .log = true,
        .line = 1.0,
        .line_low = history ? "slower than then" : "attest slower",
        .line_high = history ? "faster than then" : "attest faster",
    };
    lab_plot_intervals_svg(page->out, &plot, id);
    lab_page_table(page, "Every number as a table", history ? run_headings : pair_headings, 9);
    for (size_t i = 0; i < count; i++)
        if (pair_in(r, &pairs[i], group))
            put_pair_row(page, &pairs[i],
                         history ? r->files[r->timings[pairs[i].theirs].file].name
                                 : series_of(r, &pairs[i], false));
    lab_page_table_end(page);
    drawing_free(&d);
}

/* --------------------------------------------------------------------------- times */

static void put_time_row(lab_page *page, const lab_report_timing *t) {
    char label[512];
    lab_markup(page->out, "<tr><td><code>%s</code></td><td>%s</td><td><code>%s</code></td>",
               lab_report_label(label, sizeof label, t), t->subject, t->kernel);
    lab_page_time_cell(page, t->ns.median);
    lab_page_interval_cell(page, t->ns.low, t->ns.high);
    if (t->flops > 0.0)
        lab_markup(page->out, "<td class=\"num\">%.3g</td>", t->flops / t->ns.median / 1e3);
    else
        lab_markup(page->out, "<td></td>");
    if (t->floor_ns > 0.0)
        lab_markup(page->out, "<td class=\"num\">%.3g %%</td>",
                   100.0 * t->floor_ns / t->ns.median);
    else
        lab_markup(page->out, "<td></td>");
    lab_markup(page->out, "</tr>\n");
}

static const char *const time_headings[] = {
    "problem", "subject", "kernel", "#median", "#95 % interval", "#TFLOP/s", "#of the floor",
};

/* Timed by `attest bench`, with peers or without, and not as a ladder. */
static bool is_plain(const lab_report *r, size_t file, const lab_report_timing *t) {
    return t->file == file && t->samples.count > 0 && !lab_report_is_rung(r, t);
}

static void time_figure(lab_page *page, size_t file) {
    const lab_report *r = page->report;
    size_t count = 0;
    for (size_t i = 0; i < r->timing_count; i++)
        count += is_plain(r, file, &r->timings[i]);
    drawing d;
    if (count == 0 || !drawing_make(&d, count))
        return;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        if (!is_plain(r, file, t))
            continue;
        char note[768], label[512], time[32];
        snprintf(note, sizeof note, "%s, %s: %s", lab_report_label(label, sizeof label, t),
                 t->subject, lab_report_time(time, sizeof time, t->ns.median, "µ"));
        add_mark(&d, t, t->subject, t->ns.median / 1e3, t->ns.low / 1e3, t->ns.high / 1e3,
                 note);
    }
    char id[16], caption[512], summary[128];
    snprintf(caption, sizeof caption, "%s: times, %s", r->files[file].device,
             r->files[file].name);
    snprintf(
        summary, sizeof summary,
        "Median times with 95 %% intervals of %zu problems. The table below has every number.",
        d.row_count);
    lab_page_figure(page, id, caption);
    const lab_plot_intervals plot = {.title = caption,
                                     .summary = summary,
                                     .axis = "microseconds a call",
                                     .rows = d.rows,
                                     .row_count = d.row_count,
                                     .series = d.series,
                                     .series_count = d.series_count,
                                     .marks = d.marks,
                                     .mark_count = d.mark_count,
                                     .log = true};
    lab_plot_intervals_svg(page->out, &plot, id);
    lab_page_table(page, "Every number as a table", time_headings, 7);
    for (size_t i = 0; i < r->timing_count; i++)
        if (is_plain(r, file, &r->timings[i]))
            put_time_row(page, &r->timings[i]);
    lab_page_table_end(page);
    drawing_free(&d);
}

/* ------------------------------------------------------------------------- sections */

void lab_page_problems(lab_page *page) {
    const lab_report *r = page->report;
    lab_report_group *groups;
    const size_t count = lab_report_groups(r, &groups);
    if (r->timing_count > 0) {
        lab_page_open(page, "problems", "Problem by problem");
        lab_markup(
            page->out,
            "<p>Marks are medians, lines their 95 %% intervals (bootstrap); an interval that "
            "cannot be seen is narrower than its mark.</p>\n<div class=\"figures\">\n");
        for (size_t i = 0; i < count; i++)
            if (count_in(r, r->pairs, r->pair_count, &groups[i]) > 0)
                speed_figure(page, r->pairs, r->pair_count, &groups[i], false);
        for (size_t i = 0; i < r->file_count; i++)
            if (r->files[i].kind == LAB_REPORT_BENCH)
                time_figure(page, i);
        lab_markup(page->out, "</div>\n");
        lab_page_close(page);
    }
    free(groups);
}

void lab_page_history(lab_page *page) {
    const lab_report *r = page->report;
    lab_report_group *groups;
    const size_t count = lab_report_groups(r, &groups);
    lab_page_open(page, "history", "History");
    lab_markup(
        page->out,
        "<p>Runs of attest on one kind of device by one harness, compared with the first of "
        "them. Runs are in the order of the dates in their files, then of the versions of "
        "attest, then of the names: files without a date do not tell more.</p>\n");
    if (r->history_count == 0)
        lab_markup(page->out,
                   "<p>No problem of these files was measured twice: the history begins "
                   "with the next run.</p>\n");
    lab_markup(page->out, "<div class=\"figures\">\n");
    for (size_t i = 0; i < count; i++)
        if (count_in(r, r->history, r->history_count, &groups[i]) > 0)
            speed_figure(page, r->history, r->history_count, &groups[i], true);
    lab_markup(page->out, "</div>\n");
    lab_page_close(page);
    free(groups);
}
