/* report_page_roofline.c: every kernel below the limits of its device, at its best problem. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_page.h"

typedef struct roofline {
    lab_page_roof limits[LAB_PAGE_ROOFS];
    lab_plot_roof roofs[LAB_PAGE_ROOFS];
    char names[LAB_PAGE_ROOFS][96];
    lab_plot_key series[LAB_PLOT_SERIES];
    const lab_report_timing **timings; /* one for each kernel or rival */
    lab_plot_point *points;
    char (*notes)[320];
    lab_plot_roofline plot;
} roofline;

static void roofline_free(roofline *line) {
    free(line->points);
    free(line->timings);
    free(line->notes);
}

static bool roofline_make(roofline *line, const lab_report *r) {
    const size_t most = r->timing_count;
    *line = (roofline){.points = calloc(most, sizeof *line->points),
                       .notes = calloc(most, sizeof *line->notes),
                       .timings = calloc(most, sizeof(const void *))};
    if (line->points && line->timings && line->notes)
        return true;
    roofline_free(line);
    return false;
}

/* What the limits allow for a problem, in operations per second. */
static double allowed(const roofline *line, const lab_report_timing *t) {
    double flat = 0.0, memory = 0.0;
    for (size_t i = 0; i < line->plot.roof_count; i++) {
        double *most = line->roofs[i].slanted ? &memory : &flat;
        *most = fmax(*most, line->roofs[i].rate);
    }
    const double by_memory = memory * t->flops / t->bytes;
    return memory <= 0.0 ? flat : flat <= 0.0 || by_memory < flat ? by_memory : flat;
}

static double share_of(const roofline *line, const lab_report_timing *t) {
    const double most = allowed(line, t);
    return most > 0.0 ? t->flops / t->ns.median * 1e9 / most : 0.0;
}

/* ---------------------------------------------------------------------------- points */

static const char *kernel_of(const lab_report_timing *t) {
    return t->ours && *t->kernel ? t->kernel : lab_report_name(t);
}

/* The index of a kernel's point: its existing one, or a new one. */
static size_t place_of(const roofline *line, const lab_report_timing *t) {
    size_t i = 0;
    while (i < line->plot.point_count && strcmp(kernel_of(line->timings[i]), kernel_of(t)) != 0)
        i++;
    return i;
}

static void offer(roofline *line, const lab_report_timing *t) {
    const size_t at = place_of(line, t);
    if (at == line->plot.point_count)
        line->plot.point_count++;
    else if (share_of(line, t) <= share_of(line, line->timings[at]))
        return;
    line->timings[at] = t;
}

static bool is_shown(const lab_report_timing *t) {
    return t->ns.median > 0.0 && !*t->failure && t->flops > 0.0 && t->bytes > 0.0 &&
           !t->older && !t->rung;
}

static size_t series_of(roofline *line, const lab_report *r, const char *name) {
    size_t i = 0;
    while (i < line->plot.series_count && strcmp(line->series[i].name, name) != 0)
        i++;
    if (i == LAB_PLOT_SERIES)
        return i - 1;
    if (i == line->plot.series_count)
        line->series[line->plot.series_count++] =
            (lab_plot_key){.name = name, .slot = lab_report_slot(r, name)};
    return i;
}

static int by_kernel(const void *left, const void *right) {
    const lab_report_timing *a = *(const lab_report_timing *const *)left,
                            *b = *(const lab_report_timing *const *)right;
    if (a->ours != b->ours)
        return a->ours ? -1 : 1;
    return strcmp(kernel_of(a), kernel_of(b));
}

static void make_points(roofline *line, const lab_report *r) {
    qsort((void *)line->timings, line->plot.point_count, sizeof(const void *), by_kernel);
    for (size_t i = 0; i < line->plot.point_count; i++) {
        const lab_report_timing *t = line->timings[i];
        const double rate = t->flops / t->ns.median * 1e9;
        snprintf(line->notes[i], sizeof line->notes[0],
                 "%.100s: %.3g TFLOP/s, %.0f %% of the roof, at %.100s", kernel_of(t),
                 rate / 1e12, 100.0 * share_of(line, t), t->problem);
        line->points[i] = (lab_plot_point){.intensity = t->flops / t->bytes,
                                           .rate = rate,
                                           .series = series_of(line, r, lab_report_name(t)),
                                           .note = line->notes[i]};
    }
}

