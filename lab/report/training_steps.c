/* training_steps.c: tables and goals of training steps. */
#include "lab/report/training_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json.h"
#include "lab/base/json_node.h"
#include "lab/base/table.h"
#include "lab/report/python_goals.h"

static const double eager_most = 0.6; /* most time of forward and backward of a call, as a
                                       * fraction of PyTorch's */

bool lab_training_steps_schema(const char *schema) {
    return strcmp(schema, "attest-python-training-1") == 0;
}

/* Summaries of the samples of both attentions: [0] PyTorch's, [1] attest's. */
static bool summaries_of(lab_summary out[2], const lab_node *row, lab_message *why) {
    static const char *const names[2] = {"sdpa", "attest"};
    const lab_node seconds = lab_node_member(row, "seconds");
    if (!lab_node_is_object(&seconds, why))
        return false;
    for (int i = 0; i < 2; i++)
        if (!lab_python_summary(&out[i], &seconds, names[i], why))
            return false;
    return true;
}

/* The part of autograd in a call, if the file has it: a cell of the table. */
static bool add_autograd(lab_table *table, const lab_node *row, lab_message *why) {
    const lab_node seconds = lab_node_member(row, "seconds");
    lab_summary of;
    if (!json_object_get(seconds.value, "autograd")) {
        lab_table_cell(table, "-");
        return true;
    }
    if (!lab_python_summary(&of, &seconds, "autograd", why))
        return false;
    lab_table_cell(table, "%.2f", of.median * 1e6);
    return true;
}

/* The largest difference between two losses of a step, relative to the larger of 1 and
 * PyTorch's. */
static bool losses_apart(double *out, const lab_node *row, lab_message *why) {
    const lab_node losses = lab_node_member(row, "losses");
    double *theirs = NULL, *ours = NULL;
    size_t count, own;
    bool ok = lab_node_is_object(&losses, why) &&
              lab_node_times(&losses, "sdpa", &theirs, &count, why) &&
              lab_node_times(&losses, "attest", &ours, &own, why) &&
              (count == own || lab_fail(why, "losses: the numbers of losses differ"));
    *out = 0.0;
    for (size_t i = 0; ok && i < count; i++)
        *out = fmax(*out, fabs(ours[i] - theirs[i]) / fmax(theirs[i], 1.0));
    free(theirs);
    free(ours);
    return ok;
}

static bool judge_model(lab_python_judge *j, lab_table *table, const lab_node *row) {
    const char *model = "", *problem = "", *dtype = "";
    double tokens, bar, apart, served, passed_on;
    lab_summary of[2];
    if (!lab_node_is_object(row, j->why) || !lab_node_text(row, "model", &model, j->why) ||
        !lab_node_text(row, "problem", &problem, j->why) ||
        !lab_node_text(row, "dtype", &dtype, j->why) ||
        !lab_node_number(row, "tokens", &tokens, j->why) ||
        !lab_node_number(row, "bar", &bar, j->why) ||
        !lab_node_number(row, "served", &served, j->why) ||
        !lab_node_number(row, "passed_on", &passed_on, j->why) ||
        !losses_apart(&apart, row, j->why) || !summaries_of(of, row, j->why))
        return false;
    const bool same = lab_python_at_most(j, "difference of the losses", apart, bar, model);
    const bool all =
        lab_python_at_most(j, "calls passed on to PyTorch", passed_on, 0.0, model) &&
        lab_python_at_most(j, "models without a call served", served > 0 ? 0 : 1, 0, model);
    lab_table_cell(table, "%s", model);
    lab_table_cell(table, "%s", problem);
    lab_table_cell(table, "%s", dtype);
    for (int i = 0; i < 2; i++) {
        lab_table_cell(table, "%.5g", tokens / of[i].median);
        lab_table_cell(table, "%.5g to %.5g", tokens / of[i].high, tokens / of[i].low);
    }
    lab_table_cell(table, "%.3f", of[0].median / of[1].median);
    lab_table_cell(table, "%.1e", apart);
    lab_table_cell(table, "%.0f", passed_on);
    lab_table_cell(table, "%s", lab_python_word(same && all));
    return true;
}

