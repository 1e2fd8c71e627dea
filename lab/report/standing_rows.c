/* standing_rows.c: the goals that are rows of a table. */
#include <math.h>
#include <string.h>

#include "lab/problem/spec.h"
#include "lab/report/goal_rows.h"

static bool among(const char *name, const char *list) {
    const size_t length = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return true;
    return false;
}

/* Whether the line has one of the parts, which have | between them. */
static bool has_one(const char *line, const char *parts) {
    for (const char *at = parts; *at; at += *at == '|') {
        const size_t length = strcspn(at, "|");
        for (const char *place = line; *place; place++)
            if (strncmp(place, at, length) == 0)
                return true;
        at += length;
    }
    return false;
}

/* The comparison with the fastest of the rivals; NULL if none was timed. */
static const lab_report_pair *against(const lab_standing *j, size_t ours, const char *rivals) {
    const lab_report_pair *fastest = NULL;
    for (size_t i = 0; i < j->report->pair_count; i++) {
        const lab_report_pair *pair = &j->report->pairs[i];
        if (pair->ours == ours && among(j->report->timings[pair->theirs].rival, rivals) &&
            (!fastest || pair->speed < fastest->speed))
            fastest = pair;
    }
    return fastest;
}

/* The share of the plain problem's tiles that the mask leaves, as the file records it; 0 if it
 * does not. */
static double visible_tiles(const lab_standing *j, const lab_report_timing *t) {
    size_t i;
    const json_t *result;
    json_array_foreach(json_object_get(j->report->files[t->file].document, "results"), i,
                       result) {
        const json_t *problem = json_object_get(result, "problem");
        const char *line = json_string_value(json_object_get(problem, "spec"));
        if (line && strcmp(line, t->problem) == 0)
            return json_number_value(json_object_get(problem, "visible_tiles"));
    }
    return 0.0;
}

/* The least time in which the bias can be read, in nanoseconds. */
static double bias_ns(const lab_report_timing *t) {
    lab_spec spec;
    lab_message ignored;
    if (!lab_spec_parse(&spec, t->problem, &ignored))
        return 0.0;
    const att_problem *p = &spec.problem;
    const int64_t sizes[4] = {p->batch, p->heads_q, p->seq_q, p->seq_k};
    double bytes = p->bias_dtype == ATT_F32 ? 4.0 : p->bias_dtype == ATT_BOOL8 ? 1.0 : 2.0;
    for (int d = 0; d < 4; d++)
        bytes *= spec.bias_broadcast[d] ? 1.0 : (double)sizes[d];
    return 1e9 * bytes / LAB_GOAL_READ_RATE;
}

/* What a timing of attest counts for; 0 if the files do not say. */
static double value_of(const lab_standing *j, const lab_goal_row *row, size_t i) {
    const lab_report_timing *t = &j->report->timings[i];
    if (row->measure == LAB_GOAL_MICROSECONDS)
        return 1e-3 * t->ns.median;
    if (row->measure == LAB_GOAL_READS)
        return t->bytes > LAB_GOAL_READ_BYTES
                   ? t->bytes / (1e-9 * t->ns.median) / LAB_GOAL_READ_RATE
                   : 0.0;
    const lab_report_pair *pair = against(j, i, row->rivals);
    if (!pair)
        return 0.0;
    if (row->measure == LAB_GOAL_TIME_OF_TILES) {
        const double share = visible_tiles(j, t);
        return share > 0.0 ? 1.0 / pair->speed / share : 0.0;
    }
    const double theirs = j->report->timings[pair->theirs].ns.median;
    if (row->measure == LAB_GOAL_TIME_OF_BYTES && bias_ns(t) > theirs)
        return t->ns.median / bias_ns(t);
    return row->measure == LAB_GOAL_SPEED ? pair->speed : 1.0 / pair->speed;
}

static bool is_about(const lab_standing *j, const lab_goal_row *row,
                     const lab_report_timing *t) {
    const bool cpu = (row->set & LAB_GOALS_OF_CPU) != 0;
    return t->ours && t->samples.count > 0 && among(t->group, row->groups) &&
           (strcmp(t->timer, "cpu") == 0) == cpu &&
           (!*row->with || has_one(t->problem, row->with)) &&
           !has_one(t->problem, row->without) && lab_standing_counts(j, t);
}

/* The goal of a row: what was found, over how many problems, and the worst of them. */
static lab_goal goal_of(const lab_standing *j, const lab_goal_row *row,
                        const lab_report_timing **at) {
    lab_goal goal = lab_goal_row_open(row);
    double log_sum = 0.0, worst = 0.0;
    *at = NULL;
    for (size_t i = 0; i < j->report->timing_count; i++) {
        const lab_report_timing *t = &j->report->timings[i];
        const double value = is_about(j, row, t) ? value_of(j, row, i) : 0.0;
        if (!(value > 0.0))
            continue;
        if (goal.cells == 0 || (goal.at_most ? value > worst : value < worst)) {
            worst = value;
            *at = row->mean ? NULL : t;
        }
        log_sum += log(value);
        goal.cells++;
    }
    goal.found = row->mean && goal.cells ? exp(log_sum / (double)goal.cells) : worst;
    return goal;
}

static bool is_timed(const lab_standing *j, unsigned set) {
    for (size_t r = 0; r < lab_goal_row_count; r++) {
        const lab_report_timing *at;
        if (lab_goal_rows[r].set == set && goal_of(j, &lab_goal_rows[r], &at).cells > 0)
            return true;
    }
    return false;
}

bool lab_standing_rows(lab_standing *j, lab_report *report, unsigned goals, lab_message *why) {
    for (size_t r = 0; r < lab_goal_row_count; r++) {
        const lab_goal_row *row = &lab_goal_rows[r];
        const lab_report_timing *at;
        if (!(goals & row->set) || !is_timed(j, row->set))
            continue;
        const lab_goal goal = goal_of(j, row, &at);
        if (!lab_standing_add(j, report, goal, at, why))
            return false;
    }
    return true;
}
