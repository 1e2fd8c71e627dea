/* run_estimate.c: times a smaller problem. */
#include "cli/run_estimate.h"

#include <stdio.h>

#include "lab/base/clock.h"
#include "lab/tensors/buffer.h"
#include "lab/tensors/tensors.h"

/* Operations of the smaller problem: some milliseconds, a tenth of a second in plain C. A
 * problem of less than ten times as many is not worth a forecast. */
static const double small_flops = 2e8;

enum { ROWS_MOST = 512, KEYS_LEAST = 64, HEADS_MOST = 8, TOLD_FROM = 5 };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static bool make_small(lab_spec *small, const att_problem *p) {
    lab_spec_init(small);
    att_problem *s = &small->problem;
    s->dtype = p->dtype;
    s->batch = 1;
    s->heads_q = least(p->heads_q, HEADS_MOST);
    s->d_qk = p->d_qk;
    small->d_v = p->d_v;
    s->seq_q = least(p->seq_q, ROWS_MOST);
    const double a_key = 2.0 * (double)(s->seq_q * s->heads_q * (p->d_qk + p->d_v));
    const int64_t keys = (int64_t)(small_flops / a_key);
    small->seq_k = least(p->seq_k, keys > KEYS_LEAST ? keys : KEYS_LEAST);
    return lab_spec_finish(small, NULL);
}

/* Nanoseconds of the second of two runs; 0 if one fails. */
static double time_small(const att_plan *plan, const lab_tensors *tensors) {
    lab_buffer workspace;
    double ns = 0.0;
    if (!lab_workspace_create(&workspace, att_plan_workspace(plan), NULL))
        return 0.0;
    for (int i = 0; i < 2; i++) {
        const uint64_t before = lab_clock_ns();
        if (att_plan_run(plan, &tensors->args, workspace.data, NULL) != ATT_OK) {
            ns = 0.0;
            break;
        }
        ns = (double)(lab_clock_ns() - before);
    }
    lab_workspace_destroy(&workspace);
    return ns;
}

double cli_estimate_run(const cli_session *session, const lab_operation *operation,
                        const void *problem, double flops) {
    att_context_info info = {.size = sizeof info};
    lab_spec small;
    lab_spec_init(&small);
    if (operation != small.operation || flops < 10.0 * small_flops ||
        att_context_query(session->ctx[0], &info) != ATT_OK || info.device == ATT_DEVICE_CUDA ||
        !make_small(&small, problem))
        return 0.0;
    att_plan *plan = NULL;
    lab_tensors *tensors = NULL;
    double ns = 0.0;
    if (att_plan_create(&plan, session->ctx[0], &small.problem) == ATT_OK &&
        lab_tensors_create(&tensors, &small, session->options->seed, NULL))
        ns = time_small(plan, tensors);
    lab_tensors_destroy(tensors);
    att_plan_destroy(plan);
    return 1e-9 * ns * flops / lab_spec_flops(&small);
}

static const char *duration(char *buf, size_t n, double seconds) {
    if (seconds < 120.0)
        snprintf(buf, n, "%.0f s", seconds);
    else if (seconds < 7200.0)
        snprintf(buf, n, "%.0f minutes", seconds / 60.0);
    else
        snprintf(buf, n, "%.1f hours", seconds / 3600.0);
    return buf;
}

void cli_tell_estimate(double seconds, int64_t repeats) {
    char one[32], all[32];
    if (seconds * (double)repeats < TOLD_FROM)
        return;
    fprintf(stderr, "note: a run will take about %s, by the speed of a smaller problem",
            duration(one, sizeof one, seconds));
    if (repeats > 1)
        fprintf(stderr, "; %lld runs about %s (--repeat sets how many)", (long long)repeats,
                duration(all, sizeof all, seconds * (double)repeats));
    fputc('\n', stderr);
}