static bool judge_models(lab_python_judge *j, const lab_node *rows) {
    static const lab_table_column columns[] = {{"model", LAB_TABLE_LEFT},
                                               {"step", LAB_TABLE_LEFT},
                                               {"dtype", LAB_TABLE_LEFT},
                                               {"sdpa tokens/s", LAB_TABLE_RIGHT},
                                               {"", LAB_TABLE_LEFT},
                                               {"attest tokens/s", LAB_TABLE_RIGHT},
                                               {"", LAB_TABLE_LEFT},
                                               {"attest / sdpa", LAB_TABLE_RIGHT},
                                               {"losses apart", LAB_TABLE_RIGHT},
                                               {"passed on", LAB_TABLE_RIGHT},
                                               {"", LAB_TABLE_VERDICT}};
    if (!lab_node_is_array(rows, j->why))
        return false;
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(rows->value); i++) {
        const lab_node row = lab_node_element(rows, i);
        ok = judge_model(j, table, &row);
    }
    lab_table_print(table, j->text);
    lab_table_destroy(table);
    return ok;
}

/* Forward and backward of attention alone; `gpu`: with a goal. */
static bool judge_calls(lab_python_judge *j, const lab_node *rows, bool gpu) {
    static const lab_table_column columns[] = {
        {"forward and backward", LAB_TABLE_LEFT}, {"sdpa us", LAB_TABLE_RIGHT},
        {"attest us", LAB_TABLE_RIGHT},           {"autograd us", LAB_TABLE_RIGHT},
        {"attest / sdpa", LAB_TABLE_RIGHT},       {"", LAB_TABLE_VERDICT}};
    if (!lab_node_is_array(rows, j->why))
        return false;
    lab_table *table = lab_table_create(columns, sizeof columns / sizeof columns[0]);
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(rows->value); i++) {
        const lab_node row = lab_node_element(rows, i);
        const char *problem = "";
        lab_summary of[2];
        ok = lab_node_is_object(&row, j->why) &&
             lab_node_text(&row, "problem", &problem, j->why) && summaries_of(of, &row, j->why);
        if (!ok)
            break;
        const double ratio = of[1].median / of[0].median;
        lab_table_cell(table, "%s", problem);
        lab_table_cell(table, "%.2f", of[0].median * 1e6);
        lab_table_cell(table, "%.2f", of[1].median * 1e6);
        ok = add_autograd(table, &row, j->why);
        if (!ok)
            break;
        lab_table_cell(table, "%.3f", ratio);
        lab_table_cell(table, "%s",
                       !gpu ? ""
                            : lab_python_word(lab_python_at_most(
                                  j, "eager training step of a call over PyTorch's", ratio,
                                  eager_most, problem)));
    }
    lab_table_print(table, j->text);
    lab_table_destroy(table);
    if (gpu)
        fprintf(j->text, "must: at most %.1f of PyTorch's wall time\n", eager_most);
    return ok;
}

bool lab_training_steps_judge(FILE *text, json_t *document, const char *name, json_t **goals,
                              bool *holds, lab_message *why) {
    lab_python_judge j = {.text = text, .why = why, .goals = json_array(), .holds = true};
    const lab_node root = lab_node_root(name, document);
    const lab_node steps = lab_node_member(&root, "steps");
    const lab_node calls = lab_node_member(&root, "calls");
    const lab_node machine = lab_node_member(&root, "machine");
    const char *device = "";
    const bool ok =
        lab_node_is_object(&machine, why) && lab_node_text(&machine, "device", &device, why) &&
        judge_models(&j, &steps) && judge_calls(&j, &calls, strcmp(device, "cuda") == 0) &&
        (json_array_size(j.goals) > 0 || lab_fail(why, "%s: has no steps", name));
    *goals = ok ? j.goals : NULL;
    *holds = j.holds;
    if (!ok)
        json_decref(j.goals);
    return ok;
}
