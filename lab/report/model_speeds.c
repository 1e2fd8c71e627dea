/* model_speeds.c: the table of whole models, and the goals. */
#include "lab/report/model_speeds.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_node.h"
#include "lab/base/table.h"
#include "lab/report/python_goals.h"
#include "lab/statistics/verdict.h"

static const char ours[] = "attest";

bool lab_model_speeds_schema(const char *schema) {
    return strcmp(schema, "attest-python-models-1") == 0;
}

/* A model in a cell. */
typedef struct model_cell {
    const char *model, *name, *problem, *dtype, *compared;
    double tokens;
    lab_node seconds, trouble; /* by implementation */
} model_cell;

static bool read_cell(model_cell *cell, const lab_node *row, lab_message *why) {
    cell->seconds = lab_node_member(row, "seconds");
    cell->trouble = lab_node_member(row, "trouble");
    return lab_node_is_object(row, why) && lab_node_text(row, "model", &cell->model, why) &&
           lab_node_text(row, "cell", &cell->name, why) &&
           lab_node_text(row, "problem", &cell->problem, why) &&
           lab_node_text(row, "dtype", &cell->dtype, why) &&
           lab_node_text(row, "compared", &cell->compared, why) &&
           lab_node_time(row, "tokens", &cell->tokens, why) &&
           lab_node_is_object(&cell->seconds, why) && lab_node_is_object(&cell->trouble, why);
}

/* The speed of attest relative to a rival's: samples of the same round are pairs. */
static bool compare(lab_verdict *out, const model_cell *cell, const char *rival,
                    lab_message *why) {
    double *theirs = NULL, *own = NULL;
    uint32_t *rounds = NULL;
    size_t count, own_count;
    bool ok = lab_node_times(&cell->seconds, rival, &theirs, &count, why) &&
              lab_node_times(&cell->seconds, ours, &own, &own_count, why) &&
              (count == own_count ||
               lab_node_fail(&cell->seconds, "the numbers of samples differ", why));
    if (ok) {
        rounds = malloc(count * sizeof *rounds);
        ok = rounds || lab_fail(why, "out of memory");
    }
    for (size_t i = 0; ok && i < count; i++)
        rounds[i] = (uint32_t)i;
    const lab_samples a = {.values = theirs, .count = count, .round = rounds};
    const lab_samples b = {.values = own, .count = count, .round = rounds};
    ok = ok && lab_verdict_of(out, &a, &b, LAB_PAIRED, LAB_MINIMUM_EFFECT, 0, why);
    free(rounds);
    free(own);
    free(theirs);
    return ok;
}

static bool add_speed(lab_table *table, const model_cell *cell, const char *name,
                      lab_message *why) {
    lab_summary of;
    if (!lab_python_summary(&of, &cell->seconds, name, why))
        return false;
    lab_table_cell(table, "%.5g", cell->tokens / of.median);
    lab_table_cell(table, "%.5g to %.5g", cell->tokens / of.high, cell->tokens / of.low);
    return true;
}

static void add_names(lab_table *table, const model_cell *cell, const char *rival) {
    lab_table_cell(table, "%s", cell->model);
    lab_table_cell(table, "%s", cell->name);
    lab_table_cell(table, "%s", cell->problem);
    lab_table_cell(table, "%s", cell->dtype);
    lab_table_cell(table, "%s", cell->compared);
    lab_table_cell(table, "%s", rival);
}

/* An effect is a relative change of time. */
static bool add_rival(lab_table *table, const model_cell *cell, const char *rival,
                      lab_message *why) {
    lab_verdict verdict;
    if (!compare(&verdict, cell, rival, why))
        return false;
    add_names(table, cell, rival);
    if (!add_speed(table, cell, rival, why) || !add_speed(table, cell, ours, why))
        return false;
    lab_table_cell(table, "%.3f", 1.0 / (1.0 + verdict.effect));
    lab_table_cell(table, "%.3f to %.3f", 1.0 / (1.0 + verdict.high),
                   1.0 / (1.0 + verdict.low));
    lab_table_cell(table, "%s", lab_verdict_name(verdict.kind));
    return true;
}

