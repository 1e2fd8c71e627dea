/* report_page_speeds.c: a plot for each group of problems: speeds relative to rivals, or times
 * if there are none. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_drawing.h"
#include "lab/report/report_page.h"

/* -------------------------------------------------------------------------- speeds */

/* Pairs of both lists: judged ones, then those with only medians. */
static const lab_report_pair *pair_at(const lab_report *r, size_t i) {
    return i < r->pair_count ? &r->pairs[i] : &r->medians[i - r->pair_count];
}

static size_t pair_total(const lab_report *r) {
    return r->pair_count + r->median_count;
}

static bool belongs(const lab_report *r, const lab_report_pair *pair,
                    const lab_report_group *group, bool older) {
    return lab_report_serves(r, pair) != older &&
           lab_report_in_group(r, &r->timings[pair->ours], group);
}

static void draw_pair(lab_drawing *d, const lab_report *r, const lab_report_pair *pair) {
    const lab_report_timing *ours = &r->timings[pair->ours];
    const char *rival = lab_report_name(&r->timings[pair->theirs]);
    char note[1024], label[512];
    snprintf(note, sizeof note, "%s: %s%s%.3f times %s, %.3f to %.3f, %s",
             lab_report_label(label, sizeof label, ours), ours->kernel,
             *ours->kernel ? ", " : "", pair->speed, rival, pair->low, pair->high,
             pair->unjudged ? "medians only" : lab_report_verdict_word(pair->verdict.kind));
    lab_drawing_add(d, ours, rival, pair->speed, pair->low, pair->high, note);
}

static void put_pair_row(lab_page *page, const lab_report_pair *pair) {
    const lab_report_timing *ours = &page->report->timings[pair->ours];
    const lab_report_timing *theirs = &page->report->timings[pair->theirs];
    lab_markup(page->out, "<tr><td>");
    lab_page_problem(page, ours);
    lab_markup(page->out, "</td><td>%s</td><td><code>%s</code></td>", lab_report_name(theirs),
               ours->kernel);
    lab_page_verdict_cell(page, pair);
    lab_markup(page->out, "<td class=\"num\">%.2f×</td><td class=\"num\">%.3f – %.3f</td>",
               pair->speed, pair->low, pair->high);
    lab_page_time_cell(page, ours->ns.median);
    lab_page_interval_cell(page, ours->ns.low, ours->ns.high);
    lab_page_time_cell(page, theirs->ns.median);
    lab_page_interval_cell(page, theirs->ns.low, theirs->ns.high);
    lab_markup(page->out, "</tr>\n");
}

static const char *const pair_headings[] = {
    "problem",        "rival",   "kernel",         "verdict", "#speed",
    "#95 % interval", "#attest", "#95 % interval", "#rival",  "#95 % interval",
};

enum { PAIR_COLUMNS = sizeof pair_headings / sizeof pair_headings[0] };

/* What the name of a group does not say: that its file has only medians. */
static const char *group_note(const lab_report_group *group) {
    return group->kind == LAB_REPORT_MEDIANS
               ? "medians alone are recorded: there are no verdicts"
               : NULL;
}

/* The file that all speeds of a group come from; NULL if there are several. */
static const lab_report_file *file_of(const lab_report *r, const lab_report_group *group,
                                      bool older) {
    const lab_report_file *found = NULL;
    for (size_t i = 0; i < pair_total(r); i++) {
        const lab_report_file *file = &r->files[r->timings[pair_at(r, i)->ours].file];
        if (!belongs(r, pair_at(r, i), group, older))
            continue;
        if (found && found != file)
            return NULL;
        found = file;
    }
    return found;
}

static void speed_figure(lab_page *page, const lab_report_group *group, bool older) {
    const lab_report *r = page->report;
    lab_drawing d;
    if (!lab_drawing_make(&d, r, pair_total(r)))
        return;
    for (size_t i = 0; i < pair_total(r); i++)
        if (belongs(r, pair_at(r, i), group, older))
            draw_pair(&d, r, pair_at(r, i));
    if (d.mark_count > 0) {
        char caption[512], name[512], note[640], summary[160], title[64], stem[128];
        const lab_report_file *file = file_of(r, group, older);
        lab_report_title(title, sizeof title, group->group, group->problem);
        snprintf(caption, sizeof caption, "%s: %s%s%s", group->device, title, file ? ", " : "",
                 file ? file->name : "");
        snprintf(name, sizeof name, "speeds-%s%s", *group->group ? group->group : title,
                 older ? "-older" : "");
        lab_page_stem(stem, sizeof stem, file ? file : &r->files[d.of[0]->file]);
        snprintf(note, sizeof note, "%s%s%s%s", d.series_count == 1 ? "against " : "",
                 d.series_count == 1 ? d.series[0].name : "",
                 d.series_count == 1 && group_note(group) ? "; " : "",
                 group_note(group) ? group_note(group) : "");
        snprintf(
            summary, sizeof summary,
            "Speeds with 95 %% intervals of %zu problems. The table below has every number.",
            d.row_count);
        lab_plot_intervals plot = {.title = caption,
                                   .summary = summary,
                                   .axis = "times the rival's speed",
                                   .log = true,
                                   .line = 1.0,
                                   .line_low = "attest slower",
                                   .line_high = "attest faster"};
        lab_drawing_into(&d, &plot);
        lab_page_figure(page, &(lab_figure){.name = name,
                                            .otherwise = stem,
                                            .caption = caption,
                                            .note = *note ? note : NULL,
                                            .filters = true,
                                            .intervals = &plot});
        lab_page_table(page, "Every number as a table", pair_headings, PAIR_COLUMNS);
        for (size_t i = 0; i < pair_total(r); i++)
            if (belongs(r, pair_at(r, i), group, older))
                put_pair_row(page, pair_at(r, i));
        lab_page_table_end(page);
    }
    lab_drawing_free(&d);
}

