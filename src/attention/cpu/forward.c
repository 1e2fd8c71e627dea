/* forward.c: cuts a problem into enough tasks for every thread, as large as that allows. */
#include "attention/cpu/forward.h"

#include "base/error.h"

/* Tasks per thread, so that the last one to finish does not keep the others waiting long. */
enum { TASKS_A_THREAD = 4 };

/* The fewest keys that are worth a split of their own. */
enum { KEYS_A_SPLIT = 256 };

/* Operations that justify waking another thread: about 10 microseconds of one. */
static const double OPERATIONS_A_THREAD = 4e6;

static int useful_threads(const att_problem *p, int threads) {
    const double pairs =
        (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->seq_k;
    const double useful = 1.0 + 2.0 * pairs * (double)(p->d_qk + p->d_v) / OPERATIONS_A_THREAD;
    return useful < threads ? (int)useful : threads;
}

static bool tasks_of(const att_problem *p, int64_t row_blocks, int64_t *tasks) {
    return att_mul(p->batch, p->heads_kv, tasks) && att_mul(*tasks, row_blocks, tasks);
}

att_status att_cpu_tiling_choose(att_cpu_tiling *tiling, const att_cpu_code *kernel,
                                 const att_problem *p, int threads_most) {
    const int threads = useful_threads(p, threads_most);
    att_cpu_tiling t = {.group = p->heads_q / p->heads_kv, .splits = 1, .threads = threads};
    int64_t packed;
    ATT_REQUIRE(att_mul(p->seq_q, t.group, &packed), ATT_E_OVERFLOW, "seq_q",
                "seq_q=%lld times the heads of a group overflows", (long long)p->seq_q);
    /* Large tasks pack each K/V block for more rows. Halve them until there are enough for all
     * threads. */
    t.rows = att_round_up(att_max(att_min(packed, kernel->row_most), 1), kernel->row_step);
    for (;;) {
        t.row_blocks = att_ceil_div(packed, t.rows);
        ATT_REQUIRE(tasks_of(p, t.row_blocks, &t.tasks), ATT_E_OVERFLOW, "batch",
                    "batch=%lld x heads_kv=%lld x row blocks overflows", (long long)p->batch,
                    (long long)p->heads_kv);
        if (t.tasks >= (int64_t)TASKS_A_THREAD * threads || t.rows <= kernel->row_step)
            break;
        t.rows = att_round_up(t.rows / 2, kernel->row_step);
    }
    if (t.tasks > 0 && t.tasks < 2 * threads && threads > 1) {
        const int64_t wanted = att_ceil_div((int64_t)TASKS_A_THREAD * threads, t.tasks);
        t.splits = att_max(1, att_min(wanted, p->seq_k / KEYS_A_SPLIT));
        t.tasks *= t.splits;
    }
    t.tasks = att_max(t.tasks, 1); /* task 0 always runs: it writes the launch record */
    t.scratch = kernel->scratch(p, t.rows);
    if (t.splits > 1)
        t.partials = (size_t)(t.tasks * t.rows * att_cpu_partial_stride(p)) * sizeof(float);
    *tiling = t;
    return ATT_OK;
}

size_t att_cpu_workspace(const att_cpu_tiling *tiling) {
    return tiling->scratch * (size_t)tiling->threads +
           tiling->partials; /* both are multiples of 64 */
}

typedef struct run {
    att_cpu_job job;
    const att_cpu_code *kernel;
    char *scratch;
} run;

static void run_task(void *arg, int64_t i, int worker) {
    const run *r = arg;
    r->kernel->run(&r->job, i, r->scratch + r->job.t->scratch * (size_t)worker);
}

static void combine_splits(void *arg, int64_t i, int worker) {
    (void)worker;
    const run *r = arg;
    r->kernel->combine(&r->job, i * r->job.t->splits);
}

void att_cpu_forward(const att_cpu_code *kernel, const att_cpu_tiling *tiling,
                     const att_problem *p, const att_args *a, void *workspace, att_pool *pool) {
    char *scratch = workspace;
    run r = {.job = {.p = p, .a = a, .t = tiling}, .kernel = kernel, .scratch = scratch};
    r.job.partials = (float *)(void *)(scratch + tiling->scratch * (size_t)tiling->threads);
    if (a->launch) {
        const int64_t threads = att_min(tiling->threads, tiling->tasks);
        *a->launch = (att_launch){
            .grid = {(uint32_t)att_min(tiling->tasks, UINT32_MAX), (uint32_t)tiling->splits, 1},
            .block = {(uint32_t)threads, 1, 1},
            .shared_bytes = tiling->scratch,
        };
    }
    att_pool_run(pool, tiling->threads, tiling->tasks, run_task, &r);
    if (tiling->splits > 1)
        att_pool_run(pool, tiling->threads, tiling->tasks / tiling->splits, combine_splits, &r);
}
