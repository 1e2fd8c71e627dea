/* report_page_kernels.c: kernels compared: the ladder, and the gain of each switch. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

/* --------------------------------------------------------------------------- ladder */

static bool on_problem(const lab_report_timing *t, const lab_report_timing *of) {
    return t->file == of->file && t->ours && t->samples.count > 0 &&
           strcmp(t->problem, of->problem) == 0 && strcmp(t->variant, of->variant) == 0;
}

static size_t kernels_on(const lab_report *r, const lab_report_timing *of) {
    size_t count = 0;
    for (size_t i = 0; i < r->timing_count; i++)
        count += on_problem(&r->timings[i], of);
    return count;
}

static bool has_tiles(const lab_report *r, const lab_report_timing *of) {
    for (size_t i = 0; i < r->timing_count; i++)
        if (on_problem(&r->timings[i], of) && r->timings[i].tile)
            return true;
    return false;
}

/* The largest problem of the file with timings of several kernels, each of another family or
 * else tiles; NULL if there is none. */
static const lab_report_timing *ladder_problem(const lab_report *r, size_t file, bool tiles) {
    const lab_report_timing *largest = NULL;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        if (t->file == file && t->rung && t->samples.count > 0 && has_tiles(r, t) == tiles &&
            (!largest || t->flops > largest->flops) && kernels_on(r, t) > 1)
            largest = t;
    }
    return largest;
}

static const char *const ladder_headings[] = {
    "problem", "kernel", "#median", "#95 % interval", "#over the first", "#of the floor",
};

static void put_ladder_rows(lab_page *page, size_t file, bool tiles) {
    const lab_report *r = page->report;
    const lab_report_timing *first = NULL;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        if (t->file != file || !t->rung || t->samples.count == 0 || has_tiles(r, t) != tiles)
            continue;
        if (!first || !on_problem(t, first))
            first = t;
        lab_markup(page->out, "<tr><td>");
        lab_page_problem(page, t);
        lab_markup(page->out, "</td><td><code>%s</code></td>", t->kernel);
        lab_page_time_cell(page, t->ns.median);
        lab_page_interval_cell(page, t->ns.low, t->ns.high);
        lab_markup(page->out, "<td class=\"num\">%.4g×</td>", first->ns.median / t->ns.median);
        if (t->floor_ns > 0.0)
            lab_markup(page->out, "<td class=\"num\">%.2g %%</td></tr>\n",
                       100.0 * t->floor_ns / t->ns.median);
        else
            lab_markup(page->out, "<td></td></tr>\n");
    }
}

static void ladder_figure(lab_page *page, size_t file, const lab_report_timing *of,
                          bool tiles) {
    const lab_report *r = page->report;
    const size_t count = kernels_on(r, of); /* at least itself */
    if (count == 0)
        return;
    const char **rows = calloc(2 * count, sizeof *rows);
    lab_plot_mark *marks = calloc(count, sizeof *marks);
    char(*times)[32] = calloc(count, sizeof *times);
    size_t n = 0;
    for (size_t i = 0; rows && marks && times && i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        if (!on_problem(t, of))
            continue;
        rows[n] = t->kernel;
        rows[count + n] = lab_report_time(times[n], sizeof times[n], t->ns.median, "µ");
        marks[n] = (lab_plot_mark){.row = n,
                                   .value = t->ns.median / 1e3,
                                   .low = t->ns.low / 1e3,
                                   .high = t->ns.high / 1e3,
                                   .note = t->kernel};
        n++;
    }
    char caption[1024], label[512], summary[160], stem[128];
    snprintf(caption, sizeof caption, "%s, %s: %s", r->files[file].device,
             lab_report_label(label, sizeof label, of), r->files[file].name);
    snprintf(
        summary, sizeof summary,
        "Times of %zu kernels on one problem, logarithmic. The table below has every problem.",
        n);
    const lab_plot_intervals plot = {
        .title = caption,
        .summary = summary,
        .axis = "microseconds per call, logarithmic",
        .rows = rows,
        .values = rows + count,
        .row_count = n,
        .marks = marks,
        .mark_count = n,
        .log = true,
        .line = of->floor_ns / 1e3,
        .line_high = of->floor_ns > 0.0 ? "the device's floor" : NULL};
    lab_page_figure(
        page, &(lab_figure){.name = tiles ? "tiles" : "ladder",
                            .otherwise = lab_page_stem(stem, sizeof stem, &r->files[file]),
                            .caption = caption,
                            .intervals = &plot});
    lab_page_table(page, "Every problem as a table", ladder_headings, 6);
    put_ladder_rows(page, file, tiles);
    lab_page_table_end(page);
    free(times);
    free(rows);
    free(marks);
}

static void put_ladders(lab_page *page, bool tiles, const char *id, const char *title,
                        const char *text) {
    const lab_report *r = page->report;
    bool any = false;
    for (size_t i = 0; i < r->file_count; i++) {
        const lab_report_timing *of = ladder_problem(r, i, tiles);
        if (!of)
            continue;
        if (!any) {
            lab_page_open(page, id, title);
            lab_markup(page->out, "<p>%s</p>\n", text);
        }
        any = true;
        ladder_figure(page, i, of, tiles);
    }
    if (any)
        lab_page_close(page);
}

void lab_page_ladder(lab_page *page) {
    put_ladders(
        page, false, "ladder", "The ladder",
        "Kernels of attest on one problem, in the order of the file: each rung does one "
        "thing that the one before did not.");
}

void lab_page_tiles(lab_page *page) {
    put_ladders(page, true, "tiles", "Other tiles",
                "Kernels that differ only in their tiles, stages or warps, on one problem.");
}

