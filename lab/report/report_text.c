/* report_text.c: a report as Markdown for a pull request, and for a terminal. */
#include <stdlib.h>
#include <string.h>

#include "lab/base/markup.h"
#include "lab/base/table.h"
#include "lab/report/plot.h"
#include "lab/report/report_view.h"

/* Losses and times that Markdown lists; the page has them all. A comment of a pull request holds 65536 bytes. */
enum { LOSSES_LISTED = 25, TIMES_LISTED = 200, FILES_LISTED = 100 };

static void count_verdicts(const lab_report_pair *pairs, size_t count,
                           size_t counts[LAB_VERDICTS]) {
    for (size_t i = 0; i < count; i++)
        counts[pairs[i].verdict.kind]++;
}

/* ------------------------------------------------------------------------- Markdown */

static void md_cell(FILE *out, const char *text) {
    fputs("| ", out);
    lab_markup_code(out, text);
    fputc(' ', out);
}

static void md_verdicts(FILE *out, const lab_report *r) {
    size_t counts[LAB_VERDICTS] = {0};
    lab_report_tally *tallies;
    const size_t count = lab_report_tallies(r, &tallies);
    count_verdicts(r->pairs, r->pair_count, counts);
    fprintf(out,
            "**%zu faster, %zu slower, %zu same, %zu ambiguous** of %zu comparisons.\n\n"
            "| device | against | problems | faster | slower | same | ambiguous | mean speed | "
            "worst |\n"
            "|---|---|---|---:|---:|---:|---:|---:|---|\n",
            counts[LAB_FASTER], counts[LAB_SLOWER], counts[LAB_SAME], counts[LAB_AMBIGUOUS],
            r->pair_count);
    for (size_t i = 0; i < count; i++) {
        const lab_report_tally *t = &tallies[i];
        char label[512];
        md_cell(out, t->device);
        md_cell(out, t->rival);
        md_cell(out, t->group);
        for (int k = 0; k < LAB_VERDICTS; k++)
            fprintf(out, "| %zu ", t->counts[k]);
        fprintf(out, "| %.2f× | %.2f×, ", t->mean, t->worst->speed);
        lab_markup_code(out,
                        lab_report_label(label, sizeof label, &r->timings[t->worst->ours]));
        fputs(" |\n", out);
    }
    free(tallies);
}

static void md_losses(FILE *out, const lab_report *r) {
    const lab_report_pair **losses;
    const size_t count = lab_report_losses(r, &losses);
    if (count > 0)
        fputs("\n### Losses\n\n| verdict | speed | 95 % interval | problem | rival |\n"
              "|---|---:|---:|---|---|\n",
              out);
    for (size_t i = 0; i < count && i < LOSSES_LISTED; i++) {
        const lab_report_pair *pair = losses[i];
        char label[512];
        fprintf(out, "| %s | %.2f× | %.2f – %.2f ", lab_report_verdict_word(pair->verdict.kind),
                pair->speed, pair->low, pair->high);
        md_cell(out, lab_report_label(label, sizeof label, &r->timings[pair->ours]));
        md_cell(out, r->timings[pair->theirs].subject);
        fputs("|\n", out);
    }
    if (count > LOSSES_LISTED)
        fprintf(out, "\nand %zu more.\n", count - LOSSES_LISTED);
    free(losses);
}

static void md_failures(FILE *out, const lab_report *r) {
    bool any = false;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        char label[512];
        if (!*t->failure)
            continue;
        if (!any)
            fputs("\n### Not timed\n\n| problem | subject | why |\n|---|---|---|\n", out);
        any = true;
        md_cell(out, lab_report_label(label, sizeof label, t));
        md_cell(out, t->subject);
        md_cell(out, t->failure);
        fputs("|\n", out);
    }
}

