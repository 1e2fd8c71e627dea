/* report_store.c: the memory of a report, and functions that add to it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/problem/spec.h"
#include "lab/report/report_model.h"

void *lab_report_grow(void *list, size_t count, size_t element, lab_message *why) {
    if (count & (count - 1)) /* a list grows at every power of two */
        return list;
    void *grown = realloc(list, (count ? 2 * count : 1) * element);
    if (!grown)
        lab_fail(why, "no memory for the report");
    return grown;
}

void *lab_report_keep(lab_report *report, void *block) {
    void **blocks =
        block ? lab_report_grow(report->blocks, report->block_count, sizeof *blocks, NULL)
              : NULL;
    if (!blocks) {
        free(block);
        return NULL;
    }
    report->blocks = blocks;
    report->blocks[report->block_count++] = block;
    return block;
}

const char *lab_report_text(lab_report *report, const char *format, ...) {
    char *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        text = NULL;
    va_end(list);
    const char *kept = lab_report_keep(report, text);
    return kept ? kept : "";
}

void lab_report_fact_add(lab_report_file *file, const char *name, const char *value) {
    if (value && *value && file->fact_count < LAB_REPORT_FACTS)
        file->facts[file->fact_count++] = (lab_report_fact){.name = name, .value = value};
}

bool lab_report_sizes(const lab_node *from, const char *const names[], size_t count,
                      double *sizes, lab_message *why) {
    for (size_t i = 0; i < count; i++) {
        if (!lab_node_number(from, names[i], &sizes[i], why))
            return false;
        if (!(sizes[i] >= 0.0 && sizes[i] <= 1e12)) {
            const lab_node place = lab_node_member(from, names[i]);
            return lab_node_fail(&place, "expected a size", why);
        }
    }
    return true;
}

bool lab_report_samples(lab_report *report, const lab_node *object, const char *name,
                        lab_samples *out, lab_message *why) {
    double *values;
    size_t count;
    if (!lab_node_times(object, name, &values, &count, why))
        return false;
    uint32_t *round = malloc(count * sizeof *round);
    for (size_t i = 0; round && i < count; i++)
        round[i] = (uint32_t)i;
    *out = (lab_samples){.values = lab_report_keep(report, values),
                         .count = count,
                         .round = lab_report_keep(report, round)};
    return (out->values && out->round) || lab_fail(why, "no memory for %zu samples", count);
}

/* Operations and bytes from the problem's line, and the line as the program prints it. */
static bool fill_work(lab_report *report, lab_report_timing *t, const lab_node *problem,
                      lab_message *why) {
    lab_spec spec;
    lab_message parse;
    if (!lab_spec_parse(&spec, t->problem, &parse))
        return lab_fail(why, "%s: %s: '%.80s' is not a problem: %.200s", problem->file,
                        problem->path, t->problem, parse.text);
    char line[LAB_SPEC_MAX];
    lab_spec_print(&spec, line, sizeof line);
    t->problem = lab_report_text(report, "%s", line);
    t->flops = lab_spec_flops(&spec);
    t->bytes = lab_spec_bytes(&spec);
    return true;
}

bool lab_report_add_timing(lab_report *report, const lab_report_timing *timing,
                           const lab_node *problem, lab_message *why) {
    if (report->timing_count == LAB_REPORT_TIMINGS)
        return lab_fail(why, "%s: a report has %d timings at most", problem->file,
                        LAB_REPORT_TIMINGS);
    lab_report_timing *timings =
        lab_report_grow(report->timings, report->timing_count, sizeof *timings, why);
    if (!timings)
        return false;
    report->timings = timings;
    lab_report_timing *t = &timings[report->timing_count];
    *t = *timing;
    if (!fill_work(report, t, problem, why) ||
        (t->samples.count > 0 && !lab_summarise_samples(&t->ns, &t->samples, 0, why)))
        return false;
    report->timing_count++;
    return true;
}

void lab_report_free(lab_report *report) {
    for (size_t i = 0; i < report->file_count; i++) {
        lab_results_free(&report->files[i].bench);
        json_decref(report->files[i].document);
    }
    for (size_t i = 0; i < report->ablation_count; i++)
        free(report->ablations[i].variants);
    for (size_t i = 0; i < report->block_count; i++)
        free(report->blocks[i]);
    free(report->files);
    free(report->timings);
    free(report->pairs);
    free(report->medians);
    free(report->history);
    free(report->ablations);
    free(report->checks);
    free(report->saboteurs);
    free(report->launches);
    free(report->blocks);
    *report = (lab_report){0};
}
