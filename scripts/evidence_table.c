/* evidence_table.c: the tables of README and docs, from the files under evidence/.
 *
 *     evidence_table FILE summary           geometric mean and worst cell of every group, for
 *                                           each rival
 *     evidence_table FILE forward|seed|...  one group: one row per problem
 *     evidence_table FILE best              every group against the fastest rival of each cell
 *     evidence_table FILE goals DEVICE      what this project set out to reach against flash,
 *                                           and what was measured
 *     evidence_table FILE model DEVICE      the prediction of `attest plan` for a device file,
 *                                           over the measurement
 *     evidence_table goals SET FILE...      a set of goals of `attest judge` (cpu, hopper ...),
 *                                           including missed ones; without files, the goals
 *                                           that are still to be measured
 *     evidence_table training FILE          the goals of training steps
 *
 * FILE is from `python -m attest.bench` on a GPU (attest-bench-2), from the script that
 * preceded it (attest-gpu-vs-torch-1), or has medians that other programs measured
 * (attest-rival-medians-1). Of the first, interleaved replays are shown;
 * `forward:sustained`, `summary:burst` ... shows those of another pace. Speeds are ratios of the
 * medians that the tables print; `attest judge` and reports print medians of the ratios of each
 * round, which can differ. Prints Markdown. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_load.h"
#include "lab/measure/results.h"
#include "lab/plan/plan_result.h"
#include "lab/report/goal_rows.h"
#include "lab/report/standing.h"
#include "lab/report/training_steps.h"

enum { GROUPS_MAX = 16, RIVALS_MAX = 8 };

static const char *path;

static void fail(const char *what) {
    fprintf(stderr, "evidence_table: %s: %s\n", path, what);
    exit(1);
}

static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value))
        fail(name);
    return json_number_value(value);
}

static const char *text(const json_t *object, const char *name) {
    const char *value = json_string_value(json_object_get(object, name));
    if (!value)
        fail(name);
    return value;
}

/* The row of a result, created if there is none yet. */
static json_t *row_of(json_t *rows, const char *group, const char *problem) {
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        if (strcmp(text(row, "group"), group) == 0 &&
            strcmp(text(row, "problem"), problem) == 0)
            return row;
    }
    row = json_pack("{s:s, s:s, s:{}}", "group", group, "problem", problem, "rivals");
    if (!row || json_array_append_new(rows, row) != 0)
        fail("no memory");
    return row;
}

static void set_time(json_t *row, const char *rival, double microseconds) {
    json_t *us = json_real(microseconds);
    if (strcmp(rival, "attest") == 0)
        json_object_set_new(row, "attest_us", us);
    else
        json_object_set_new(json_object_get(row, "rivals"), rival, us);
}

/* The results of one pace as rows of problems, each with all times, like the older files. */
static json_t *rows_of_results(json_t *document, const char *mode) {
    json_t *rows = json_array();
    lab_results results;
    lab_message why;
    if (!lab_results_of(&results, document, path, &why))
        fail(why.text);
    for (size_t i = 0; i < results.count; i++) {
        const lab_result *r = &results.results[i];
        if (!r->timed || strcmp(r->mode, mode) != 0 || strcmp(r->timer, "wall") == 0)
            continue;
        const char *rival = text(r->object, "rival");
        json_t *row = row_of(rows, text(r->object, "group"), r->problem);
        set_time(row, rival, 1e-3 * r->median_ns);
        if (strcmp(rival, "attest") == 0)
            json_object_set(row, "launch", json_object_get(r->object, "launch"));
    }
    lab_results_free(&results);
    for (size_t r = json_array_size(rows); r-- > 0;) /* drop problems that attest did not
                                                      * compute */
        if (!json_object_get(json_array_get(rows, r), "attest_us"))
            json_array_remove(rows, r);
    return rows;
}

