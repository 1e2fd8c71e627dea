/* standing_view.c: timings with their rivals, goals and cliffs, as text and as JSON. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json.h"
#include "lab/base/screen.h"
#include "lab/base/table.h"
#include "lab/report/standing.h"
#include "lab/report/report_view.h"

/* ---------------------------------------------------------------------------- shares */

/* The percentages that a timing reaches of the rates measured in the same run; "" if there are
 * none. */
static void shares_of(const lab_report *r, const lab_report_timing *t, char *buf, size_t n) {
    static const struct {
        const char *field, *name;
        bool bytes;
    } rates[] = {
        {"fma_gflops", "FMA", false}, {"amx_gflops", "AMX", false}, {"l3_gbs", "L3", true}};
    const json_t *document = r->files[t->file].document;
    char threads[16];
    size_t used = 0;
    snprintf(threads, sizeof threads, "%d", t->threads);
    const json_t *peaks = json_object_get(json_object_get(document, "peaks"), threads);
    const double copy = r->files[t->file].copy_bytes;
    *buf = '\0';
    for (size_t i = 0; peaks && i < sizeof rates / sizeof rates[0]; i++) {
        const double rate = json_number_value(json_object_get(peaks, rates[i].field));
        if (!(rate > 0.0) || used >= n)
            continue;
        const int length =
            snprintf(buf + used, n - used, "%s%s %.0f", used ? ", " : "", rates[i].name,
                     100.0 * (rates[i].bytes ? t->bytes : t->flops) / t->ns.median / rate);
        used += length > 0 ? (size_t)length : 0;
    }
    if (!peaks && copy > 0.0)
        snprintf(buf, n, "copy %.1f", 100.0 * t->bytes / (1e-9 * t->ns.median) / copy);
}

/* ----------------------------------------------------------------------------- table */

static void put_ours(lab_table *table, const lab_report *r, const lab_report_timing *t) {
    char label[512], time[32], low[32], high[32], shares[80];
    lab_table_cell(table, "%s", lab_report_whole_label(label, sizeof label, t));
    if (t->samples.count == 0) {
        lab_table_cell(table, "%s", t->kernel);
        lab_table_cell(table, "%s", t->failure);
        lab_table_end_row(table);
        return;
    }
    shares_of(r, t, shares, sizeof shares);
    lab_table_cell(table, "%s", t->kernel);
    lab_table_cell(table, "%s [%s, %s]", lab_report_time(time, sizeof time, t->ns.median, "u"),
                   lab_report_time(low, sizeof low, t->ns.low, "u"),
                   lab_report_time(high, sizeof high, t->ns.high, "u"));
    lab_table_cell(table, "%.*f", t->flops / t->ns.median < 1e4 ? 3 : 1,
                   t->flops / t->ns.median / 1e3);
    lab_table_cell(table, "%s", shares);
}

/* A rival's own line; the first rival is on attest's line. */
static void put_rival(lab_table *table, const lab_report *r, const lab_report_pair *pair) {
    char time[32];
    const lab_report_timing *theirs = &r->timings[pair->theirs];
    lab_table_cell(table, "%s", theirs->subject);
    lab_table_cell(table, "%s", lab_report_time(time, sizeof time, theirs->ns.median, "u"));
    lab_table_cell(table, "%.3f [%.3f, %.3f]", pair->speed, pair->low, pair->high);
    lab_table_cell(table, "%s", lab_verdict_name(pair->verdict.kind));
}

static void put_timing(lab_table *table, const lab_report *r, size_t i) {
    bool first = true;
    put_ours(table, r, &r->timings[i]);
    if (r->timings[i].samples.count == 0)
        return;
    for (size_t k = 0; k < r->pair_count; k++) {
        if (r->pairs[k].ours != i)
            continue;
        for (int blank = 0; !first && blank < 5; blank++)
            lab_table_cell(table, "%s", "");
        put_rival(table, r, &r->pairs[k]);
        first = false;
    }
    if (first)
        lab_table_end_row(table);
}

void lab_standing_table(FILE *out, const lab_report *r) {
    static const lab_table_column columns[] = {
        {"problem", LAB_TABLE_LEFT},        {"kernel", LAB_TABLE_LEFT},
        {"attest [95 %]", LAB_TABLE_RIGHT}, {"TFLOP/s", LAB_TABLE_RIGHT},
        {"% of", LAB_TABLE_LEFT},           {"rival", LAB_TABLE_LEFT},
        {"its time", LAB_TABLE_RIGHT},      {"times its speed [95 %]", LAB_TABLE_RIGHT},
        {"attest is", LAB_TABLE_VERDICT}};
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < r->timing_count; i++)
        if (r->timings[i].ours && !lab_standing_is_old(r, &r->timings[i]))
            put_timing(table, r, i);
    lab_table_print(table, out);
    lab_table_destroy(table);
    for (size_t i = 0; i < r->timing_count; i++) {
        const lab_report_timing *t = &r->timings[i];
        char label[512];
        if (!t->ours && *t->failure && !lab_standing_is_old(r, t))
            fprintf(out, "%s: %s: %s\n", lab_report_whole_label(label, sizeof label, t),
                    t->subject, t->failure);
    }
}

/* --------------------------------------------------------------------------- verdicts */