static void md_times(FILE *out, const lab_report *r) {
    size_t count = 0;
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        char label[512], time[32], low[32], high[32];
        if (r->files[t->file].kind != LAB_REPORT_BENCH || t->samples.count == 0)
            continue;
        if (count++ == 0)
            fputs("\n<details><summary>Times</summary>\n\n| problem | subject | kernel | "
                  "median | 95 % "
                  "interval |\n|---|---|---|---:|---:|\n",
                  out);
        if (count > TIMES_LISTED)
            continue;
        md_cell(out, lab_report_label(label, sizeof label, t));
        md_cell(out, t->subject);
        md_cell(out, t->kernel);
        fprintf(out, "| %s | %s – %s |\n",
                lab_report_time(time, sizeof time, t->ns.median, "µ"),
                lab_report_time(low, sizeof low, t->ns.low, "µ"),
                lab_report_time(high, sizeof high, t->ns.high, "µ"));
    }
    if (count > TIMES_LISTED)
        fprintf(out, "\nand %zu more.\n", count - TIMES_LISTED);
    if (count > 0)
        fputs("\n</details>\n", out);
}

static void md_history(FILE *out, const lab_report *r) {
    size_t counts[LAB_VERDICTS] = {0};
    if (r->history_count == 0)
        return;
    count_verdicts(r->history, r->history_count, counts);
    fprintf(out,
            "\n### History\n\n%zu problems against their first run: %zu faster, %zu slower, "
            "%zu same, "
            "%zu ambiguous.\n",
            r->history_count, counts[LAB_FASTER], counts[LAB_SLOWER], counts[LAB_SAME],
            counts[LAB_AMBIGUOUS]);
    for (size_t i = 0; i < r->history_count; i++) {
        const lab_report_pair *pair = &r->history[i];
        char label[512];
        if (pair->verdict.kind != LAB_SLOWER)
            continue;
        fprintf(out, "- slower, %.2f×: ", pair->speed);
        lab_markup_code(out, lab_report_label(label, sizeof label, &r->timings[pair->ours]));
        fputc('\n', out);
    }
}

static void md_ablations(FILE *out, const lab_report *r) {
    for (size_t i = 0; i < r->ablation_count; i++) {
        const lab_report_ablation *a = &r->ablations[i];
        const lab_report_variant *on = lab_report_all_on(a);
        fputs("\n### Ablation\n\n", out);
        lab_markup_code(out, a->kernel);
        fputs(" at ", out);
        lab_markup_code(out, a->problem);
        fputs(
            "\n\n| variant | kind | answer | time, in times of all on |\n|---|---|---|---:|\n",
            out);
        for (size_t k = 0; k < a->variant_count; k++) {
            const lab_report_variant *v = &a->variants[k];
            md_cell(out, v->name);
            md_cell(out, v->kind);
            md_cell(out, v->outcome);
            if (on && v->samples.count > 0)
                fprintf(out, "| %.2f× |\n", v->ns.median / on->ns.median);
            else
                fputs("| |\n", out);
        }
    }
}

/* One sentence a check of the measurement itself, each begun with `bullet`. */
static void put_measurement(FILE *out, const lab_report *r, const char *bullet) {
    for (size_t i = 0; i < r->check_count; i++) {
        const lab_report_check *c = &r->checks[i];
        if (strcmp(c->kind, "inject") == 0)
            fprintf(out, "%s%.3g %% slower on purpose: found in %.0f of %.0f\n", bullet,
                    100.0 * c->slowdown, c->right, c->verdicts);
        else
            fprintf(out, "%sthe same code twice (A/A): the same in %.0f of %.0f\n", bullet,
                    c->right, c->verdicts);
    }
    if (r->saboteur_count > 0) {
        const lab_report_audit audit = lab_report_audited(r);
        fprintf(out, "%ssaboteurs: %zu of %zu caught\n", bullet, audit.caught, audit.saboteurs);
        fprintf(out, "%shonest subjects: %zu of %zu passed\n", bullet, audit.passed,
                audit.honest);
    }
}

static void md_measurement(FILE *out, const lab_report *r) {
    if (r->check_count + r->saboteur_count == 0)
        return;
    fputs("\n### The measurement itself\n\n", out);
    put_measurement(out, r, "- ");
}

