/* report_terminal.c: a report for a terminal, with plots made of characters. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/base/table.h"
#include "lab/report/plot.h"
#include "lab/report/report_view.h"

static const lab_table_column tally_columns[] = {
    {"against", LAB_TABLE_LEFT},  {"problems", LAB_TABLE_LEFT}, {"faster", LAB_TABLE_RIGHT},
    {"slower", LAB_TABLE_RIGHT},  {"same", LAB_TABLE_RIGHT},    {"ambiguous", LAB_TABLE_RIGHT},
    {"medians", LAB_TABLE_RIGHT}, {"mean", LAB_TABLE_RIGHT},    {"worst", LAB_TABLE_RIGHT},
};

static void term_verdicts(FILE *out, const lab_report *r, bool older) {
    lab_report_tally *tallies;
    const size_t count = lab_report_tallies(r, &tallies);
    lab_table *table =
        lab_table_create(tally_columns, sizeof tally_columns / sizeof tally_columns[0]);
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        const lab_report_tally *t = &tallies[i];
        char rival[64], group[64];
        if (t->older != older)
            continue;
        rows++;
        lab_table_cell(table, "%s", lab_plain_text(rival, sizeof rival, t->rival, 24));
        lab_table_cell(table, "%s", lab_plain_text(group, sizeof group, t->group, 16));
        for (int k = 0; k < LAB_VERDICTS; k++)
            lab_table_cell(table, "%zu", t->counts[k]);
        lab_table_cell(table, "%zu", t->unjudged);
        lab_table_cell(table, "%.2f", t->mean);
        lab_table_cell(table, "%.2f", t->worst->speed);
    }
    if (rows > 0 && older)
        fputs("\nolder kernels, which a later file has replaced:\n\n", out);
    if (rows > 0)
        lab_table_print(table, out);
    lab_table_destroy(table);
    free(tallies);
}

/* Rows are labels that the caller frees; every mark has its own, and equal neighbours are
 * merged. */
typedef struct sketch {
    char **rows;
    const lab_report_timing **of; /* the first timing of each row */
    lab_plot_mark *marks;
    lab_plot_key series[LAB_PLOT_SERIES];
    size_t row_count, mark_count, series_count;
} sketch;

static bool sketch_make(sketch *s, size_t most) {
    *s = (sketch){.rows = calloc(most + 1, sizeof *s->rows),
                  .of = calloc(most + 1, sizeof(const void *)),
                  .marks = calloc(most + 1, sizeof *s->marks)};
    return s->rows && s->of && s->marks;
}

static void sketch_free(sketch *s) {
    for (size_t i = 0; i < s->row_count; i++)
        free(s->rows[i]);
    free(s->rows);
    free(s->of);
    free(s->marks);
}

/* A shape that nothing else in the plot has, for series other than rivals. */
enum { NEXT_SLOT = LAB_PLOT_SERIES };

static void sketch_add(sketch *s, const lab_report_timing *t, lab_plot_key key, double value,
                       double low, double high) {
    char label[512];
    size_t row = 0, series = 0;
    while (row < s->row_count && (strcmp(s->of[row]->problem, t->problem) != 0 ||
                                  strcmp(s->of[row]->variant, t->variant) != 0))
        row++;
    if (row == s->row_count &&
        (s->rows[row] = strdup(lab_report_label(label, sizeof label, t))) != NULL)
        s->of[s->row_count++] = t;
    while (series < s->series_count && strcmp(s->series[series].name, key.name) != 0)
        series++;
    if (series == LAB_PLOT_SERIES)
        series--;
    else if (series == s->series_count) {
        if (key.slot == NEXT_SLOT)
            key.slot = series;
        s->series[s->series_count++] = key;
    }
    if (row < s->row_count)
        s->marks[s->mark_count++] = (lab_plot_mark){
            .row = row, .series = series, .value = value, .low = low, .high = high};
}

static void sketch_put(FILE *out, const sketch *s, const char *title, const char *axis,
                       double line, size_t columns, bool color) {
    const lab_plot_intervals plot = {.title = title,
                                     .axis = axis,
                                     .rows = (const char *const *)s->rows,
                                     .row_count = s->row_count,
                                     .series = s->series,
                                     .series_count = s->series_count,
                                     .marks = s->marks,
                                     .mark_count = s->mark_count,
                                     .log = true,
                                     .line = line};
    if (s->mark_count == 0)
        return;
    fputc('\n', out);
    lab_plot_intervals_text(out, &plot, columns, color);
}

static void term_speeds(FILE *out, const lab_report *r, const lab_report_group *group,
                        const lab_report_pair *pairs, size_t count, bool history,
                        size_t columns, bool color) {
    sketch s;
    char title[512];
    if (sketch_make(&s, count))
        for (size_t i = 0; i < count; i++) {
            const lab_report_timing *ours = &r->timings[pairs[i].ours];
            const char *rival = lab_report_name(&r->timings[pairs[i].theirs]);
            const lab_plot_key key = {.name = history ? r->files[ours->file].name : rival,
                                      .slot = history ? NEXT_SLOT : lab_report_slot(r, rival)};
            if (lab_report_in_group(r, ours, group) &&
                (history || lab_report_serves(r, &pairs[i])))
                sketch_add(&s, ours, key, pairs[i].speed, pairs[i].low, pairs[i].high);
        }
    snprintf(title, sizeof title, "%s%s%s%s", group->device, *group->group ? ": " : "",
             group->group, history ? ", over its first run" : "");
    sketch_put(out, &s, title,
               history ? "times the speed of the first run" : "times the rival's speed", 1.0,
               columns, color);
    sketch_free(&s);
}

