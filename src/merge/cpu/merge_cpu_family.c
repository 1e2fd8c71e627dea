/* merge_cpu_family.c: merge on the CPU: rows are divided among the threads. */
#include "base/checked.h"
#include "core/plan.h"
#include "merge/cpu/merge_code.h"

typedef struct state {
    int64_t rows, rows_a_task, tasks;
    int threads;
} state;

/* Bytes that justify waking another thread: about 10 microseconds of one. */
enum { BYTES_A_THREAD = 1 << 17, TASKS_A_THREAD = 4 };

static bool serves(const att_kernel_row *row, const att_limits *limits, const void *problem,
                   att_refusal *refusal) {
    (void)row, (void)limits, (void)problem, (void)refusal;
    return true;
}

static att_status cut(void *out, size_t *workspace, const att_context *ctx,
                      const att_kernel_row *row, const void *problem) {
    const att_merge_problem *p = problem;
    state *s = out;
    (void)row;
    *workspace = 0;
    s->rows = p->batch * p->heads * p->seq;
    const double bytes = (double)s->rows * (double)p->d * (double)(p->parts + 1) * 4.0;
    const double useful = 1.0 + bytes / BYTES_A_THREAD;
    s->threads = useful < ctx->threads ? (int)useful : ctx->threads;
    const int64_t tasks = s->threads > 1 ? (int64_t)TASKS_A_THREAD * s->threads : 1;
    s->rows_a_task = att_max(1, att_ceil_div(s->rows, tasks));
    s->tasks = att_max(1, att_ceil_div(s->rows, s->rows_a_task));
    return ATT_OK;
}

typedef struct job {
    const att_merge_problem *p;
    const att_merge_args *a;
    const att_merge_code *code;
    const state *s;
} job;

static void run_task(void *arg, int64_t i, int worker) {
    const job *j = arg;
    (void)worker;
    const int64_t begin = i * j->s->rows_a_task;
    j->code->rows(j->p, j->a, begin, att_min(begin + j->s->rows_a_task, j->s->rows));
}

static att_status run(const att_plan *plan, const void *args, void *workspace, void *stream) {
    const att_merge_args *a = args;
    const state *s = plan->state;
    (void)workspace, (void)stream;
    job j = {.p = plan->problem, .a = a, .code = plan->kernel->cpu->code, .s = s};
    if (a->launch)
        *a->launch = (att_launch){.grid = {(uint32_t)s->tasks, 1, 1},
                                  .block = {(uint32_t)att_min(s->threads, s->tasks), 1, 1}};
    att_pool_run(plan->ctx->pool, s->threads, s->tasks, run_task, &j);
    return ATT_OK;
}

static void describe(const att_plan *plan, char *text, size_t n) {
    const state *s = plan->state;
    snprintf(text, n, "%lld rows a task, %lld tasks, %d threads, workspace %zu bytes",
             (long long)s->rows_a_task, (long long)s->tasks, s->threads, plan->workspace);
}

const att_family att_family_cpu_merge = {.operation = &att_operation_merge,
                                         .role = "merge",
                                         .state_bytes = sizeof(state),
                                         .serves = serves,
                                         .cut = cut,
                                         .run = run,
                                         .describe = describe};