void lab_page_speed_figures(lab_page *page, bool older) {
    lab_report_group *groups;
    const size_t count = lab_report_groups(page->report, &groups);
    for (size_t i = 0; i < count; i++)
        speed_figure(page, &groups[i], older);
    free(groups);
}

void lab_page_speeds(lab_page *page) {
    const lab_report *r = page->report;
    bool any = false;
    for (size_t i = 0; i < pair_total(r); i++)
        any = any || lab_report_serves(r, pair_at(r, i));
    if (!any)
        return;
    lab_page_open(page, "speeds", "Problem by problem");
    lab_markup(
        page->out,
        "<p>Marks are medians, the bands behind them their 95 %% intervals (bootstrap); an "
        "interval that cannot be seen is narrower than its mark. Hover over a mark to see its "
        "kernel.</p>\n");
    lab_page_speed_figures(page, false);
    lab_page_close(page);
}

/* --------------------------------------------------------------------------- times */

static void put_time_row(lab_page *page, const lab_report_timing *t) {
    lab_markup(page->out, "<tr><td>");
    lab_page_problem(page, t);
    lab_markup(page->out, "</td><td>%s</td><td><code>%s</code></td>", lab_report_name(t),
               t->kernel);
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

static bool is_compared(const lab_report *r, size_t timing) {
    for (size_t i = 0; i < pair_total(r); i++)
        if (pair_at(r, i)->ours == timing || pair_at(r, i)->theirs == timing)
            return true;
    return false;
}

static bool checks_itself(const lab_report *r, size_t file) {
    for (size_t i = 0; i < r->check_count; i++)
        if (r->checks[i].file == file)
            return true;
    return false;
}

/* Timed by `attest bench` without a rival, not as a ladder, and not as a self-check. */
static bool is_plain(const lab_report *r, size_t file, size_t timing) {
    const lab_report_timing *t = &r->timings[timing];
    return t->file == file && t->samples.count > 0 && !t->rung && !is_compared(r, timing) &&
           !checks_itself(r, file);
}

static void time_figure(lab_page *page, size_t file, const lab_drawing *d) {
    const lab_report *r = page->report;
    char caption[512], summary[128], stem[128], name[160];
    snprintf(name, sizeof name, "times-%s", lab_page_stem(stem, sizeof stem, &r->files[file]));
    snprintf(caption, sizeof caption, "%s: %s", r->files[file].device, r->files[file].name);
    snprintf(summary, sizeof summary,
             "Median times with 95 %% intervals of %zu problems. The table below has every "
             "number.",
             d->row_count);
    lab_plot_intervals plot = {
        .title = caption, .summary = summary, .axis = "microseconds per call", .log = true};
    lab_drawing_into(d, &plot);
    lab_page_figure(
        page,
        &(lab_figure){.name = name, .caption = caption, .filters = true, .intervals = &plot});
    lab_page_table(page, "Every number as a table", time_headings,
                   sizeof time_headings / sizeof time_headings[0]);
    for (size_t i = 0; i < r->timing_count; i++)
        if (is_plain(r, file, i))
            put_time_row(page, &r->timings[i]);
    lab_page_table_end(page);
}

/* The plain timings of a file; returns whether there is a drawing to free. */
static bool draw_times(lab_drawing *d, const lab_report *r, size_t file) {
    if (r->files[file].kind != LAB_REPORT_BENCH || !lab_drawing_make(d, r, r->timing_count))
        return false;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        char note[1024], label[512], time[32];
        if (!is_plain(r, file, i))
            continue;
        snprintf(note, sizeof note, "%s, %s%s%s: %s", lab_report_label(label, sizeof label, t),
                 lab_report_name(t), *t->kernel ? ", " : "", t->kernel,
                 lab_report_time(time, sizeof time, t->ns.median, "µ"));
        lab_drawing_add(d, t, lab_report_name(t), t->ns.median / 1e3, t->ns.low / 1e3,
                        t->ns.high / 1e3, note);
    }
    return true;
}

void lab_page_times(lab_page *page) {
    const lab_report *r = page->report;
    bool any = false;
    for (size_t i = 0; i < r->file_count; i++) {
        lab_drawing d;
        if (!draw_times(&d, r, i))
            continue;
        if (d.mark_count > 0) {
            if (!any) {
                lab_page_open(page, "times", "Times");
                lab_markup(page->out, "<p>Problems that were timed without a rival.</p>\n");
            }
            any = true;
            time_figure(page, i, &d);
        }
        lab_drawing_free(&d);
    }
    if (any)
        lab_page_close(page);
}