static void set_roofs(roofline *line, const lab_report *r, const lab_report_timing *of) {
    line->plot.roof_count = lab_page_roofs(r, of, line->limits);
    for (size_t i = 0; i < line->plot.roof_count; i++) {
        const lab_page_roof *limit = &line->limits[i];
        snprintf(line->names[i], sizeof line->names[i], "%s: %.4g %s", limit->what,
                 limit->rate / 1e12, limit->of_memory ? "TB/s" : "TFLOP/s");
        line->roofs[i] = (lab_plot_roof){.name = line->names[i],
                                         .slanted = limit->of_memory,
                                         .dashed = limit->measured,
                                         .rate = limit->rate};
    }
}

/* --------------------------------------------------------------------------- figures */

static const char *const headings[] = {
    "kernel", "best at", "#FLOP per byte", "#TFLOP/s", "#of the roof",
};

/* Without an exponent, which is hard to read in a column. */
static const char *print_number(char *buf, size_t n, double value) {
    snprintf(buf, n, "%.*f", value < 10.0 ? 2 : value < 100.0 ? 1 : 0, value);
    return buf;
}

static void put_figure(lab_page *page, roofline *line, const char *caption) {
    line->plot.title = caption;
    line->plot.summary = "One point for each kernel below the limits of the device, "
                         "logarithmic on both axes. The "
                         "table has every number.";
    line->plot.roofs = line->roofs;
    line->plot.series = line->series;
    line->plot.points = line->points;
    make_points(line, page->report);
    lab_page_figure(page, &(lab_figure){.name = "roofline",
                                        .otherwise = caption,
                                        .caption = caption,
                                        .beside = true,
                                        .roofline = &line->plot});
    lab_page_headings(page, headings, sizeof headings / sizeof headings[0]);
    for (size_t i = 0; i < line->plot.point_count; i++) {
        const lab_report_timing *t = line->timings[i];
        char intensity[32], rate[32];
        if (t->ours)
            lab_markup(page->out, "<tr><td><code>%s</code></td><td>", kernel_of(t));
        else
            lab_markup(page->out, "<tr><td>%s</td><td>", kernel_of(t));
        lab_page_problem(page, t);
        lab_markup(page->out,
                   "</td><td class=\"num\">%s</td><td class=\"num\">%s</td>"
                   "<td class=\"num\">%.0f %%</td></tr>\n",
                   print_number(intensity, sizeof intensity, line->points[i].intensity),
                   print_number(rate, sizeof rate, line->points[i].rate / 1e12),
                   100.0 * share_of(line, t));
    }
    lab_markup(page->out, "</tbody></table></div>\n</figure>\n");
}

/* Timings that share a plot: of one GPU, or of one CPU with as many threads. */
static bool together(const lab_report *r, const lab_report_timing *a,
                     const lab_report_timing *b) {
    return strcmp(r->files[a->file].device, r->files[b->file].device) == 0 &&
           a->threads == b->threads;
}

static bool comes_first(const lab_report *r, size_t timing) {
    for (size_t i = 0; i < timing; i++)
        if (is_shown(&r->timings[i]) && together(r, &r->timings[i], &r->timings[timing]))
            return false;
    return is_shown(&r->timings[timing]);
}

/* Collect the plot whose first timing this is, if limits are known; returns whether there is
 * one to free. */
static bool gather(roofline *line, const lab_report *r, size_t first) {
    const lab_report_timing *of = &r->timings[first];
    if (!comes_first(r, first) || !roofline_make(line, r))
        return false;
    set_roofs(line, r, of);
    for (size_t i = first; line->plot.roof_count > 0 && i < r->timing_count; i++)
        if (is_shown(&r->timings[i]) && together(r, of, &r->timings[i]))
            offer(line, &r->timings[i]);
    return true;
}

void lab_page_rooflines(lab_page *page) {
    const lab_report *r = page->report;
    bool any = false;
    for (size_t i = 0; i < r->timing_count; i++) {
        roofline line;
        if (!gather(&line, r, i))
            continue;
        if (line.plot.point_count > 0) {
            char caption[512];
            const int threads = r->timings[i].threads;
            if (!any) {
                lab_page_open(page, "roofline", "Roofline");
                lab_markup(
                    page->out,
                    "<p>One point for each kernel that serves and for each rival, at the "
                    "problem at which it comes nearest to the roof. With few operations "
                    "per byte that must move, memory binds; with many, arithmetic. A point "
                    "above the slope has its inputs in a cache. Limits of GPUs are those "
                    "of devices/, limits of CPUs were measured in the same run.</p>\n");
            }
            any = true;
            snprintf(caption, sizeof caption, "%s", r->files[r->timings[i].file].device);
            if (threads > 0)
                snprintf(caption, sizeof caption, "%s, %d thread%s",
                         r->files[r->timings[i].file].device, threads, threads == 1 ? "" : "s");
            put_figure(page, &line, caption);
        }
        roofline_free(&line);
    }
    if (any)
        lab_page_close(page);
}
