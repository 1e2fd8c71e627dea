/* report_page_roofline.c: where every problem stands below the limits of its device. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/plan/plan_device.h"
#include "lab/report/report_page.h"

enum { ROOFS_MOST = 6 };

typedef struct roofline {
    lab_plot_roof roofs[ROOFS_MOST];
    char names[ROOFS_MOST][160];
    size_t roof_count;
    const char *series[LAB_PLOT_SERIES];
    size_t series_count;
    lab_plot_point *points;
    const lab_report_timing **timings; /* of each point */
    size_t point_count;
} roofline;

static void add_roof(roofline *line, double rate, bool slanted, bool dashed, const char *name) {
    if (!(rate > 0.0) || line->roof_count == ROOFS_MOST)
        return;
    char *text = line->names[line->roof_count];
    snprintf(text, sizeof line->names[0], "%s: %.4g %s", name, rate / 1e12,
             slanted ? "TB/s" : "TFLOP/s");
    line->roofs[line->roof_count++] =
        (lab_plot_roof){.name = text, .slanted = slanted, .dashed = dashed, .rate = rate};
}

/* ---------------------------------------------------------------------------- roofs */

typedef struct wanted {
    const char *name;
    lab_device device;
    bool found;
} wanted;

static void match_device(const char *name, void *state) {
    wanted *w = state;
    lab_device device;
    if (!w->found && lab_device_read(&device, name, NULL) &&
        strcmp(device.limits.name, w->name) == 0) {
        w->device = device;
        w->found = true;
    }
}

/* Of a GPU: the rates of its file in devices/. */
static void gpu_roofs(roofline *line, const char *name) {
    wanted w = {.name = name};
    lab_device_each(match_device, &w);
    if (!w.found)
        return;
    const lab_rate *rates = w.device.rates;
    add_roof(line, rates[LAB_RATE_TENSOR].value, false, false, "tensor cores, by the maker");
    add_roof(line, rates[LAB_RATE_MEMORY].value, true, false, "memory, by the maker");
    add_roof(line, rates[LAB_RATE_TENSOR_SEEN].value, false, true, "tensor cores, measured");
    add_roof(line, rates[LAB_RATE_MMA_SEEN].value, false, true, "by mma.sync, measured");
    add_roof(line, rates[LAB_RATE_MEMORY_SEEN].value, true, true, "memory, measured");
}

/* Of a CPU: what the same run measured. */
static void cpu_roofs(roofline *line, const json_t *peaks) {
    const struct {
        const char *field, *name;
        bool slanted;
    } rates[] = {{"amx_gflops", "AMX tiles, measured", false},
                 {"fma_gflops", "float32 FMA, measured", false},
                 {"l3_gbs", "third-level cache, measured", true},
                 {"dram_gbs", "memory, measured", true}};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        add_roof(line, 1e9 * json_number_value(json_object_get(peaks, rates[i].field)),
                 rates[i].slanted, true, rates[i].name);
}

/* --------------------------------------------------------------------------- points */

static void add_point(roofline *line, const lab_report_timing *t) {
    size_t series = 0;
    while (series < line->series_count && strcmp(line->series[series], t->subject) != 0)
        series++;
    if (series == LAB_PLOT_SERIES)
        series--;
    else if (series == line->series_count)
        line->series[line->series_count++] = t->subject;
    line->timings[line->point_count] = t;
    line->points[line->point_count++] = (lab_plot_point){.intensity = t->flops / t->bytes,
                                                         .rate = t->flops / t->ns.median * 1e9,
                                                         .series = series,
                                                         .note = t->problem};
}

/* Points of a file; of those with several variants (threads), the ones of `variant`. */
static void add_points(roofline *line, const lab_report *r, size_t file, const char *variant) {
    for (int ours = 1; ours >= 0; ours--) /* attest is the first series */
        for (size_t i = 0; i < r->timing_count; i++) {
            const lab_report_timing *t = &r->timings[i];
            if (t->file == file && t->samples.count > 0 && t->flops > 0.0 && t->bytes > 0.0 &&
                t->ours == (ours == 1) && !lab_report_is_rung(r, t) &&
                (!variant || strcmp(t->variant, variant) == 0))
                add_point(line, t);
        }
}

/* What the roofs allow at this intensity: the share of it is the last column. */
static double allowed(const roofline *line, double intensity) {
    double flat = 0.0, memory = 0.0;
    for (size_t i = 0; i < line->roof_count; i++) {
        double *most = line->roofs[i].slanted ? &memory : &flat;
        *most = line->roofs[i].rate > *most ? line->roofs[i].rate : *most;
    }
    const double by_memory = memory * intensity;
    return memory <= 0.0 ? flat : flat <= 0.0 || by_memory < flat ? by_memory : flat;
}

static const char *const headings[] = {
    "problem", "subject", "#operations a byte", "#TFLOP/s", "#of the roof",
};