/* "b2h32hkv8s8192d128,bf16,causal" of a cell's sizes. */
static void print_problem(const json_t *cell, char *line, size_t n) {
    char sizes[200];
    lab_spec spec;
    lab_message why;
    const bool half = strcmp(text(cell, "dtype"), "bfloat16") != 0;
    if (half && strcmp(text(cell, "dtype"), "float16") != 0)
        fail("dtype");
    snprintf(sizes, sizeof sizes, "b%.0fh%.0fhkv%.0fs%.0fsk%.0fd%.0fdv%.0f,%s%s",
             number(cell, "batch"), number(cell, "heads_q"), number(cell, "heads_kv"),
             number(cell, "seq_q"), number(cell, "seq_k"), number(cell, "d_qk"),
             number(cell, "d_v"), half ? "fp16" : "bf16",
             number(cell, "causal") != 0.0 ? ",causal" : "");
    if (!lab_spec_parse(&spec, sizes, &why))
        fail(why.text);
    lab_spec_print(&spec, line, n);
}

static json_t *rows_of_cells(const json_t *cells) {
    json_t *rows = json_array();
    size_t i;
    const json_t *cell;
    json_array_foreach(cells, i, cell) {
        char line[LAB_SPEC_MAX];
        const char *rival;
        json_t *us;
        print_problem(cell, line, sizeof line);
        json_t *row = row_of(rows, text(cell, "group"), line);
        json_object_foreach(json_object_get(cell, "us"), rival, us) {
            set_time(row, rival, json_number_value(us));
        }
    }
    return rows;
}

/* The rows of a document, newly allocated. `pace`: which replays; NULL: the interleaved
 * ones. */
static json_t *read_rows(json_t *document, const char *pace) {
    if (strcmp(text(document, "schema"), "attest-bench-2") == 0)
        return rows_of_results(document, pace ? pace : "warm");
    if (strcmp(text(document, "schema"), "attest-rival-medians-1") == 0)
        return rows_of_cells(json_object_get(document, "cells"));
    if (strcmp(text(document, "schema"), "attest-gpu-vs-torch-1") != 0)
        fail("schema");
    return json_incref(json_object_get(document, "rows"));
}

/* Microseconds of a rival; 0 if it does not support the problem. */
static double rival_us(const json_t *row, const char *rival) {
    return json_number_value(json_object_get(json_object_get(row, "rivals"), rival));
}

/* Names in the order of first occurrence. */
typedef struct names {
    const char *list[GROUPS_MAX];
    size_t count;
} names;

static void add_name(names *n, const char *name) {
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->list[i], name) == 0)
            return;
    if (n->count == GROUPS_MAX)
        fail("too many groups or rivals");
    n->list[n->count++] = name;
}

static void collect(const json_t *rows, const char *group, names *groups, names *rivals) {
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        const char *key;
        json_t *ignored;
        add_name(groups, text(row, "group"));
        if (group && strcmp(text(row, "group"), group) != 0)
            continue;
        json_object_foreach(json_object_get(row, "rivals"), key, ignored) add_name(rivals, key);
    }
}

/* Speed as a multiple of a rival's: geometric mean, worst cell and its label. */
typedef struct ratios {
    double log_sum, worst;
    size_t count, won;
    const char *at;
} ratios;

static ratios compare(const json_t *rows, const char *group, const char *rival) {
    ratios r = {.worst = INFINITY};
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        const double theirs = rival_us(row, rival);
        if (strcmp(text(row, "group"), group) != 0 || theirs <= 0.0)
            continue;
        const double ratio = theirs / number(row, "attest_us");
        r.log_sum += log(ratio);
        r.count++;
        r.won += ratio >= 1.0;
        if (ratio < r.worst) {
            r.worst = ratio;
            r.at = text(row, "problem");
        }
    }
    return r;
}

static void put_summary(const json_t *rows) {
    names groups = {.count = 0}, rivals = {.count = 0};
    collect(rows, NULL, &groups, &rivals);
    puts(
        "| group | rival | cells | won | times the rival's speed, by medians: geometric mean | "
        "worst cell |");
    puts("|---|---|---|---|---|---|");
    for (size_t g = 0; g < groups.count; g++)
        for (size_t r = 0; r < rivals.count; r++) {
            const ratios c = compare(rows, groups.list[g], rivals.list[r]);
            if (c.count > 0)
                printf("| %s | %s | %zu | %zu | %.2f | %.2f, `%s` |\n", groups.list[g],
                       rivals.list[r], c.count, c.won, exp(c.log_sum / (double)c.count),
                       c.worst, c.at);
        }
}

