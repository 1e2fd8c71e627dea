/* moe_cpu_family.c: moe on the CPU: the problems that the kernels accept, how they are cut, and
 * a run. */
#include <string.h>

#include "base/error.h"
#include "core/plan.h"
#include "moe/cpu/moe_code.h"
#include "moe/cpu/moe_route.h"

/* Operations that justify waking another thread: about 10 microseconds of one. */
static const double OPERATIONS_A_THREAD = 4e6;

static bool serves(const att_kernel_row *row, const att_limits *limits, const void *problem,
                   att_refusal *refusal) {
    const att_moe_problem *p = problem;
    const att_moe_code *code = row->cpu->code;
    (void)limits;
    ATT_CONDITION(!code->pairs || p->dtype == ATT_BF16, "dtype",
                  "only bf16 is multiplied by AVX512-BF16 and AMX");
    ATT_CONDITION(code->transposes || !(p->flags & ATT_MOE_TRANSPOSED), "flags",
                  "tiles are loaded from rows of weights, and these are transposed");
    return true;
}

/* ----------------------------------------------------------------------- cut */

static int useful_threads(const att_moe_problem *p, int threads) {
    const double slots = (double)p->tokens * (double)p->experts_per_token;
    const double operations = slots * 6.0 * (double)p->hidden * (double)p->inner;
    const double useful = 1.0 + operations / OPERATIONS_A_THREAD;
    return useful < threads ? (int)useful : threads;
}

/* Tokens per chunk: enough that the weights of an expert serve many, and few enough that h and
 * the parts of y stay small. Depends only on the problem. */
static int64_t chunk_of(const att_moe_problem *p) {
    enum { SLOTS_LEAST = 8192, SLOTS_MOST = 32768, TOKENS_AN_EXPERT = 64 };
    const int64_t slots =
        att_min(att_max(SLOTS_LEAST, TOKENS_AN_EXPERT * p->local_experts), (int64_t)SLOTS_MOST);
    return att_max(1, att_min(p->tokens, slots / p->experts_per_token));
}

