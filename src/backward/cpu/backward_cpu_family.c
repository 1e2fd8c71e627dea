/* backward_cpu_family.c: gradients on the CPU: the problems that the kernels accept, how they
 * are cut, and a run. */
#include "backward/cpu/bias_pieces.h"
#include "backward/cpu/d_o_scale.h"
#include "backward/cpu/exact.h"
#include "backward/cpu/gradient_code.h"
#include "backward/cpu/gradient_heads.h"
#include "base/error.h"
#include "core/plan.h"

/* Operations that justify waking another thread: about 10 microseconds of one. */
static const double OPERATIONS_A_THREAD = 4e6;

static bool serves(const att_kernel_row *row, const att_limits *limits, const void *problem,
                   att_refusal *refusal) {
    const att_problem *p = problem;
    const bool pairs = row->isa == ATT_ISA_AVX512_BF16 || row->isa == ATT_ISA_AMX;
    (void)limits;
    ATT_CONDITION(!pairs || p->dtype == ATT_BF16, "dtype",
                  "only bf16 is multiplied by AVX512-BF16 and AMX");
    ATT_CONDITION(!pairs || p->dtype_o == ATT_BF16, "dtype_o",
                  "d_o is multiplied as bf16, and dtype_o is another type");
    ATT_CONDITION(p->d_qk <= ATT_BACKWARD_CPU_D_MAX, "d_qk", "d_qk=%lld is above %d",
                  (long long)p->d_qk, ATT_BACKWARD_CPU_D_MAX);
    ATT_CONDITION(p->d_v <= ATT_BACKWARD_CPU_D_MAX, "d_v", "d_v=%lld is above %d",
                  (long long)p->d_v, ATT_BACKWARD_CPU_D_MAX);
    return true;
}