static void md_files(FILE *out, const lab_report *r) {
    fputs("\n<details><summary>Files</summary>\n\n| file | device | attest | SHA-256 "
          "|\n|---|---|---|---|\n",
          out);
    for (size_t i = 0; i < r->file_count && i < FILES_LISTED; i++) {
        md_cell(out, r->files[i].name);
        md_cell(out, r->files[i].device);
        md_cell(out, r->files[i].version);
        md_cell(out, r->files[i].digest);
        fputs("|\n", out);
    }
    if (r->file_count > FILES_LISTED)
        fprintf(out, "\nand %zu more, which the page of HTML lists.\n",
                r->file_count - FILES_LISTED);
    fputs("\n</details>\n", out);
}

void lab_report_markdown(FILE *out, const lab_report *report) {
    fputs("## attest report\n\n", out);
    if (report->pair_count > 0)
        md_verdicts(out, report);
    md_losses(out, report);
    md_failures(out, report);
    md_history(out, report);
    md_ablations(out, report);
    md_measurement(out, report);
    md_times(out, report);
    md_files(out, report);
}

/* ------------------------------------------------------------------------- terminal */

static const lab_table_column tally_columns[] = {
    {"against", LAB_TABLE_LEFT}, {"problems", LAB_TABLE_LEFT}, {"faster", LAB_TABLE_RIGHT},
    {"slower", LAB_TABLE_RIGHT}, {"same", LAB_TABLE_RIGHT},    {"ambiguous", LAB_TABLE_RIGHT},
    {"mean", LAB_TABLE_RIGHT},   {"worst", LAB_TABLE_RIGHT},
};

static void term_verdicts(FILE *out, const lab_report *r) {
    lab_report_tally *tallies;
    const size_t count = lab_report_tallies(r, &tallies);
    lab_table *table =
        lab_table_create(tally_columns, sizeof tally_columns / sizeof tally_columns[0]);
    for (size_t i = 0; i < count; i++) {
        const lab_report_tally *t = &tallies[i];
        char rival[64], group[64];
        lab_table_cell(table, "%s", lab_plain_text(rival, sizeof rival, t->rival, 24));
        lab_table_cell(table, "%s", lab_plain_text(group, sizeof group, t->group, 16));
        for (int k = 0; k < LAB_VERDICTS; k++)
            lab_table_cell(table, "%zu", t->counts[k]);
        lab_table_cell(table, "%.2f", t->mean);
        lab_table_cell(table, "%.2f", t->worst->speed);
    }
    if (count > 0)
        lab_table_print(table, out);
    lab_table_destroy(table);
    free(tallies);
}

/* Rows are labels that the caller frees; every mark has one of its own, and equal neighbours are one. */
typedef struct sketch {
    char **rows;
    lab_plot_mark *marks;
    const char *series[LAB_PLOT_SERIES];
    size_t row_count, mark_count, series_count;
} sketch;

static bool sketch_make(sketch *s, size_t most) {
    *s = (sketch){.rows = calloc(most + 1, sizeof *s->rows),
                  .marks = calloc(most + 1, sizeof *s->marks)};
    return s->rows && s->marks;
}

static void sketch_free(sketch *s) {
    for (size_t i = 0; i < s->row_count; i++)
        free(s->rows[i]);
    free(s->rows);
    free(s->marks);
}

static void sketch_add(sketch *s, const lab_report_timing *t, const char *subject, double value,
                       double low, double high) {
    char label[512];
    size_t row = 0, series = 0;
    lab_report_label(label, sizeof label, t);
    while (row < s->row_count && strcmp(s->rows[row], label) != 0)
        row++;
    if (row == s->row_count && (s->rows[row] = strdup(label)) != NULL)
        s->row_count++;
    while (series < s->series_count && strcmp(s->series[series], subject) != 0)
        series++;
    if (series == LAB_PLOT_SERIES)
        series--;
    else if (series == s->series_count)
        s->series[s->series_count++] = subject;
    if (row < s->row_count)
        s->marks[s->mark_count++] = (lab_plot_mark){
            .row = row, .series = series, .value = value, .low = low, .high = high};
}