static void put_figure(lab_page *page, const roofline *line, const char *caption) {
    char id[16], summary[256];
    snprintf(summary, sizeof summary,
             "%zu points below %zu limits, logarithmic on both axes. The table below has every "
             "number.",
             line->point_count, line->roof_count);
    lab_page_figure(page, id, caption);
    const lab_plot_roofline plot = {.title = caption,
                                    .summary = summary,
                                    .roofs = line->roofs,
                                    .roof_count = line->roof_count,
                                    .series = line->series,
                                    .series_count = line->series_count,
                                    .points = line->points,
                                    .point_count = line->point_count};
    lab_plot_roofline_svg(page->out, &plot, id);
    lab_page_table(page, "Every number as a table", headings, 5);
    for (size_t i = 0; i < line->point_count; i++) {
        const lab_plot_point *point = &line->points[i];
        char label[512];
        lab_markup(page->out,
                   "<tr><td><code>%s</code></td><td>%s</td><td class=\"num\">%.3g</td>"
                   "<td class=\"num\">%.3g</td><td class=\"num\">%.3g %%</td></tr>\n",
                   lab_report_label(label, sizeof label, line->timings[i]),
                   line->timings[i]->subject, point->intensity, point->rate / 1e12,
                   100.0 * point->rate / allowed(line, point->intensity));
    }
    lab_page_table_end(page);
}

static void roofline_free(roofline *line) {
    free(line->points);
    free(line->timings);
}

static bool roofline_make(roofline *line, const lab_report *r) {
    *line = (roofline){.points = calloc(r->timing_count + 1, sizeof *line->points),
                       .timings = calloc(r->timing_count + 1, sizeof(const void *))};
    if (line->points && line->timings)
        return true;
    roofline_free(line);
    return false;
}

/* ------------------------------------------------------------------------- sections */

/* One plot a GPU: all files of the device together, ladders apart. */
static void gpu_figure(lab_page *page, size_t first) {
    const lab_report *r = page->report;
    const char *device = r->files[first].device;
    roofline line;
    if (roofline_make(&line, r)) {
        gpu_roofs(&line, device);
        for (size_t i = 0; i < r->file_count; i++)
            if (strcmp(r->files[i].device, device) == 0 && line.roof_count > 0)
                add_points(&line, r, i, NULL);
        if (line.point_count > 0)
            put_figure(page, &line, device);
        roofline_free(&line);
    }
}

/* One plot a file: with as many threads as it has, and the peaks of so many. */
static void cpu_figure(lab_page *page, size_t file) {
    const lab_report *r = page->report;
    const json_t *peaks = json_object_get(r->files[file].document, "peaks");
    const char *threads, *most = NULL;
    json_t *ignored;
    json_object_foreach((json_t *)peaks, threads, ignored) {
        if (!most || strtol(threads, NULL, 10) > strtol(most, NULL, 10))
            most = threads;
    }
    roofline line;
    if (most && roofline_make(&line, r)) {
        char variant[32], caption[512];
        snprintf(variant, sizeof variant, "%.8s thread%s", most,
                 strcmp(most, "1") == 0 ? "" : "s");
        snprintf(caption, sizeof caption, "%s, %s: %s", r->files[file].device, variant,
                 r->files[file].name);
        cpu_roofs(&line, json_object_get(peaks, most));
        add_points(&line, r, file, variant);
        if (line.point_count > 0)
            put_figure(page, &line, caption);
        roofline_free(&line);
    }
}

static bool is_first_of_device(const lab_report *r, size_t file) {
    for (size_t i = 0; i < file; i++)
        if (strcmp(r->files[i].device, r->files[file].device) == 0)
            return false;
    return *r->files[file].device != '\0';
}

void lab_page_rooflines(lab_page *page) {
    const lab_report *r = page->report;
    if (r->timing_count == 0)
        return;
    lab_page_open(page, "roofline", "Roofline");
    lab_markup(
        page->out,
        "<p>What a device allows: with few operations for every byte that must move, memory "
        "binds; with many, arithmetic. Bytes are Q, K and V read once and O written once. A "
        "point above the slope has its inputs in a cache; one above a dashed line had a faster "
        "moment than the measurement of the limit. Limits are of devices/ for GPUs, and of the "
        "run itself for CPUs.</p>\n<div class=\"figures wide\">\n");
    const size_t before = page->figures;
    for (size_t i = 0; i < r->file_count; i++)
        if (r->files[i].kind == LAB_REPORT_CPU_TORCH)
            cpu_figure(page, i);
        else if (is_first_of_device(r, i))
            gpu_figure(page, i);
    if (page->figures == before)
        lab_markup(page->out, "<p>Of the devices of these files no limits are known.</p>\n");
    lab_markup(page->out, "</div>\n");
    lab_page_close(page);
}