/* ------------------------------------------------------------------------- ablation */

static bool has_kind(const lab_report_variant *v, const char *kind) {
    return strcmp(v->kind, kind) == 0;
}

static const lab_report_variant *all_off(const lab_report_ablation *a) {
    for (size_t i = 0; i < a->variant_count; i++)
        if (has_kind(&a->variants[i], "all_off") && a->variants[i].samples.count > 0)
            return &a->variants[i];
    return NULL;
}

/* From everything off to everything on, through the cumulative variants in the order of the
 * file. */
static void waterfall_figure(lab_page *page, const lab_report_ablation *a) {
    const lab_report_variant *off = all_off(a), *on = lab_report_all_on(a);
    const size_t most = a->variant_count + 2;
    const char **steps = calloc(most, sizeof *steps);
    double *numbers = calloc(3 * most, sizeof *numbers);
    size_t n = 0;
    for (size_t i = 0; off && on && steps && numbers && i < most; i++) {
        const lab_report_variant *v = i == 0 ? off : i + 1 == most ? on : &a->variants[i - 1];
        if (v->samples.count == 0 || (v != off && v != on && !has_kind(v, "cumulative")) ||
            (i > 0 && i + 1 < most && (v == off || v == on)))
            continue;
        steps[n] = v->name;
        numbers[n] = v->ns.median / 1e3;
        numbers[most + n] = v->ns.low / 1e3;
        numbers[2 * most + n] = v->ns.high / 1e3;
        n++;
    }
    if (n >= 2) {
        char caption[640];
        snprintf(caption, sizeof caption, "%s at %s: from all off to all on", a->kernel,
                 a->problem);
        const lab_plot_waterfall plot = {.title = caption,
                                         .summary =
                                             "Each bar is the change that one more "
                                             "optimisation makes; the table has the times.",
                                         .axis = "microseconds per call",
                                         .steps = steps,
                                         .values = numbers,
                                         .low = numbers + most,
                                         .high = numbers + 2 * most,
                                         .count = n};
        lab_page_figure(page, &(lab_figure){.name = "ablation",
                                            .otherwise = a->problem,
                                            .caption = caption,
                                            .waterfall = &plot});
        lab_markup(page->out, "</figure>\n");
    }
    free(steps);
    free(numbers);
}

static const char *const variant_headings[] = {
    "variant", "kind", "answer", "#median", "#95 % interval", "#of all on",
};

/* The loss if one optimisation alone is left out. */
static void contribution_figure(lab_page *page, const lab_report_ablation *a) {
    const lab_report_variant *on = lab_report_all_on(a);
    const size_t most = a->variant_count ? a->variant_count : 1;
    const char **rows = calloc(most, sizeof *rows);
    lab_plot_mark *marks = calloc(most, sizeof *marks);
    size_t n = 0;
    for (size_t i = 0; on && rows && marks && i < a->variant_count; i++) {
        const lab_report_variant *v = &a->variants[i];
        if (!has_kind(v, "one_off") || v->samples.count == 0)
            continue;
        rows[n] = v->name;
        marks[n] = (lab_plot_mark){.row = n,
                                   .value = v->ns.median / on->ns.median,
                                   .low = v->ns.low / on->ns.high,
                                   .high = v->ns.high / on->ns.low,
                                   .note = v->name};
        n++;
    }
    char caption[640];
    snprintf(caption, sizeof caption, "%s at %s: one left out at a time", a->kernel,
             a->problem);
    const lab_plot_intervals plot = {.title = caption,
                                     .summary =
                                         "Time without each optimisation in times of the time "
                                         "with all; the table has every number.",
                                     .axis = "relative to the time with all on",
                                     .rows = rows,
                                     .row_count = n,
                                     .marks = marks,
                                     .mark_count = n,
                                     .log = true,
                                     .line = 1.0,
                                     .line_low = "costs",
                                     .line_high = "helps"};
    lab_page_figure(page, &(lab_figure){.name = "ablation-one-off",
                                        .otherwise = a->problem,
                                        .caption = caption,
                                        .intervals = &plot});
    lab_page_table(page, "Every variant as a table", variant_headings, 6);
    for (size_t i = 0; i < a->variant_count; i++) {
        const lab_report_variant *v = &a->variants[i];
        lab_markup(page->out, "<tr><td><code>%s</code></td><td>%s</td><td>%s</td>", v->name,
                   v->kind, v->outcome);
        if (v->samples.count > 0) {
            lab_page_time_cell(page, v->ns.median);
            lab_page_interval_cell(page, v->ns.low, v->ns.high);
        } else {
            lab_markup(page->out, "<td class=\"num\">not timed</td><td></td>");
        }
        if (v->samples.count > 0 && on)
            lab_markup(page->out, "<td class=\"num\">%.2f×</td></tr>\n",
                       v->ns.median / on->ns.median);
        else
            lab_markup(page->out, "<td></td></tr>\n");
    }
    lab_page_table_end(page);
    free(rows);
    free(marks);
}

void lab_page_ablations(lab_page *page) {
    const lab_report *r = page->report;
    if (r->ablation_count == 0)
        return;
    lab_page_open(page, "ablation", "Ablation");
    lab_markup(page->out,
               "<p>What each optimisation of a kernel is worth, by leaving it out. Answers are "
               "checked as well as timed.</p>\n");
    for (size_t i = 0; i < r->ablation_count; i++) {
        lab_markup(page->out, "<div class=\"beside\">\n");
        waterfall_figure(page, &r->ablations[i]);
        contribution_figure(page, &r->ablations[i]);
        lab_markup(page->out, "</div>\n");
    }
    lab_page_close(page);
}