static void sketch_put(FILE *out, const sketch *s, const char *title, const char *axis,
                       double line, size_t first_series, size_t columns, bool color) {
    const lab_plot_intervals plot = {.title = title,
                                     .axis = axis,
                                     .rows = (const char *const *)s->rows,
                                     .row_count = s->row_count,
                                     .series = s->series,
                                     .series_count = s->series_count,
                                     .first_series = first_series,
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
            if (lab_report_in_group(r, ours, group))
                sketch_add(
                    &s, ours,
                    history ? r->files[ours->file].name : r->timings[pairs[i].theirs].subject,
                    pairs[i].speed, pairs[i].low, pairs[i].high);
        }
    snprintf(title, sizeof title, "%s%s%s%s", group->device, *group->group ? ": " : "",
             group->group, history ? ", over its first run" : "");
    sketch_put(out, &s, title,
               history ? "times the speed of the first run" : "times the rival's speed", 1.0,
               history ? 0 : 1, columns, color);
    sketch_free(&s);
}

static void term_times(FILE *out, const lab_report *r, size_t file, size_t columns,
                       bool color) {
    sketch s;
    char title[512];
    if (sketch_make(&s, r->timing_count))
        for (size_t i = 0; i < r->timing_count; i++) {
            const lab_report_timing *t = &r->timings[i];
            if (t->file == file && t->samples.count > 0)
                sketch_add(&s, t, t->ours && *t->kernel ? t->kernel : t->subject,
                           t->ns.median / 1e3, t->ns.low / 1e3, t->ns.high / 1e3);
        }
    snprintf(title, sizeof title, "%s: %s", r->files[file].device, r->files[file].name);
    sketch_put(out, &s, title, "microseconds a call", 0.0, 0, columns, color);
    sketch_free(&s);
}

/* What the kernel takes where one optimisation is left out, in times of what it takes with all. */
static void term_ablation(FILE *out, const lab_report_ablation *a, size_t columns, bool color) {
    const lab_report_variant *on = lab_report_all_on(a);
    sketch s;
    char title[512];
    if (sketch_make(&s, a->variant_count))
        for (size_t i = 0; on && i < a->variant_count; i++) {
            const lab_report_variant *v = &a->variants[i];
            const lab_report_timing row = {.problem = v->name, .variant = ""};
            if (v != on && v->samples.count > 0)
                sketch_add(&s, &row, v->kind, v->ns.median / on->ns.median,
                           v->ns.low / on->ns.high, v->ns.high / on->ns.low);
        }
    snprintf(title, sizeof title, "%s at %s", a->kernel, a->problem);
    sketch_put(out, &s, title, "times the time with all on", 1.0, 0, columns, color);
    sketch_free(&s);
}

void lab_report_terminal(FILE *out, const lab_report *report, size_t columns, bool color) {
    size_t counts[LAB_VERDICTS] = {0};
    lab_report_group *groups;
    const size_t count = lab_report_groups(report, &groups);
    count_verdicts(report->pairs, report->pair_count, counts);
    if (report->pair_count > 0) {
        fprintf(out, "%zu faster, %zu slower, %zu same, %zu ambiguous of %zu\n\n",
                counts[LAB_FASTER], counts[LAB_SLOWER], counts[LAB_SAME], counts[LAB_AMBIGUOUS],
                report->pair_count);
        term_verdicts(out, report);
    } else {
        fprintf(out, "no comparison; files: %zu\n", report->file_count);
    }
    for (size_t i = 0; i < count; i++)
        term_speeds(out, report, &groups[i], report->pairs, report->pair_count, false, columns,
                    color);
    for (size_t i = 0; i < report->file_count; i++)
        if (report->files[i].kind == LAB_REPORT_BENCH)
            term_times(out, report, i, columns, color);
    for (size_t i = 0; i < count; i++)
        term_speeds(out, report, &groups[i], report->history, report->history_count, true,
                    columns, color);
    for (size_t i = 0; i < report->ablation_count; i++)
        term_ablation(out, &report->ablations[i], columns, color);
    put_measurement(out, report, "measurement: ");
    for (size_t i = 0; i < report->timing_count; i++) {
        const lab_report_timing *t = &report->timings[i];
        char label[512], plain[512], why[512];
        if (*t->failure)
            fprintf(out, "not timed: %s: %s\n",
                    lab_plain_text(plain, sizeof plain,
                                   lab_report_label(label, sizeof label, t), 120),
                    lab_plain_text(why, sizeof why, t->failure, 300));
    }
    free(groups);
}