/* Why an implementation was not timed: it refused the model, or its answer was wrong. */
static bool print_troubles(FILE *text, const lab_node *row, lab_message *why) {
    model_cell cell;
    const char *name, *said = "";
    json_t *value;
    if (!read_cell(&cell, row, why))
        return false;
    json_object_foreach(cell.trouble.value, name, value) {
        if (!lab_node_text(&cell.trouble, name, &said, why))
            return false;
        fprintf(text, "%s, %s: %s: %s\n", cell.model, cell.name, name, said);
    }
    return true;
}

/* That attest gave a right answer, and computed all of the attention; the calls of experts are
 * not counted. */
static bool judge_answer(lab_python_judge *j, const model_cell *cell, const lab_node *row,
                         bool timed) {
    double passed_on = 0.0;
    if (!lab_node_number_maybe(row, "passed_on", &passed_on, j->why))
        return false;
    lab_python_at_most(j, "cells without a right answer of attest", timed ? 0 : 1, 0,
                       cell->model);
    lab_python_at_most(j, "calls passed on to PyTorch", passed_on, 0, cell->model);
    return true;
}

static bool judge_cell(lab_python_judge *j, lab_table *table, const lab_node *row) {
    model_cell cell;
    if (!read_cell(&cell, row, j->why))
        return false;
    const bool timed = json_object_get(cell.seconds.value, ours) != NULL;
    if (!judge_answer(j, &cell, row, timed))
        return false;
    const char *name;
    json_t *value;
    json_object_foreach(cell.seconds.value, name, value) {
        if (timed && strcmp(name, ours) != 0 && !add_rival(table, &cell, name, j->why))
            return false;
    }
    return true;
}

static bool judge_cells(lab_python_judge *j, const lab_node *rows) {
    static const lab_table_column columns[] = {{"model", LAB_TABLE_LEFT},
                                               {"cell", LAB_TABLE_LEFT},
                                               {"problem", LAB_TABLE_LEFT},
                                               {"dtype", LAB_TABLE_LEFT},
                                               {"compared", LAB_TABLE_LEFT},
                                               {"rival", LAB_TABLE_LEFT},
                                               {"its tokens/s", LAB_TABLE_RIGHT},
                                               {"", LAB_TABLE_LEFT},
                                               {"attest tokens/s", LAB_TABLE_RIGHT},
                                               {"", LAB_TABLE_LEFT},
                                               {"attest / rival", LAB_TABLE_RIGHT},
                                               {"", LAB_TABLE_LEFT},
                                               {"", LAB_TABLE_VERDICT}};
    if (!lab_node_is_array(rows, j->why))
        return false;
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(rows->value); i++) {
        const lab_node row = lab_node_element(rows, i);
        ok = judge_cell(j, table, &row);
    }
    if (ok)
        lab_table_print(table, j->text);
    lab_table_destroy(table);
    for (size_t i = 0; ok && i < json_array_size(rows->value); i++) {
        const lab_node row = lab_node_element(rows, i);
        ok = print_troubles(j->text, &row, j->why);
    }
    return ok;
}

bool lab_model_speeds_judge(FILE *text, json_t *document, const char *name, json_t **goals,
                            bool *holds, lab_message *why) {
    lab_python_judge j = {.text = text, .why = why, .goals = json_array(), .holds = true};
    const lab_node root = lab_node_root(name, document);
    const lab_node rows = lab_node_member(&root, "rows");
    const bool ok = judge_cells(&j, &rows) &&
                    (json_array_size(j.goals) > 0 || lab_fail(why, "%s: has no rows", name));
    if (ok)
        fprintf(text, "must: a right answer of attest in every cell, no call passed on: %s\n",
                lab_python_word(j.holds));
    *goals = ok ? j.goals : NULL;
    *holds = j.holds;
    if (!ok)
        json_decref(j.goals);
    return ok;
}
