/* call_costs.c: the goals of a call from Python. */
#include "lab/report/call_costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json.h"
#include "lab/base/json_node.h"
#include "lab/base/screen.h"
#include "lab/base/table.h"
#include "lab/report/python_goals.h"

static const double call_most_us = 3.0, import_most_ms = 50.0, own_most_us = 5.0,
                    eager_most = 0.5;

bool lab_call_costs_schema(const char *schema) {
    return strcmp(schema, "attest-python-calls-1") == 0 ||
           strcmp(schema, "attest-python-calls-2") == 0;
}

/* The smallest sample, or the number that files of -1 have instead. */
static bool least_of(double *out, const lab_node *object, const char *samples,
                     const char *number, lab_message *why) {
    lab_summary summary;
    if (!json_object_get(object->value, samples))
        return lab_node_number(object, number, out, why);
    if (!lab_python_summary(&summary, object, samples, why))
        return false;
    *out = summary.min;
    return true;
}

/* ------------------------------------------------------------------------------ CPU */

static bool judge_cpu(lab_python_judge *j, const lab_node *cpu) {
    static const lab_table_column columns[] = {
        {"framework", LAB_TABLE_LEFT},  {"problem", LAB_TABLE_LEFT},  {"C us", LAB_TABLE_RIGHT},
        {"Python us", LAB_TABLE_RIGHT}, {"more us", LAB_TABLE_RIGHT}, {"", LAB_TABLE_VERDICT}};
    const lab_node rows = lab_node_member(cpu, "rows");
    double import_ms = 0.0;
    if (!least_of(&import_ms, cpu, "import_samples_ms", "import_ms", j->why) ||
        !lab_node_is_array(&rows, j->why))
        return false;
    fprintf(j->text, "import attest: %.1f ms (must be at most %.0f): ", import_ms,
            import_most_ms);
    lab_put_verdict(
        j->text, lab_python_word(lab_python_at_most(j, "milliseconds of an import", import_ms,
                                                    import_most_ms, "")));
    fputc('\n', j->text);
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(rows.value); i++) {
        const lab_node row = lab_node_element(&rows, i);
        const char *framework = "", *problem = "";
        double c = 0.0, python = 0.0;
        ok = lab_node_is_object(&row, j->why) &&
             lab_node_text(&row, "framework", &framework, j->why) &&
             lab_node_text(&row, "problem", &problem, j->why) &&
             least_of(&c, &row, "c_samples_us", "c_us", j->why) &&
             least_of(&python, &row, "python_samples_us", "python_us", j->why);
        if (!ok)
            break;
        lab_table_cell(table, "%s", framework);
        lab_table_cell(table, "%s", problem);
        lab_table_cell(table, "%.2f", c);
        lab_table_cell(table, "%.2f", python);
        lab_table_cell(table, "%.2f", python - c);
        lab_table_cell(
            table, "%s",
            lab_python_word(lab_python_at_most(j, "microseconds more than a call from C",
                                               python - c, call_most_us, problem)));
    }
    lab_table_print(table, j->text);
    lab_table_destroy(table);
    fprintf(j->text, "must: at most %.0f us more than from C\n", call_most_us);
    return ok;
}

/* ------------------------------------------------------------------------------ GPU */

enum { CLOCKS = 4, CALLS = 3 };
static const char *const clocks[CLOCKS] = {"host", "eager", "loop", "alone"};
static const char *const calls[CALLS] = {"attention", "sdpa", "torch"};