/* The fastest rival of a row: its time, and its name. */
static double best_us(const json_t *row, const char **name) {
    double best = 0.0;
    const char *rival;
    json_t *us;
    json_object_foreach(json_object_get(row, "rivals"), rival, us) {
        const double own = json_number_value(us);
        if (own > 0.0 && (best == 0.0 || own < best)) {
            best = own;
            *name = rival;
        }
    }
    return best;
}

static void put_best(const json_t *rows) {
    names groups = {.count = 0}, rivals = {.count = 0};
    collect(rows, NULL, &groups, &rivals);
    puts("| group | cells | won | times the best rival's speed, by medians: geometric mean | "
         "worst cell, its best rival |");
    puts("|---|---|---|---|---|");
    for (size_t g = 0; g < groups.count; g++) {
        ratios r = {.worst = INFINITY};
        const char *who = "", *name = "";
        size_t i;
        const json_t *row;
        json_array_foreach(rows, i, row) {
            const double theirs = best_us(row, &name);
            if (strcmp(text(row, "group"), groups.list[g]) != 0 || theirs <= 0.0)
                continue;
            const double ratio = theirs / number(row, "attest_us");
            r.log_sum += log(ratio);
            r.count++;
            r.won += ratio >= 1.0;
            if (ratio < r.worst) {
                r.worst = ratio;
                r.at = text(row, "problem");
                who = name;
            }
        }
        if (r.count > 0)
            printf("| %s | %zu | %zu | %.2f | %.2f, `%s`, %s |\n", groups.list[g], r.count,
                   r.won, exp(r.log_sum / (double)r.count), r.worst, r.at, who);
    }
}

static void put_row(const json_t *row, const names *rivals) {
    const double ours = number(row, "attest_us");
    printf("| `%s` | %.2f |", text(row, "problem"), ours);
    for (size_t r = 0; r < rivals->count; r++) {
        const double theirs = rival_us(row, rivals->list[r]);
        if (theirs > 0.0)
            printf(" %.2f | %s%.2f%s |", theirs, theirs < ours ? "**" : "", theirs / ours,
                   theirs < ours ? "**" : "");
        else
            printf(" – | – |");
    }
    putchar('\n');
}

static void put_group(const json_t *rows, const char *group) {
    names groups = {.count = 0}, rivals = {.count = 0};
    collect(rows, group, &groups, &rivals);
    printf("| problem | attest µs |");
    for (size_t r = 0; r < rivals.count; r++)
        printf(" %s µs | times its speed |", rivals.list[r]);
    printf("\n|---|---|");
    for (size_t r = 0; r < rivals.count; r++)
        printf("---|---|");
    putchar('\n');
    size_t i, found = 0;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        if (strcmp(text(row, "group"), group) != 0)
            continue;
        put_row(row, &rivals);
        found++;
    }
    if (found == 0)
        fail("has no such group");
}

static void put_goal(const char *goal, double wanted, double found, const char *detail) {
    printf("| %s | %.2f | %.2f%s | %s |\n", goal, wanted, found, detail,
           found >= wanted ? "holds" : "**missed**");
}

/* The smallest fraction of the measured memory rate that decoding reaches on large problems. */
static double least_share(const json_t *rows, double rate) {
    double least = INFINITY;
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) {
        lab_spec spec;
        lab_message why;
        if (strcmp(text(row, "group"), "decode") != 0)
            continue;
        if (!lab_spec_parse(&spec, text(row, "problem"), &why))
            fail(why.text);
        if (spec.problem.batch >= 8 && spec.problem.seq_k >= 8192)
            least =
                fmin(least, lab_spec_bytes(&spec) / (1e-6 * number(row, "attest_us")) / rate);
    }
    return least;
}

