/* verdict_report.c: prints comparisons. */
#include "cli/verdict_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lab/base/table.h"

static const lab_table_column columns[] = {
    {"problem", LAB_TABLE_LEFT},     {"kernel", LAB_TABLE_LEFT},
    {"A us", LAB_TABLE_RIGHT},       {"B us", LAB_TABLE_RIGHT},
    {"B against A", LAB_TABLE_LEFT}, {"p differ", LAB_TABLE_RIGHT},
    {"p not same", LAB_TABLE_RIGHT}, {"verdict", LAB_TABLE_VERDICT},
};

void cli_format_effect(const lab_verdict *v, char *buf, size_t n) {
    snprintf(buf, n, "%+.2f %% [%+.2f, %+.2f]", 100.0 * v->effect, 100.0 * v->low,
             100.0 * v->high);
}

static void put_row(lab_table *table, const lab_comparison_row *row) {
    const lab_result *a = row->a, *b = row->b;
    char effect[64];
    lab_table_cell(table, "%s", b->problem);
    if (strcmp(a->kernel, b->kernel) == 0)
        lab_table_cell(table, "%s", b->kernel);
    else
        lab_table_cell(table, "%s -> %s", a->kernel, b->kernel);
    lab_table_cell(table, "%.3f", a->median_ns / 1e3);
    if (row->lost) {
        lab_table_cell(table, "-");
        lab_table_cell(table, "not timed: %s", b->outcome);
        lab_table_cell(table, "%s", "");
        lab_table_cell(table, "%s", "");
        lab_table_cell(table, "LOST");
        return;
    }
    cli_format_effect(&row->verdict, effect, sizeof effect);
    lab_table_cell(table, "%.3f", b->median_ns / 1e3);
    lab_table_cell(table, "%s", effect);
    lab_table_cell(table, "%.4f", row->verdict.p_different);
    lab_table_cell(table, "%.4f", row->verdict.p_not_same);
    lab_table_cell(table, "%s", lab_verdict_name(row->verdict.kind));
}

void cli_put_comparison(FILE *text, const lab_comparison *c) {
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < c->count; i++)
        put_row(table, &c->rows[i]);
    lab_table_print(table, text);
    lab_table_destroy(table);
    fprintf(text, "\n%zu FASTER, %zu SAME, %zu SLOWER, %zu AMBIGUOUS", c->of[LAB_FASTER],
            c->of[LAB_SAME], c->of[LAB_SLOWER], c->of[LAB_AMBIGUOUS]);
    if (c->lost)
        fprintf(text, ", %zu LOST", c->lost);
    fprintf(text, "; minimum effect %.2f %%", 100.0 * c->minimum_effect);
    if (c->count > c->lost)
        fprintf(text, "; B takes %.3f of A's time (geometric mean), at worst %+.2f %%",
                c->ratio, 100.0 * c->worst_effect);
    fputc('\n', text);
    if (c->only_a || c->only_b)
        fprintf(text, "not compared: %zu only in A, %zu only in B\n", c->only_a, c->only_b);
}

void cli_put_comparison_csv(FILE *csv, const lab_comparison *c) {
    fputs("problem,kernel_a,kernel_b,median_a_ns,median_b_ns,effect,low,high,p_different,"
          "p_not_same,verdict\n",
          csv);
    for (size_t i = 0; i < c->count; i++) {
        const lab_comparison_row *row = &c->rows[i];
        const lab_verdict *v = &row->verdict;
        fprintf(csv, "\"%s\",%s,%s,%.1f,", row->b->problem, row->a->kernel, row->b->kernel,
                row->a->median_ns);
        if (row->lost)
            fputs(",,,,,,LOST\n", csv);
        else
            fprintf(csv, "%.1f,%.6f,%.6f,%.6f,%.5f,%.5f,%s\n", row->b->median_ns, v->effect,
                    v->low, v->high, v->p_different, v->p_not_same, lab_verdict_name(v->kind));
    }
}

static bool ends_in_json(const char *name) {
    const size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".json") == 0;
}

/* A file name that does not exist here may be that of a baseline. */
static bool is_baseline_file(const char *name, char path[CLI_PATH_MAX]) {
    const int length = snprintf(path, CLI_PATH_MAX, "baselines/%s", name);
    return !strchr(name, '/') && length < CLI_PATH_MAX && access(name, F_OK) != 0 &&
           access(path, F_OK) == 0;
}

bool cli_baseline_path(const cli_options *o, const char *name, char path[CLI_PATH_MAX]) {
    const bool is_path = strchr(name, '/') || ends_in_json(name);
    const int length = is_path ? snprintf(path, CLI_PATH_MAX, "%s", name)
                               : snprintf(path, CLI_PATH_MAX, "baselines/%s.json", name);
    return (length >= 0 && length < CLI_PATH_MAX) || cli_complain(o, "a name is too long");
}

cli_exit cli_read_results(lab_results *out, const cli_options *o, const char *name) {
    char path[CLI_PATH_MAX];
    lab_message why;
    *out = (lab_results){.document = NULL};
    if (!is_baseline_file(name, path) && !cli_baseline_path(o, name, path))
        return CLI_USAGE;
    if (!lab_results_read(out, path, &why)) {
        cli_complain(o, "%s", why.text);
        return CLI_USAGE;
    }
    return CLI_HOLDS;
}
