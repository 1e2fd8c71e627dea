/* report_page_history.c: the times of attest on a problem over its runs. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* The most lines that one plot can distinguish, and the most runs that fit; the table has
 * all. */
enum { LINES_MOST = 8, RUNS_MOST = 12, NOTE = 256 };

/* A plot: problems whose first run is in one file and group, over the files that have them. */
typedef struct panel {
    size_t first[LINES_MOST]; /* timings: the first run of each problem */
    size_t files[RUNS_MOST], run_count;
    char title[240], group[64], names[RUNS_MOST][12], lines[LINES_MOST][NOTE],
        notes[LINES_MOST * RUNS_MOST][NOTE];
    const char *name_list[RUNS_MOST];
    lab_plot_key keys[LINES_MOST];
    lab_plot_spot spots[LINES_MOST * RUNS_MOST];
    lab_plot_curves plot;
} panel;

/* The panel for a problem with this first run: one with room, or a new one. */
static panel *panel_of(panel *panels, size_t *count, const lab_report *r, size_t first) {
    const lab_report_timing *t = &r->timings[first];
    for (size_t i = 0; i < *count; i++) {
        const lab_report_timing *other = &r->timings[panels[i].first[0]];
        if (panels[i].plot.series_count < LINES_MOST && other->file == t->file &&
            strcmp(other->group, t->group) == 0)
            return &panels[i];
    }
    return &panels[(*count)++];
}

static bool has_line(const panel *panels, size_t count, size_t first) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < panels[i].plot.series_count; k++)
            if (panels[i].first[k] == first)
                return true;
    return false;
}

static void add_run(panel *p, size_t file) {
    size_t at = 0;
    while (at < p->run_count && p->files[at] < file)
        at++;
    if (p->run_count == RUNS_MOST || (at < p->run_count && p->files[at] == file))
        return;
    memmove(&p->files[at + 1], &p->files[at], (p->run_count - at) * sizeof p->files[0]);
    p->files[at] = file;
    p->run_count++;
}

/* The problem; in a ladder, where every kernel has its own history, also the kernel. */
static const char *name_line(char buf[NOTE], const lab_report *r, size_t timing) {
    const lab_report_timing *t = &r->timings[timing];
    const bool rung = t->rung;
    snprintf(buf, NOTE, "%.100s%s%.100s", t->problem, rung ? ", " : "", rung ? t->kernel : "");
    return buf;
}

/* Assign every problem of the history to a line, and collect its runs. */
static size_t make_panels(panel *panels, const lab_report *r) {
    size_t count = 0;
    for (size_t i = 0; i < r->history_count; i++) {
        const size_t first = r->history[i].theirs;
        if (has_line(panels, count, first))
            continue;
        panel *p = panel_of(panels, &count, r, first);
        const size_t line = p->plot.series_count++;
        p->first[line] = first;
        p->keys[line] =
            (lab_plot_key){.name = name_line(p->lines[line], r, first), .slot = line};
        add_run(p, r->timings[first].file);
        for (size_t k = 0; k < r->history_count; k++)
            if (r->history[k].theirs == first)
                add_run(p, r->timings[r->history[k].ours].file);
    }
    return count;
}

static void add_spot(panel *p, const lab_report *r, size_t line, size_t timing) {
    const lab_report_timing *t = &r->timings[timing];
    for (size_t run = 0; run < p->run_count; run++) {
        if (p->files[run] != t->file || p->plot.spot_count == LINES_MOST * RUNS_MOST)
            continue;
        char time[32], *note = p->notes[p->plot.spot_count];
        snprintf(note, NOTE, "%.90s: %s, %.60s, %.60s", t->problem,
                 lab_report_time(time, sizeof time, t->ns.median, "µ"), t->kernel,
                 r->files[t->file].name);
        p->spots[p->plot.spot_count++] = (lab_plot_spot){
            .x = (double)run, .y = t->ns.median / 1e3, .series = line, .note = note};
    }
}

/* The name of a run is its day, or its version. */
static void name_runs(panel *p, const lab_report *r) {
    for (size_t i = 0; i < p->run_count; i++) {
        const lab_report_file *file = &r->files[p->files[i]];
        snprintf(p->names[i], sizeof p->names[i], "%.9s",
                 strlen(file->date) >= 10 ? file->date + 5
                 : *file->version         ? file->version
                                          : "undated");
        if (strlen(file->date) >= 10)
            p->names[i][5] = '\0';
        p->name_list[i] = p->names[i];
    }
}

