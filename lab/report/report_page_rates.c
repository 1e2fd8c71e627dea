/* report_page_rates.c: operations or bytes per second over the sequence length, for attest and
 * its rivals, below the limits. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/report/report_rates.h"

static const char *const headings[] = {
    "problem", "subject", "kernel", "#TFLOP/s", "#TB/s", "#time", "#95 % interval",
};

static void put_rows(lab_page *page, const lab_family *f) {
    for (size_t i = 0; i < f->plot.spot_count; i++) {
        const lab_report_timing *t = f->timings[i];
        lab_markup(page->out, "<tr><td>");
        lab_page_problem(page, t);
        lab_markup(page->out,
                   "</td><td>%s</td><td><code>%s</code></td>"
                   "<td class=\"num\">%.4g</td><td class=\"num\">%.3g</td>",
                   lab_report_name(t), t->ours ? t->kernel : "", t->flops / t->ns.median / 1e3,
                   t->bytes / t->ns.median / 1e3);
        lab_page_time_cell(page, t->ns.median);
        lab_page_interval_cell(page, t->ns.low, t->ns.high);
        lab_markup(page->out, "</tr>\n");
    }
}

/* The families of one file and group, side by side. */
static void put_figure(lab_page *page, const lab_family *families, size_t count) {
    const lab_report_file *file = &page->report->files[families[0].file];
    lab_plot_curves *panels = calloc(count, sizeof *panels);
    char name[256], stem[128], title[64], caption[512];
    if (!panels)
        return;
    for (size_t i = 0; i < count; i++)
        panels[i] = families[i].plot;
    lab_page_stem(stem, sizeof stem, file);
    snprintf(name, sizeof name, "rates-%s", *families[0].group ? families[0].group : stem);
    snprintf(caption, sizeof caption, "%s: %s, %s", file->device,
             lab_report_title(title, sizeof title, families[0].group,
                              families[0].timings[0]->problem),
             file->name);
    lab_page_figure(page, &(lab_figure){.name = name,
                                        .otherwise = stem,
                                        .caption = caption,
                                        .panels = panels,
                                        .device = file->device,
                                        .columns = count < 4 ? count : 4,
                                        .panel_count = count});
    lab_page_table(page, "Every number as a table", headings,
                   sizeof headings / sizeof headings[0]);
    for (size_t i = 0; i < count; i++)
        put_rows(page, &families[i]);
    lab_page_table_end(page);
    free(panels);
}

static bool same_figure(const lab_family *a, const lab_family *b) {
    return a->file == b->file && strcmp(a->group, b->group) == 0;
}

static int by_figure(const void *left, const void *right) {
    const lab_family *a = left, *b = right;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    /* Numbers in names by their values: s2 comes before s16. */
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : strverscmp(a->key, b->key);
}

void lab_page_rates(lab_page *page) {
    lab_family *families;
    const size_t count = lab_families_find(page->report, &families);
    if (count > 0) {
        qsort(families, count, sizeof *families, by_figure);
        lab_page_open(page, "rates", "Speed over length");
        lab_markup(page->out,
                   "<p>Operations per second, or bytes where memory binds, over the length of "
                   "the sequence. Operations are those of the mask&#39;s visible scores; bytes "
                   "are inputs read once and outputs written once. The solid line is the "
                   "manufacturer&#39;s peak. The dashed line is a measured rate: of reads of "
                   "memory, or of a large matrix product on the tensor cores. It is not a "
                   "bound: a large product lowers the clock, and a short run on an idle card "
                   "can be faster.</p>\n<div class=\"four\">\n");
        for (size_t i = 0; i < count; i++)
            lab_family_finish(&families[i], page->report);
        for (size_t i = 0, next; i < count; i = next) {
            for (next = i + 1; next < count && same_figure(&families[i], &families[next]);)
                next++;
            put_figure(page, &families[i], next - i);
        }
        lab_markup(page->out, "</div>\n");
        lab_page_close(page);
    }
    for (size_t i = 0; i < count; i++)
        lab_family_free(&families[i]);
    free(families);
}