static void put_goals(const json_t *rows, const lab_device *device) {
    const ratios forward = compare(rows, "forward", "flash"),
                 seed = compare(rows, "seed", "flash"),
                 decode = compare(rows, "decode", "flash");
    const ratios *worst = forward.worst < seed.worst ? &forward : &seed;
    char detail[200];
    puts("| goal | wanted | found | |\n|---|---|---|---|");
    snprintf(detail, sizeof detail, ", `%s`", worst->at);
    put_goal("times flash, every cell of forward and seed", 1.0, worst->worst, detail);
    put_goal("times flash, geometric mean of forward and seed", 1.15,
             exp((forward.log_sum + seed.log_sum) / (double)(forward.count + seed.count)), "");
    put_goal("times flash, geometric mean of decode", 1.5,
             exp(decode.log_sum / (double)decode.count), "");
    snprintf(detail, sizeof detail, " of %.2f TB/s",
             device->rates[LAB_RATE_MEMORY_SEEN].value / 1e12);
    put_goal("share of the measured read rate, decode from B = 8 and 8192 keys on", 0.85,
             least_share(rows, device->rates[LAB_RATE_MEMORY_SEEN].value), detail);
}

/* Predicted over measured time, one row per group, for the kernels that were measured. Only
 * those whose time the planner can predict count. */
static void put_model(const json_t *rows, const lab_device *device) {
    lab_message why;
    names groups = {.count = 0}, rivals = {.count = 0};
    collect(rows, NULL, &groups, &rivals);
    puts("| group | problems | predicted over measured, geometric mean | least | most |");
    puts("|---|---|---|---|---|");
    for (size_t g = 0; g < groups.count; g++) {
        double log_sum = 0.0, least = INFINITY, most = 0.0;
        size_t i, count = 0;
        const json_t *row;
        json_array_foreach(rows, i, row) {
            lab_spec spec;
            lab_plan_result plan;
            if (strcmp(text(row, "group"), groups.list[g]) != 0)
                continue;
            const json_t *launch = json_object_get(row, "launch");
            const char *kernel = launch ? text(launch, "kernel") : NULL;
            if (!lab_spec_parse(&spec, text(row, "problem"), &why) ||
                !lab_plan_make(&plan, &spec, device, kernel, &why))
                fail(why.text);
            if (plan.chosen && plan.chosen->model != LAB_TIME_NONE) {
                const double ratio = 1e6 * plan.chosen->seconds / number(row, "attest_us");
                log_sum += log(ratio);
                least = fmin(least, ratio);
                most = fmax(most, ratio);
                count++;
            }
            lab_plan_free(&plan);
        }
        if (count > 0)
            printf("| %s | %zu | %.2f | %.2f | %.2f |\n", groups.list[g], count,
                   exp(log_sum / (double)count), least, most);
    }
}

/* One row of a table of goals. */
static void put_goal_row(const lab_goal *g) {
    const int digits = !g->holds && fabs(g->found - g->wanted) < 0.005 ? 3 : 2, /* 1.299 is not
                                                                                 * 1.30 */
        limit_digits = g->wanted < 10.0 ? 2 : 0;
    printf("| %s | at %s %.*f", g->text, g->at_most ? "most" : "least", limit_digits,
           g->wanted);
    if (g->aim > 0.0)
        printf(" (aim %.2f)", g->aim);
    if (g->cells == 0) {
        puts(" | | not measured |");
        return;
    }
    printf(" | %.*f", digits, g->found);
    if (*g->at)
        printf(", `%s`", g->at);
    printf(" | %s |\n", g->holds ? "holds" : "**missed**");
}

static const char goal_heading[] = "| goal | wanted | found | |\n|---|---|---|---|";

/* The goals of a set that no file is about yet. */
static void put_open_goals(const char *set) {
    lab_message why;
    unsigned goals;
    size_t shown = 0;
    path = set;
    if (!lab_goals_parse(&goals, set, &why))
        fail(why.text);
    puts(goal_heading);
    for (size_t i = 0; i < lab_goal_row_count; i++) {
        const lab_goal open = lab_goal_row_open(&lab_goal_rows[i]);
        if (!(goals & lab_goal_rows[i].set))
            continue;
        put_goal_row(&open);
        shown++;
    }
    if (shown == 0)
        fail("has no goals in the table");
}