/* What made the file. */
static const char *harness_of(const lab_report *r, const lab_report_timing *t) {
    switch (r->files[t->file].kind) {
    case LAB_REPORT_GPU_TORCH:
    case LAB_REPORT_CPU_TORCH:
        return "the script that preceded attest.bench";
    case LAB_REPORT_BENCH:
        return *t->group ? "python -m attest.bench" : "attest bench";
    default:
        return r->files[t->file].schema;
    }
}

static void fill_panel(panel *p, const lab_report *r) {
    const lab_report_timing *t = &r->timings[p->first[0]];
    for (size_t line = 0; line < p->plot.series_count; line++) {
        add_spot(p, r, line, p->first[line]);
        for (size_t k = 0; k < r->history_count; k++)
            if (r->history[k].theirs == p->first[line])
                add_spot(p, r, line, r->history[k].ours);
    }
    name_runs(p, r);
    snprintf(p->title, sizeof p->title, "%.60s: %.60s%s%.30s, by %s", r->files[t->file].device,
             lab_report_title(p->group, sizeof p->group, t->group, t->problem),
             *t->variant ? ", " : "", t->variant, harness_of(r, t));
    p->plot.title = "times over runs";
    p->plot.summary =
        "Median times of attest on each problem over its runs. The table below has "
        "every number.";
    p->plot.x_axis = "runs, oldest first";
    p->plot.y_axis = "microseconds per call, logarithmic";
    p->plot.x_names = p->name_list;
    p->plot.x_count = p->run_count;
    p->plot.log_y = true;
    p->plot.series = p->keys;
    p->plot.spots = p->spots;
}

static void put_row(lab_page *page, const lab_report_pair *pair) {
    const lab_report *r = page->report;
    const lab_report_timing *now = &r->timings[pair->ours], *then = &r->timings[pair->theirs];
    lab_markup(page->out, "<tr><td>");
    lab_page_problem(page, now);
    lab_markup(page->out, "</td>");
    lab_page_verdict_cell(page, pair);
    lab_markup(page->out, "<td class=\"num\">%.2f×</td><td class=\"num\">%.3f – %.3f</td>",
               pair->speed, pair->low, pair->high);
    lab_page_time_cell(page, now->ns.median);
    lab_markup(page->out, "<td><code>%s</code></td><td><code>%s</code></td>", now->kernel,
               r->files[now->file].name);
    lab_page_time_cell(page, then->ns.median);
    lab_markup(page->out, "<td><code>%s</code></td><td><code>%s</code></td></tr>\n",
               then->kernel, r->files[then->file].name);
}

static const char *const headings[] = {
    "problem", "verdict", "#speed", "#95 % interval", "#now",
    "kernel",  "file",    "#then",  "kernel",         "first run",
};

static void put_panel(lab_page *page, const panel *p) {
    const lab_report *r = page->report;
    lab_page_figure(page, &(lab_figure){.name = "history",
                                        .otherwise = p->group,
                                        .caption = p->title,
                                        .panels = &p->plot,
                                        .device = p->title,
                                        .panel_count = 1});
    lab_page_table(page, "Every number as a table", headings,
                   sizeof headings / sizeof headings[0]);
    for (size_t i = 0; i < r->history_count; i++)
        if (has_line(p, 1, r->history[i].theirs))
            put_row(page, &r->history[i]);
    lab_page_table_end(page);
}

void lab_page_history(lab_page *page) {
    const lab_report *r = page->report;
    panel *panels = r->history_count ? calloc(r->history_count, sizeof *panels) : NULL;
    if (!panels)
        return;
    const size_t count = make_panels(panels, r);
    lab_page_open(page, "history", "History");
    lab_markup(
        page->out,
        "<p>Runs of attest on one kind of device by one harness; the table compares each "
        "with the first. Runs are in the order of the dates in their files, then of the "
        "versions of attest, then of the names.</p>\n<div class=\"figures\">\n");
    for (size_t i = 0; i < count; i++) {
        fill_panel(&panels[i], r);
        put_panel(page, &panels[i]);
    }
    lab_markup(page->out, "</div>\n");
    lab_page_close(page);
    free(panels);
}