static int useful_threads(const att_problem *p, int threads) {
    const double pairs =
        (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->seq_k;
    const double operations = pairs * (double)(6 * p->d_qk + 4 * p->d_v);
    const double useful = 1.0 + operations / OPERATIONS_A_THREAD;
    return useful < threads ? (int)useful : threads;
}

/* Large chunks pack each block of rows less often; smaller ones make tasks for more threads.
 * Chunks are of equal size, and depend only on the problem. */
static int64_t chunk_keys_of(const att_problem *p, int64_t pairs, int64_t most) {
    enum { TASKS_WANTED = 32, KEYS_LEAST = 128 };
    const int64_t wanted = att_ceil_div(TASKS_WANTED, att_max(pairs, 1));
    const int64_t chunks = att_max(att_ceil_div(p->seq_k, most),
                                   att_min(wanted, att_ceil_div(p->seq_k, KEYS_LEAST)));
    return att_round_up(att_ceil_div(att_max(p->seq_k, 1), att_max(chunks, 1)), ATT_CHUNK_STEP);
}

/* Append `count` elements at `*end` and return their start; overflow is reported in *fits. */
static size_t take_bytes(int64_t count, size_t element, int64_t *end, bool *fits) {
    const int64_t start = *end;
    int64_t bytes = 0;
    *fits = *fits && att_mul(count, (int64_t)element, &bytes) && bytes < INT64_MAX / 4 &&
            start < INT64_MAX / 4;
    if (*fits)
        *end = start + att_round_up(bytes, ATT_WORKSPACE_ALIGN);
    return (size_t)start;
}

/* Blocks, chunks and threads. The problem's check bounds everything that has rows or keys, so
 * only a batch without any can overflow. */
static att_status cut_tasks(att_gradient_cut *c, const att_problem *p,
                            const att_gradient_code *code, int threads) {
    ATT_REQUIRE(att_mul(p->batch, p->heads_kv, &c->pairs), ATT_E_OVERFLOW, "batch",
                "batch=%lld x heads_kv=%lld overflows", (long long)p->batch,
                (long long)p->heads_kv);
    c->blocks = att_ceil_div(p->seq_q * c->tiling.group, c->block_rows);
    c->chunk_keys = chunk_keys_of(p, c->pairs, code->chunk_most);
    c->chunks = att_ceil_div(p->seq_k, c->chunk_keys);
    c->threads = (int)att_min(useful_threads(p, threads), att_max(c->pairs * c->chunks, 1));
    return ATT_OK;
}

/* Lay out the workspace. */
static att_status lay_out_workspace(att_gradient_cut *c, const att_problem *p) {
    const bool packed = p->features & ATT_CU_SEQLENS_Q;
    int64_t rows, rounding, all, numbers;
    bool fits =
        att_mul(packed ? p->total_q : p->seq_q, c->tiling.group, &rows) && rows < INT64_MAX / 4;
    fits = fits &&
           att_mul(packed ? c->block_rows : att_round_up(rows, c->block_rows), p->batch,
                   &rounding) &&
           rounding < INT64_MAX / 4;
    if (fits)
        c->head_rows = att_round_up(rounding + (packed ? rows : 0), c->block_rows);
    fits = fits && att_mul(c->head_rows, p->heads_kv, &all) &&
           att_mul(all, c->sum_stride, &numbers);
    if (fits) {
        int64_t end = (int64_t)c->scratch * c->threads; /* a multiple of 64 */
        c->facts = take_bytes(all, sizeof(att_row_fact), &end, &fits);
        c->block_facts = take_bytes(all / c->block_rows, sizeof(att_block_fact), &end, &fits);
        c->sums = take_bytes(numbers, sizeof(float), &end, &fits);
        c->slopes =
            take_bytes(p->gradients & ATT_D_ALIBI ? all : 0, sizeof(double), &end, &fits);
        c->workspace = (size_t)end;
    }
    ATT_REQUIRE(fits, ATT_E_OVERFLOW, "seq_q",
                "seq_q=%lld: the sums of d_q overflow a workspace", (long long)p->seq_q);
    return ATT_OK;
}

static att_status cut(void *out, size_t *workspace, const att_context *ctx,
                      const att_kernel_row *row, const void *problem) {
    const att_problem *p = problem;
    const att_gradient_code *code = row->cpu->code;
    att_gradient_cut *c = out;
    *c = (att_gradient_cut){.tiling = {.group = p->heads_q / p->heads_kv},
                            .block_rows = code->block_rows,
                            .scratch = code->scratch(p),
                            .sum_stride = code->sum_stride(p)};
    ATT_TRY(cut_tasks(c, p, code, ctx->threads));
    ATT_TRY(lay_out_workspace(c, p));
    *workspace = c->workspace;
    return ATT_OK;
}

typedef struct run {
    att_gradient_job job;
    const att_gradient_code *code;
    char *workspace;
} run;

static void *scratch_of(const run *r, int worker) {
    return r->workspace + r->job.cut->scratch * (size_t)worker;
}

static void run_prepare(void *arg, int64_t i, int worker) {
    const run *r = arg;
    (void)worker;
    r->code->prepare(&r->job, i);
}

static void run_chunk(void *arg, int64_t i, int worker) {
    const run *r = arg;
    r->code->chunk(&r->job, i, scratch_of(r, worker));
}

static void run_bias(void *arg, int64_t i, int worker) {
    const run *r = arg;
    r->code->bias(&r->job, i, scratch_of(r, worker));
}

static void run_head(void *arg, int64_t head, int worker) {
    const run *r = arg;
    (void)worker;
    att_gradient_store_head(&r->job, head);
}

static att_status run_all(const att_plan *plan, const void *args, void *workspace,
                          void *stream) {
    const att_gradient_cut *c = plan->state;
    const att_problem *p = plan->problem;
    const att_args *a = args;
    att_pool *pool = plan->ctx->pool;
    char *base = workspace;
    (void)stream;
    run r = {.job = {.base = {.p = p, .a = a, .t = &c->tiling}, .cut = c},
             .code = plan->kernel->cpu->code,
             .workspace = base};
    r.job.facts = (att_row_fact *)(void *)(base + c->facts);
    r.job.block_facts = (att_block_fact *)(void *)(base + c->block_facts);
    r.job.sums = (float *)(void *)(base + c->sums);
    r.job.slopes = (double *)(void *)(base + c->slopes);
    const int64_t tasks =
        att_max(1, c->chunks * c->pairs); /* task 0 writes the launch record */
    if (a->launch)
        *a->launch = (att_launch){
            .grid = {(uint32_t)att_min(tasks, UINT32_MAX), 1, 1},
            .block = {(uint32_t)att_min(c->threads, tasks), 1, 1},
            .shared_bytes = c->scratch,
        };
    att_pool_run(pool, c->threads, c->pairs * c->blocks, run_prepare, &r);
    r.job.d_o_scale = r.code->flushes ? att_d_o_scale(&r.job) : 1.0f;
    att_pool_run(pool, c->threads, tasks, run_chunk, &r);
    if (p->gradients & ATT_D_BIAS)
        att_pool_run(pool, c->threads, att_bias_piece_count(p, c), run_bias, &r);
    if (p->gradients & (ATT_D_SINKS | ATT_D_ALIBI))
        att_pool_run(pool, c->threads, p->heads_q, run_head, &r);
    return ATT_OK;
}

static void describe(const att_plan *plan, char *text, size_t n) {
    const att_gradient_cut *c = plan->state;
    snprintf(
        text, n,
        "%lld keys a task, %lld tasks, %lld rows at a time, %d thread%s, workspace %zu bytes",
        (long long)c->chunk_keys, (long long)(c->chunks * c->pairs), (long long)c->block_rows,
        c->threads, c->threads == 1 ? "" : "s", plan->workspace);
}

const att_family att_family_cpu_backward = {.operation = &att_operation_backward,
                                            .role = "backward",
                                            .d_most = ATT_BACKWARD_CPU_D_MAX,
                                            .state_bytes = sizeof(att_gradient_cut),
                                            .serves = serves,
                                            .cut = cut,
                                            .run = run_all,
                                            .describe = describe};
