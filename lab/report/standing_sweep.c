/* standing_sweep.c: points in a sweep over lengths and heads that are slower than their
 * neighbours. */
#include <stdlib.h>
#include <string.h>

#include "lab/measure/curve.h"
#include "lab/problem/spec.h"
#include "lab/report/standing.h"

/* A point with its speed. */
typedef struct point {
    size_t timing;
    att_problem problem;
    double speed;
} point;

typedef enum direction { ALONG_LENGTHS, ALONG_HEADS } direction;

static int64_t size_of(const att_problem *p, direction along) {
    return along == ALONG_LENGTHS ? p->seq_q : p->batch * p->heads_q;
}

/* Whether two points are on one line: equal in everything but the size along it. */
static bool on_line(const att_problem *a, const att_problem *b, direction along) {
    const direction other = along == ALONG_LENGTHS ? ALONG_HEADS : ALONG_LENGTHS;
    return a->dtype == b->dtype && a->d_qk == b->d_qk && a->d_v == b->d_v &&
           a->causal == b->causal && size_of(a, other) == size_of(b, other);
}

/* How far a point lies below its neighbours on a line. */
static double fall_of(const point *points, size_t count, const point *here, direction along) {
    const point *before = NULL, *after = NULL;
    const int64_t own = size_of(&here->problem, along);
    for (size_t i = 0; i < count; i++) {
        const point *p = &points[i];
        const int64_t size = size_of(&p->problem, along);
        if (!on_line(&here->problem, &p->problem, along))
            continue;
        if (size < own && (!before || size > size_of(&before->problem, along)))
            before = p;
        if (size > own && (!after || size < size_of(&after->problem, along)))
            after = p;
    }
    return lab_fall(before ? before->speed : 0.0, here->speed, after ? after->speed : 0.0);
}

static int worst_first(const void *left, const void *right) {
    const lab_cliff *a = left, *b = right;
    return a->fall < b->fall ? 1 : a->fall > b->fall ? -1 : 0;
}

static size_t collect(const lab_standing *j, point *points) {
    size_t count = 0;
    for (size_t i = 0; i < j->report->timing_count; i++) {
        const lab_report_timing *t = &j->report->timings[i];
        lab_spec spec;
        lab_message ignored;
        if (!t->ours || t->samples.count == 0 || !lab_standing_counts(j, t) ||
            strcmp(t->group, "sweep") != 0 || !lab_spec_parse(&spec, t->problem, &ignored))
            continue;
        points[count++] =
            (point){.timing = i, .problem = spec.problem, .speed = t->flops / t->ns.median};
    }
    return count;
}

bool lab_standing_sweep(lab_standing *j, lab_message *why) {
    const size_t room = j->report->timing_count ? j->report->timing_count : 1;
    point *points = calloc(room, sizeof *points);
    j->cliffs = calloc(room, sizeof *j->cliffs);
    if (!points || !j->cliffs) {
        free(points);
        return lab_fail(why, "no memory for the report");
    }
    j->swept = collect(j, points);
    for (size_t i = 0; i < j->swept; i++) {
        const double lengths = fall_of(points, j->swept, &points[i], ALONG_LENGTHS),
                     heads = fall_of(points, j->swept, &points[i], ALONG_HEADS);
        const double fall = lengths > heads ? lengths : heads;
        if (fall > 0.0)
            j->cliffs[j->cliff_count++] = (lab_cliff){.timing = points[i].timing, .fall = fall};
    }
    qsort(j->cliffs, j->cliff_count, sizeof *j->cliffs, worst_first);
    free(points);
    return true;
}