static void term_times(FILE *out, const lab_report *r, size_t file, size_t columns,
                       bool color) {
    sketch s;
    char title[512];
    if (sketch_make(&s, r->timing_count))
        for (size_t i = 0; i < r->timing_count; i++) {
            const lab_report_timing *t = &r->timings[i];
            const lab_plot_key key = {
                .name = t->ours && *t->kernel ? t->kernel : lab_report_name(t),
                .slot = NEXT_SLOT};
            if (t->file == file && t->samples.count > 0)
                sketch_add(&s, t, key, t->ns.median / 1e3, t->ns.low / 1e3, t->ns.high / 1e3);
        }
    snprintf(title, sizeof title, "%s: %s", r->files[file].device, r->files[file].name);
    sketch_put(out, &s, title, "microseconds per call", 0.0, columns, color);
    sketch_free(&s);
}

/* The time of the kernel without one optimisation, as a multiple of its time with all. */
static void term_ablation(FILE *out, const lab_report_ablation *a, size_t columns, bool color) {
    const lab_report_variant *on = lab_report_all_on(a);
    sketch s;
    char title[512];
    lab_report_timing *rows = calloc(a->variant_count + 1, sizeof *rows);
    if (sketch_make(&s, a->variant_count) && rows)
        for (size_t i = 0; on && i < a->variant_count; i++) {
            const lab_report_variant *v = &a->variants[i];
            rows[i] = (lab_report_timing){.problem = v->name, .variant = ""};
            if (v != on && v->samples.count > 0)
                sketch_add(&s, &rows[i], (lab_plot_key){.name = v->kind, .slot = NEXT_SLOT},
                           v->ns.median / on->ns.median, v->ns.low / on->ns.high,
                           v->ns.high / on->ns.low);
        }
    snprintf(title, sizeof title, "%s at %s", a->kernel, a->problem);
    sketch_put(out, &s, title, "relative to the time with all on", 1.0, columns, color);
    sketch_free(&s);
    free(rows);
}

/* Print words in lines of that many columns; 0: on one line. Lines after the first are
 * indented. */
static void put_words(FILE *out, const char *text, size_t columns) {
    size_t at = 0;
    while (*text) {
        const size_t n = strcspn(text, " "), rest = columns > 2 ? columns - 2 : 1;
        if (at > 0 && columns > 0 && at + 1 + n > columns) {
            fputs("\n  ", out);
            at = 2;
        } else if (at > 0) {
            fputc(' ', out);
            at++;
        }
        const size_t most = columns > 0 && n > rest ? rest : n; /* a word that is too long is
                                                                 * truncated */
        fprintf(out, "%.*s", (int)most, text);
        at += most;
        text += n;
        text += *text == ' ';
    }
    fputc('\n', out);
}

/* Why a problem was not timed, and the number of others with the same reason. */
static void term_failure(FILE *out, const lab_report *report, size_t first, size_t columns) {
    const lab_report_timing *t = &report->timings[first];
    char label[512], plain[512], why[512], more[LAB_REPORT_MORE], line[1200];
    if (!lab_report_failure_stands(report, first, more))
        return;
    snprintf(line, sizeof line, "not timed: %s%s: %s",
             lab_plain_text(plain, sizeof plain, lab_report_label(label, sizeof label, t), 120),
             more, lab_plain_text(why, sizeof why, t->failure, 300));
    put_words(out, line, columns);
}

void lab_report_terminal(FILE *out, const lab_report *report, size_t columns, bool color) {
    size_t counts[LAB_VERDICTS] = {0};
    lab_report_group *groups;
    const size_t count = lab_report_groups(report, &groups);
    const size_t total =
        lab_report_count(report, report->pairs, report->pair_count, false, counts);
    if (report->pair_count + report->median_count > 0) {
        fprintf(out, "%zu faster, %zu slower, %zu same, %zu ambiguous of %zu\n\n",
                counts[LAB_FASTER], counts[LAB_SLOWER], counts[LAB_SAME], counts[LAB_AMBIGUOUS],
                total);
        term_verdicts(out, report, false);
        term_verdicts(out, report, true);
    } else {
        fprintf(out, "no comparison; files: %zu\n", report->file_count);
    }
    for (size_t i = 0; i < count; i++)
        term_speeds(out, report, &groups[i], report->pairs, report->pair_count, false, columns,
                    color);
    for (size_t i = 0; i < count; i++)
        term_speeds(out, report, &groups[i], report->medians, report->median_count, false,
                    columns, color);
    for (size_t i = 0; i < report->file_count; i++)
        if (report->files[i].kind == LAB_REPORT_BENCH)
            term_times(out, report, i, columns, color);
    for (size_t i = 0; i < count; i++)
        term_speeds(out, report, &groups[i], report->history, report->history_count, true,
                    columns, color);
    for (size_t i = 0; i < report->ablation_count; i++)
        term_ablation(out, &report->ablations[i], columns, color);
    lab_report_measurement(out, report, "measurement: ");
    for (size_t i = 0; i < report->timing_count; i++)
        term_failure(out, report, i, columns);
    free(groups);
}