/* The goals of training steps, each with the model or call that is nearest to missing it. */
static void put_training_goals(const char *file) {
    json_t *list;
    lab_message why;
    bool holds;
    FILE *nowhere = fopen("/dev/null", "w");
    path = file;
    json_t *document = lab_json_load(file, &why);
    if (!document || !nowhere)
        fail(document ? "/dev/null cannot be opened" : why.text);
    if (!lab_training_steps_schema(text(document, "schema")))
        fail("has no training steps");
    if (!lab_training_steps_judge(nowhere, document, file, &list, &holds, &why))
        fail(why.text);
    fclose(nowhere);
    puts(goal_heading);
    while (json_array_size(list) > 0) {
        const json_t *first = json_array_get(list, 0);
        lab_goal worst = {.text = text(first, "goal"), .wanted = number(first, "wanted")};
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *each = json_array_get(list, i);
            if (strcmp(text(each, "goal"), worst.text) != 0 ||
                (worst.cells > 0 && number(each, "found") <= worst.found))
                continue;
            worst.cells = 1;
            worst.found = number(each, "found");
            worst.at = text(each, "at");
        }
        worst.at_most = true;
        worst.holds = worst.found <= worst.wanted;
        put_goal_row(&worst);
        for (size_t i = json_array_size(list); i-- > 1;)
            if (strcmp(text(json_array_get(list, i), "goal"), worst.text) == 0)
                json_array_remove(list, i);
        json_array_remove(list, 0);
    }
    json_decref(list);
    json_decref(document);
}

/* The goals of `attest judge` for the files. */
static void put_lab_goals(const char *set, const char *const *paths, size_t count) {
    lab_report report;
    lab_standing standing;
    lab_message why;
    unsigned goals;
    path = paths[0];
    if (!lab_goals_parse(&goals, set, &why) || !lab_report_make(&report, paths, count, &why) ||
        !lab_standing_of(&standing, &report, goals, &why))
        fail(why.text);
    puts(goal_heading);
    for (size_t i = 0; i < standing.goal_count; i++)
        put_goal_row(&standing.goals[i]);
    if (standing.goal_count == 0)
        fail("has nothing that these goals are of");
    lab_standing_free(&standing);
    lab_report_free(&report);
}

int main(int argc, char **argv) {
    if (argc > 3 && strcmp(argv[1], "goals") == 0) {
        put_lab_goals(argv[2], (const char *const *)&argv[3], (size_t)(argc - 3));
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "goals") == 0) {
        put_open_goals(argv[2]);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "training") == 0) {
        put_training_goals(argv[2]);
        return 0;
    }
    char *pace = argc > 2 ? strchr(argv[2], ':') : NULL; /* the pace follows the colon */
    if (pace)
        *pace++ = '\0';
    const bool model = argc == 4 && strcmp(argv[2], "model") == 0;
    const bool goals = argc == 4 && strcmp(argv[2], "goals") == 0;
    if (argc != 3 && !model && !goals) {
        fputs("usage: evidence_table FILE summary | best | GROUP | goals DEVICE | model DEVICE "
              "(each with :PACE); or goals SET FILE...; or training FILE\n",
              stderr);
        return 2;
    }
    path = argv[1];
    lab_message why;
    json_t *document = lab_json_load(path, &why);
    if (!document)
        fail(why.text);
    json_t *rows = read_rows(document, pace);
    if (!json_is_array(rows) || json_array_size(rows) == 0)
        fail("rows");
    lab_device device;
    if (argc == 4 && !lab_device_read(&device, argv[3], &why))
        fail(why.text);
    if (model)
        put_model(rows, &device);
    else if (goals)
        put_goals(rows, &device);
    else if (strcmp(argv[2], "summary") == 0)
        put_summary(rows);
    else if (strcmp(argv[2], "best") == 0)
        put_best(rows);
    else
        put_group(rows, argv[2]);
    json_decref(rows);
    json_decref(document);
    return 0;
}