static bool judge_gpu_row(lab_python_judge *j, lab_table *table, const lab_node *row) {
    const lab_node samples = lab_node_member(row, "samples_us");
    const char *problem = "";
    lab_summary of[CLOCKS][CALLS], run, empty;
    if (!lab_node_is_object(row, j->why) || !lab_node_text(row, "problem", &problem, j->why))
        return false;
    for (size_t c = 0; c < CLOCKS; c++) {
        const lab_node clock = lab_node_member(&samples, clocks[c]);
        for (size_t k = 0; k < CALLS; k++)
            if (!lab_node_is_object(&clock, j->why) ||
                !lab_python_summary(&of[c][k], &clock, calls[k], j->why))
                return false;
    }
    const lab_node host = lab_node_member(&samples, "host");
    if (!lab_python_summary(&run, &host, "run", j->why) ||
        !lab_python_summary(&empty, &host, "empty", j->why))
        return false;
    const double own = of[0][0].median - run.median - empty.median;
    const double eager = of[1][1].median / of[1][2].median;
    lab_table_cell(table, "%s", problem);
    for (size_t c = 0; c < CLOCKS; c++)
        for (size_t k = 0; k < CALLS; k++)
            lab_table_cell(table, "%.2f", of[c][k].median);
    lab_table_cell(table, "%.2f", run.median);
    lab_table_cell(table, "%.2f", empty.median);
    lab_table_cell(table, "%.2f", own);
    lab_table_cell(table, "%.2f", eager);
    const bool own_holds =
        lab_python_at_most(j, "microseconds of the extension's own", own, own_most_us, problem);
    const bool eager_holds = lab_python_at_most(j, "eager call of the drop-in over PyTorch's",
                                                eager, eager_most, problem);
    lab_table_cell(table, "%s", lab_python_word(own_holds && eager_holds));
    return true;
}

static bool judge_gpu(lab_python_judge *j, const lab_node *gpu) {
    static const lab_table_column columns[] = {{"problem", LAB_TABLE_LEFT},
                                               {"host: attention", LAB_TABLE_RIGHT},
                                               {"drop-in", LAB_TABLE_RIGHT},
                                               {"torch", LAB_TABLE_RIGHT},
                                               {"eager: attention", LAB_TABLE_RIGHT},
                                               {"drop-in", LAB_TABLE_RIGHT},
                                               {"torch", LAB_TABLE_RIGHT},
                                               {"loop: attention", LAB_TABLE_RIGHT},
                                               {"drop-in", LAB_TABLE_RIGHT},
                                               {"torch", LAB_TABLE_RIGHT},
                                               {"alone: attention", LAB_TABLE_RIGHT},
                                               {"drop-in", LAB_TABLE_RIGHT},
                                               {"torch", LAB_TABLE_RIGHT},
                                               {"run", LAB_TABLE_RIGHT},
                                               {"empty", LAB_TABLE_RIGHT},
                                               {"own", LAB_TABLE_RIGHT},
                                               {"eager ratio", LAB_TABLE_RIGHT},
                                               {"", LAB_TABLE_VERDICT}};
    const lab_node rows = lab_node_member(gpu, "rows");
    const char *name = "";
    if (!lab_node_text_maybe(gpu, "gpu", &name, j->why) || !lab_node_is_array(&rows, j->why))
        return false;
    fprintf(j->text, "%s; microseconds of a call, medians\n", name);
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(rows.value); i++) {
        const lab_node row = lab_node_element(&rows, i);
        ok = judge_gpu_row(j, table, &row);
    }
    lab_table_print(table, j->text);
    lab_table_destroy(table);
    fprintf(j->text,
            "must: the extension's own at most %.0f us, eager of the drop-in at most %.1f of "
            "PyTorch's\n",
            own_most_us, eager_most);
    return ok;
}

bool lab_call_costs_judge(FILE *text, json_t *document, const char *name, json_t **goals,
                          bool *holds, lab_message *why) {
    lab_python_judge j = {.text = text, .why = why, .goals = json_array(), .holds = true};
    const lab_node root = lab_node_root(name, document);
    const lab_node cpu = lab_node_member(&root, "cpu"), gpu = lab_node_member(&root, "cuda");
    const bool ok = (!cpu.value || judge_cpu(&j, &cpu)) &&
                    (!gpu.value || judge_gpu(&j, &gpu)) &&
                    (json_array_size(j.goals) > 0 || lab_fail(why, "%s: has no calls", name));
    *goals = ok ? j.goals : NULL;
    *holds = j.holds;
    if (!ok)
        json_decref(j.goals);
    return ok;
}
