/* profile_report.c: prints profiles. */
#include "cli/profile_report.h"

#include <math.h>
#include <string.h>

#include "lab/base/table.h"

enum { KERNELS_SHOWN = 6, STALLS_SHOWN = 3 };

static void format_value(char *buf, size_t n, lab_metric_kind kind, double value) {
    if (isnan(value))
        snprintf(buf, n, "missing");
    else if (kind == LAB_KIND_TIME)
        snprintf(buf, n, "%.2f us", value / 1e3);
    else if (kind == LAB_KIND_SHARE)
        snprintf(buf, n, "%.1f %%", value);
    else if (kind == LAB_KIND_BYTES)
        snprintf(buf, n, value >= 1e6 ? "%.2f MB" : "%.0f B",
                 value >= 1e6 ? value / 1e6 : value);
    else
        snprintf(buf, n, kind == LAB_KIND_COUNT ? "%.0f" : "%.2f", value);
}

/* The largest stall that has not been named yet; LAB_METRICS: none. */
static lab_metric next_stall(const lab_profiled *p, const bool *named) {
    int worst = LAB_METRICS;
    for (int i = LAB_METRIC_STALL_FIRST; i < LAB_METRICS; i++)
        if (!named[i] && p->values[i] > 0.0 &&
            (worst == LAB_METRICS || p->values[i] > p->values[worst]))
            worst = i;
    return (lab_metric)worst;
}

static void put_kernel(FILE *text, const lab_profiled *p) {
    char sentence[512];
    bool named[LAB_METRICS] = {false};
    lab_profile_bottleneck(p, sentence, sizeof sentence);
    fprintf(text, "\n%s: %s\n", p->kernel, sentence);
    int shown = 0;
    for (lab_metric stall; shown < STALLS_SHOWN && (stall = next_stall(p, named)) < LAB_METRICS;
         shown++) {
        fprintf(text, "%s%s %.2f",
                shown ? ", " : "  warps wait for: ", lab_metric_rows[stall].label,
                p->values[stall]);
        named[stall] = true;
    }
    if (shown > 0)
        fputc('\n', text);
}

void cli_put_profile(FILE *text, const lab_profile *profile) {
    lab_table_column columns[1 + KERNELS_SHOWN] = {{"metric", LAB_TABLE_LEFT}};
    size_t shown = 0;
    for (; shown < KERNELS_SHOWN && lab_profile_kernel(profile, shown); shown++)
        columns[1 + shown] =
            (lab_table_column){lab_profile_kernel(profile, shown)->kernel, LAB_TABLE_RIGHT};
    lab_table *table = lab_table_create(columns, 1 + shown);
    for (int m = 0; m < LAB_METRIC_STALL_FIRST; m++) {
        lab_table_cell(table, "%s", lab_metric_rows[m].label);
        for (size_t i = 0; i < shown; i++) {
            char value[64];
            format_value(value, sizeof value, lab_metric_rows[m].kind,
                         lab_profile_kernel(profile, i)->values[m]);
            lab_table_cell(table, "%s", value);
        }
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
    for (size_t i = 0; lab_profile_kernel(profile, i); i++)
        put_kernel(text, lab_profile_kernel(profile, i));
}

/* The kernel of that name, or else the one at the same index. */
static const lab_profiled *counterpart(const lab_profile *profile, const char *kernel,
                                       size_t place) {
    const lab_profiled *p;
    for (size_t i = 0; (p = lab_profile_kernel(profile, i)); i++)
        if (strcmp(p->kernel, kernel) == 0)
            return p;
    return lab_profile_kernel(profile, place);
}

/* Percentages change by points, everything else by percent. */
static void format_change(char *buf, size_t n, lab_metric_kind kind, double before,
                          double after) {
    if (isnan(before) || isnan(after))
        snprintf(buf, n, "-");
    else if (kind == LAB_KIND_SHARE || kind == LAB_KIND_RATIO)
        snprintf(buf, n, "%+.*f", kind == LAB_KIND_SHARE ? 1 : 2, after - before);
    else if (before > 0.0)
        snprintf(buf, n, "%+.1f %%", 100.0 * (after / before - 1.0));
    else
        snprintf(buf, n, after > 0.0 ? "from none" : "0");
}

static void put_pair(FILE *text, const lab_profiled *before, const lab_profiled *after) {
    const lab_table_column columns[] = {{"metric", LAB_TABLE_LEFT},
                                        {before->kernel, LAB_TABLE_RIGHT},
                                        {after->kernel, LAB_TABLE_RIGHT},
                                        {"change", LAB_TABLE_RIGHT}};
    lab_table *table = lab_table_create(columns, 4);
    for (int m = 0; m < LAB_METRICS; m++) {
        const lab_metric_row *row = &lab_metric_rows[m];
        char was[64], is[64], change[64];
        format_value(was, sizeof was, row->kind, before->values[m]);
        format_value(is, sizeof is, row->kind, after->values[m]);
        format_change(change, sizeof change, row->kind, before->values[m], after->values[m]);
        lab_table_cell(table, "%s%s", m >= LAB_METRIC_STALL_FIRST ? "waits for " : "",
                       row->label);
        lab_table_cell(table, "%s", was);
        lab_table_cell(table, "%s", is);
        lab_table_cell(table, "%s", change);
    }
    lab_table_print(table, text);
    lab_table_destroy(table);
    char sentence[512];
    lab_profile_bottleneck(before, sentence, sizeof sentence);
    fprintf(text, "\nbefore: %s\n", sentence);
    lab_profile_bottleneck(after, sentence, sizeof sentence);
    fprintf(text, "after:  %s\n", sentence);
}

void cli_put_profile_diff(FILE *text, const lab_profile *before, const lab_profile *after) {
    const lab_profiled *b;
    for (size_t i = 0; (b = lab_profile_kernel(before, i)); i++) {
        const lab_profiled *a = counterpart(after, b->kernel, i);
        if (i > 0)
            fputc('\n', text);
        if (a)
            put_pair(text, b, a);
        else
            fprintf(text, "%s: ran only before\n", b->kernel);
    }
}

static const char *unit_of(lab_metric_kind kind) {
    switch (kind) {
    case LAB_KIND_TIME:
        return "ns";
    case LAB_KIND_SHARE:
        return "%";
    case LAB_KIND_BYTES:
        return "byte";
    default:
        return "";
    }
}

void cli_put_profile_csv(FILE *csv, const lab_profile *profile) {
    fputs("launch,kernel,metric,unit,value\n", csv);
    for (size_t i = 0; i < profile->count; i++)
        for (int m = 0; m < LAB_METRICS; m++)
            if (!isnan(profile->list[i].values[m]))
                fprintf(csv, "%d,\"%s\",\"%s\",\"%s\",\"%.10g\"\n", profile->list[i].launch,
                        profile->list[i].kernel, lab_metric_rows[m].name,
                        unit_of(lab_metric_rows[m].kind), profile->list[i].values[m]);
}