/* Columns per task: as many as the kernel prefers, fewer if threads would be idle. */
static int64_t block_of(const att_moe_code *code, int64_t columns, int64_t experts,
                        int threads) {
    enum { TASKS_A_THREAD = 4 };
    int64_t block = code->block_most;
    while (block > code->block_least &&
           experts * att_ceil_div(columns, block) < (int64_t)TASKS_A_THREAD * threads)
        block /= 2;
    return block;
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

static att_status lay_out_workspace(att_moe_cut *c, const att_moe_problem *p,
                                    const att_moe_code *code) {
    const int64_t slots = c->chunk * p->experts_per_token;
    bool fits = p->hidden < INT64_MAX / 4 / c->chunk && p->inner < INT64_MAX / 64;
    int64_t end = 0;
    if (fits) {
        c->scratch = (size_t)att_round_up((int64_t)code->scratch(p, c), ATT_WORKSPACE_ALIGN);
        take_bytes(c->threads, c->scratch, &end, &fits);
        c->ids = take_bytes(slots, sizeof(int32_t), &end, &fits);
        c->weights = take_bytes(slots, sizeof(float), &end, &fits);
        c->slot_at = take_bytes(c->positions, sizeof(int32_t), &end, &fits);
        c->position_of = take_bytes(slots, sizeof(int32_t), &end, &fits);
        c->starts = take_bytes(p->local_experts, sizeof(int32_t), &end, &fits);
        c->lengths = take_bytes(p->local_experts, sizeof(int32_t), &end, &fits);
        c->active = take_bytes(p->local_experts, sizeof(int32_t), &end, &fits);
        c->x = take_bytes(c->widens_x ? c->chunk * p->hidden : 0, sizeof(float), &end, &fits);
        c->h = take_bytes(c->positions, code->h_bytes(p), &end, &fits);
    }
    ATT_REQUIRE(fits, ATT_E_OVERFLOW, "inner",
                "hidden=%lld, inner=%lld: a chunk of tokens overflows a workspace",
                (long long)p->hidden, (long long)p->inner);
    c->workspace = p->tokens == 0 ? 0 : (size_t)end;
    return ATT_OK;
}

static att_status cut(void *out, size_t *workspace, const att_context *ctx,
                      const att_kernel_row *row, const void *problem) {
    const att_moe_problem *p = problem;
    const att_moe_code *code = row->cpu->code;
    att_moe_cut *c = out;
    *c = (att_moe_cut){.chunk = chunk_of(p),
                       .widens_x = !code->pairs && p->dtype != ATT_F32,
                       .threads = useful_threads(p, ctx->threads)};
    const int64_t slots = c->chunk * p->experts_per_token;
    const int64_t active = att_min(slots, p->local_experts);
    c->positions = slots + (code->align - 1) * active;
    c->inner_block = block_of(code, p->inner, active, c->threads);
    c->hidden_block = block_of(code, p->hidden, 1, c->threads);
    c->inner_blocks = att_ceil_div(p->inner, c->inner_block);
    c->hidden_blocks = att_ceil_div(p->hidden, c->hidden_block);
    ATT_TRY(lay_out_workspace(c, p, code));
    *workspace = c->workspace;
    return ATT_OK;
}

/* ----------------------------------------------------------------------- run */

typedef struct run {
    att_moe_job job;
    const att_moe_code *code;
    char *workspace;
} run;

static void *scratch_of(const run *r, int worker) {
    return r->workspace + r->job.cut->scratch * (size_t)worker;
}

static void run_route(void *arg, int64_t i, int worker) {
    const run *r = arg;
    (void)worker;
    const int64_t begin = i * ATT_MOE_ROUTED;
    const int64_t end = att_min(begin + ATT_MOE_ROUTED, r->job.tokens);
    for (int64_t token = begin; token < end; token++)
        att_moe_route_token(&r->job, token);
}

static void run_first(void *arg, int64_t i, int worker) {
    const run *r = arg;
    r->code->first(&r->job, i, scratch_of(r, worker));
}

static void run_second(void *arg, int64_t i, int worker) {
    const run *r = arg;
    r->code->second(&r->job, i, scratch_of(r, worker));
}

static void run_chunk(run *r, att_pool *pool, int64_t first) {
    att_moe_job *job = &r->job;
    const att_moe_cut *c = job->cut;
    job->first_token = first;
    job->tokens = att_min(c->chunk, job->p->tokens - first);
    att_pool_run(pool, c->threads, att_ceil_div(job->tokens, ATT_MOE_ROUTED), run_route, r);
    att_moe_sort_slots(job, r->code->align);
    att_pool_run(pool, c->threads, job->active_count * c->inner_blocks, run_first, r);
    att_pool_run(pool, c->threads, c->hidden_blocks, run_second, r);
}

static att_status run_all(const att_plan *plan, const void *args, void *workspace,
                          void *stream) {
    const att_moe_problem *p = plan->problem;
    const att_moe_cut *c = plan->state;
    const att_moe_args *a = args;
    char *base = workspace;
    (void)stream;
    run r = {
        .job = {.p = p, .a = a, .cut = c}, .code = plan->kernel->cpu->code, .workspace = base};
    if (a->launch)
        *a->launch = (att_launch){
            .grid = {(uint32_t)c->inner_blocks, (uint32_t)c->hidden_blocks,
                     (uint32_t)att_ceil_div(p->tokens, c->chunk)},
            .block = {(uint32_t)c->threads, 1, 1},
            .shared_bytes = c->scratch,
        };
    if (p->features & ATT_MOE_COUNTS)
        memset(a->counts, 0, (size_t)(p->experts + 1) * sizeof *a->counts);
    if (p->tokens == 0)
        return ATT_OK;
    r.job.ids = (int32_t *)(void *)(base + c->ids);
    r.job.weights = (float *)(void *)(base + c->weights);
    r.job.slot_at = (int32_t *)(void *)(base + c->slot_at);
    r.job.position_of = (int32_t *)(void *)(base + c->position_of);
    r.job.starts = (int32_t *)(void *)(base + c->starts);
    r.job.lengths = (int32_t *)(void *)(base + c->lengths);
    r.job.active = (int32_t *)(void *)(base + c->active);
    r.job.x = c->widens_x ? (float *)(void *)(base + c->x) : NULL;
    r.job.h = base + c->h;
    for (int64_t first = 0; first < p->tokens; first += c->chunk)
        run_chunk(&r, plan->ctx->pool, first);
    return ATT_OK;
}

static void describe(const att_plan *plan, char *text, size_t n) {
    const att_moe_cut *c = plan->state;
    snprintf(text, n,
             "%lld tokens at a time, %lld and %lld columns a task, %d thread%s, workspace %zu "
             "bytes",
             (long long)c->chunk, (long long)c->inner_block, (long long)c->hidden_block,
             c->threads, c->threads == 1 ? "" : "s", plan->workspace);
}

const att_family att_family_cpu_moe = {.operation = &att_operation_moe,
                                       .role = "moe",
                                       .state_bytes = sizeof(att_moe_cut),
                                       .serves = serves,
                                       .cut = cut,
                                       .run = run_all,
                                       .describe = describe};