/* A line that ends in the outcome. */
__attribute__((format(printf, 3, 4))) static void put_outcome(FILE *out, bool holds,
                                                              const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(out, format, list);
    va_end(list);
    lab_put_verdict(out, holds ? "holds" : "MISSED");
    fputc('\n', out);
}

void lab_standing_lines(FILE *out, const lab_standing *j) {
    char label[512];
    lab_report_tally *tallies;
    const size_t count = lab_report_tallies(j->report, &tallies);
    for (size_t i = 0; i < count; i++) {
        const lab_report_tally *t = &tallies[i];
        fprintf(
            out,
            "%s against %s: geometric mean %.3f, worst %.3f, %s; %zu FASTER, %zu SAME, %zu "
            "SLOWER, %zu AMBIGUOUS\n",
            *t->group ? t->group : "all", t->rival, t->mean, t->worst->speed,
            lab_report_whole_label(label, sizeof label, &j->report->timings[t->worst->ours]),
            t->counts[LAB_FASTER], t->counts[LAB_SAME], t->counts[LAB_SLOWER],
            t->counts[LAB_AMBIGUOUS]);
    }
    free(tallies);
    if (count + j->wrong + j->goal_count + j->swept == 0)
        fputs("nothing to judge: no rival was timed; 'attest bench --peer' and 'python -m "
              "attest.bench' time rivals\n",
              out);
    if (j->wrong)
        put_outcome(out, false, "%zu answers of attest were wrong or refused: ", j->wrong);
    for (size_t i = 0; i < j->goal_count; i++) {
        const lab_goal *g = &j->goals[i];
        char aim[32] = "";
        if (g->cells == 0) {
            fprintf(out, "%s: not measured\n", g->text);
            continue;
        }
        if (g->aim > 0.0)
            snprintf(aim, sizeof aim, ", aim %.2f", g->aim);
        put_outcome(out, g->holds, "%s: %.3f (must be at %s %.2f%s)%s%s: ", g->text, g->found,
                    g->at_most ? "most" : "least", g->wanted, aim, *g->at ? ", " : "", g->at);
    }
    if (j->swept)
        put_outcome(out, j->cliff_count == 0,
                    "sweep (%s): %zu of %zu points fall below their neighbours: ", j->mode,
                    j->cliff_count, j->swept);
    for (size_t i = 0; i < j->cliff_count; i++)
        fprintf(out, "    %s: %.0f %% below its neighbour\n",
                lab_report_whole_label(label, sizeof label,
                                       &j->report->timings[j->cliffs[i].timing]),
                100.0 * j->cliffs[i].fall);
}

static json_t *row_object(const lab_report *r, size_t i) {
    const lab_report_timing *t = &r->timings[i];
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:o}", "group", t->group,
                            "problem", t->problem, "variant", t->variant, "subject", t->subject,
                            "rival", t->rival, "mode", t->mode, "timer", t->timer, "threads",
                            t->threads, "flops", lab_json_number(t->flops));
    if (!row)
        return NULL;
    if (t->samples.count == 0) {
        json_object_set_new(row, "failure", json_string(t->failure));
        return row;
    }
    json_object_set_new(row, "kernel", json_string(t->kernel));
    json_object_set_new(row, "median_ns", lab_json_number(t->ns.median));
    json_object_set_new(row, "low_ns", lab_json_number(t->ns.low));
    json_object_set_new(row, "high_ns", lab_json_number(t->ns.high));
    json_object_set_new(row, "gflops", lab_json_number(t->flops / t->ns.median));
    for (size_t k = 0; k < r->pair_count; k++)
        if (r->pairs[k].theirs == i)
            json_object_set_new(
                row, "attest",
                json_pack("{s:o, s:o, s:o, s:s}", "speed", lab_json_number(r->pairs[k].speed),
                          "low", lab_json_number(r->pairs[k].low), "high",
                          lab_json_number(r->pairs[k].high), "verdict",
                          lab_verdict_name(r->pairs[k].verdict.kind)));
    return row;
}

json_t *lab_json_standing(const lab_standing *j) {
    json_t *rows = json_array(), *goals = json_array(), *cliffs = json_array();
    for (size_t i = 0; i < j->report->timing_count; i++)
        if (!lab_standing_is_old(j->report, &j->report->timings[i]))
            json_array_append_new(rows, row_object(j->report, i));
    for (size_t i = 0; i < j->goal_count; i++) {
        const lab_goal *g = &j->goals[i];
        if (g->cells == 0)
            continue;
        json_array_append_new(
            goals, json_pack("{s:s, s:o, s:o, s:b, s:b, s:s}", "goal", g->text, "found",
                             lab_json_number(g->found), "wanted", lab_json_number(g->wanted),
                             "at_most", g->at_most, "holds", g->holds, "at", g->at));
    }
    for (size_t i = 0; i < j->cliff_count; i++) {
        char label[512];
        json_array_append_new(
            cliffs, json_pack("{s:s, s:o}", "problem",
                              lab_report_whole_label(label, sizeof label,
                                                     &j->report->timings[j->cliffs[i].timing]),
                              "fall", lab_json_number(j->cliffs[i].fall)));
    }
    return json_pack("{s:s, s:b, s:I, s:o, s:o, s:I, s:o}", "mode", j->mode, "holds",
                     lab_standing_holds(j), "wrong", (json_int_t)j->wrong, "goals", goals,
                     "cliffs", cliffs, "swept", (json_int_t)j->swept, "rows", rows);
}
