/* tiling.c: cut a problem into blocks for a GPU kernel, and launch them. */
#include "attention/cuda/tiling.h"

#include "attention/cuda/decode_tiling.h"
#include "attention/cuda/f32_tiling.h"
#include "attention/cuda/params.h"
#include "base/checked.h"
#include "base/error.h"
#include "cuda/occupancy.h"
#include "cuda/shape.h"

enum {
    TEAM_ABOVE = 4, /* parts per row above which all warps of a block combine one row */
    /* Blocks that an SM holds. If there are more blocks, warps take several rows each; for rows
     * with very many parts, only if there would be this many rounds of blocks. */
    COMBINE_BLOCKS = 4,
    MANY_PARTS = 8,
    COMBINE_ROUNDS = 4,
    WORKSPACE_UNIT = 256 /* bytes */
};

/* The cost of splitting, in units of one step over the keys: starting a block, and the
 * combining kernel. Fitted to times of forced splits on an H200. */
typedef struct split_cost {
    int start, combine;
} split_cost;

static const split_cost decode_cost = {.start = 6, .combine = 4};
static const split_cost tile_cost = {.start = 4, .combine = 16};

int64_t att_cuda_row_tiles(const att_cuda_kernel *kernel, const att_problem *p) {
    const bool decode = kernel->role == ATT_ROLE_DECODE;
    const int64_t rows = decode ? p->seq_q * (p->heads_q / p->heads_kv) : p->seq_q;
    const int64_t heads = decode ? p->heads_kv : p->heads_q;
    int64_t tiles;
    return att_mul(p->batch * heads, att_ceil_div(rows, kernel->tile_m), &tiles) ? tiles
                                                                                 : INT64_MAX;
}

/* Blocks along the rows of the problem, before the keys are split. */
static att_status count_blocks(int64_t *blocks, att_fwd_params *params,
                               const att_cuda_kernel *kernel, const att_problem *p) {
    const bool decode = kernel->role == ATT_ROLE_DECODE;
    const int64_t tile_rows = decode ? p->seq_q * params->group : p->seq_q;
    params->row_blocks = (int)att_ceil_div(tile_rows, kernel->tile_m);
    params->by_row_blocks = att_cuda_divisor((unsigned)att_max(params->row_blocks, 1));
    const int64_t heads = decode ? p->heads_kv : p->heads_q;
    *blocks = att_cuda_row_tiles(kernel, p);
    ATT_REQUIRE(*blocks <= INT32_MAX, ATT_E_UNSUPPORTED, "batch",
                "%s would need %lld x %lld blocks, past 2^31", kernel->id,
                (long long)(p->batch * heads), (long long)params->row_blocks);
    return ATT_OK;
}

/* From the cost above. */
int att_cuda_choose_splits(const att_cuda_kernel *kernel, const att_problem *p, int64_t blocks,
                           int64_t slots) {
    const bool decode = kernel->role == ATT_ROLE_DECODE;
    const split_cost cost = decode ? decode_cost : tile_cost;
    const int64_t keys_a_step = (int64_t)kernel->tile_n * (decode ? kernel->warps : 1);
    const int64_t steps = att_max(1, att_ceil_div(p->seq_k, keys_a_step));
    int best = 1;
    int64_t least = INT64_MAX;
    for (int splits = 1; splits <= att_min(ATT_PARTS_MOST, steps); splits++) {
        const int64_t waves = att_ceil_div(blocks * splits, slots);
        const int64_t merge = splits > 1 ? cost.combine + splits / 16 : 0;
        const int64_t time = waves * (cost.start + att_ceil_div(steps, splits)) + merge;
        if (time <= least) {
            least = time;
            best = splits;
        }
    }
    return best;
}

const att_cuda_kernel *att_cuda_combine_of(const att_cuda_kernel *kernel,
                                           bool allow_unattested) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const att_cuda_kernel *k = row->cuda;
        if (k && k->role == ATT_ROLE_COMBINE && k->d_v >= kernel->d_v &&
            (!k->dtype || k->dtype == kernel->dtype) && (!row->unattested || allow_unattested))
            return k;
    }
    return NULL;
}

/* Floats of O in the parts of `rows` rows: an even number, since tops and sums follow in pairs. */
static int64_t partial_o_floats(const att_fwd_params *params, int64_t rows) {
    return att_round_up(rows * params->splits * params->d_v, 2);
}

/* The workspace of rows to combine: O of their parts, then the parts' tops and sums. */
att_status att_cuda_plan_combine(att_cuda_tiling *t, size_t *workspace, const att_context *ctx,
                                 const att_cuda_kernel *combine, int64_t rows) {
    ATT_TRY(att_cuda_function_load(&t->combine, ctx->gpu, combine, &ctx->source));
    int row_warps = t->params.splits > TEAM_ABOVE ? combine->warps : 1;
    int64_t blocks = att_ceil_div(rows * row_warps, combine->warps);
    const int rounds = t->params.splits > MANY_PARTS ? COMBINE_ROUNDS : 1;
    if (blocks > (int64_t)rounds * COMBINE_BLOCKS * ctx->limits.gpu->sms) {
        row_warps = 0;
        blocks = att_ceil_div(rows, combine->warps * ATT_FWD_ROWS_AT_ONCE);
    }
    t->params.row_warps = row_warps;
    t->combine_shape = (att_cuda_shape){
        .grid = {(uint32_t)blocks, 1, 1},
        .threads = att_cuda_kernel_threads(combine),
        .shared = att_cuda_kernel_shared(combine),
        .overlap = true,
    };
    const int64_t floats = partial_o_floats(&t->params, rows) + 2 * rows * t->params.splits;
    *workspace = (size_t)att_round_up(floats * (int64_t)sizeof(float), WORKSPACE_UNIT);
    return ATT_OK;
}

/* A user's row must meet the limits that the build checks for the built-in ones. */
static att_status check_budget(const att_cuda_kernel *kernel, const att_cuda_code *code) {
    const int threads = (int)att_cuda_kernel_threads(kernel);
    ATT_REQUIRE(code->max_threads >= threads, ATT_E_UNSUPPORTED, "warps",
                "%s: a block of %d threads at %d registers each does not fit; %d would",
                kernel->id, threads, code->registers, code->max_threads);
    ATT_REQUIRE(code->local_bytes == 0 || kernel->may_spill, ATT_E_UNSUPPORTED, "registers",
                "%s: %d bytes per thread spill from its %d registers; 'spills = allowed' in "
                "its row would let it run",
                kernel->id, code->local_bytes, code->registers);
    return ATT_OK;
}

static att_status load_kernel(const att_cuda_function **out, att_cuda_device *device,
                              const att_cuda_kernel *kernel, const att_cuda_source *source) {
    if (!kernel->defines)
        return att_cuda_function_load(out, device, kernel, source);
    att_cuda_source own = *source;
    own.defines = kernel->defines;
    own.jit_only = 1;
    ATT_TRY(att_cuda_function_load(out, device, kernel, &own));
    return check_budget(kernel, att_cuda_function_code(*out));
}

att_status att_cuda_tiling_begin(att_cuda_tiling *tiling, const att_context *ctx,
                                 const att_cuda_kernel *kernel, const att_problem *p) {
    *tiling = (att_cuda_tiling){.function = NULL};
    att_cuda_params_of(&tiling->params, p);
    return load_kernel(&tiling->function, ctx->gpu, kernel, &ctx->source);
}

void att_cuda_tiling_point(att_fwd_params *params, const att_cuda_tiling *tiling,
                           const att_args *args) {
    *params = tiling->params;
    att_cuda_params_point(params, args);
    if (args->launch)
        att_cuda_launch_record(args->launch, tiling->function, &tiling->shape);
}

att_status att_cuda_tiling_rows(att_cuda_tiling *tiling, int64_t *blocks,
                                const att_context *ctx, const att_cuda_kernel *kernel,
                                const att_problem *p) {
    ATT_TRY(att_cuda_tiling_begin(tiling, ctx, kernel, p));
    ATT_TRY(count_blocks(blocks, &tiling->params, kernel, p));
    tiling->shape = (att_cuda_shape){
        .grid = {(uint32_t)*blocks, 1, 1},
        .threads = att_cuda_kernel_threads(kernel),
        .shared = att_cuda_kernel_shared(kernel),
        .overlap = kernel->role == ATT_ROLE_DECODE,
    };
    return att_cuda_function_allow(tiling->function, tiling->shape.shared);
}

const att_cuda_kernel *att_cuda_combine_for(const att_cuda_kernel *kernel,
                                            const att_context *ctx, int64_t rows) {
    return rows <= INT32_MAX ? att_cuda_combine_of(kernel, ctx->limits.allow_unattested) : NULL;
}

att_status att_cuda_cluster_cut(void *state, size_t *workspace, const att_context *ctx,
                                const att_kernel_row *row, const void *problem) {
    att_cuda_tiling *tiling = state;
    const att_problem *p = problem;
    int64_t blocks = 0;
    *workspace = 0;
    ATT_TRY(att_cuda_tiling_rows(tiling, &blocks, ctx, row->cuda, p));
    if (blocks == 0)
        return ATT_OK;
    const int64_t rows = p->batch * p->heads_q * p->seq_q;
    const att_cuda_kernel *combine = att_cuda_combine_for(row->cuda, ctx, rows);
    ATT_TRY(att_cuda_decode_tiling(tiling, row->cuda, ctx->limits.gpu, p, blocks, combine));
    return combine && tiling->params.splits > 1 && !tiling->shape.cluster
               ? att_cuda_plan_combine(tiling, workspace, ctx, combine, rows)
               : ATT_OK;
}

att_status att_cuda_blocks_cut(void *state, size_t *workspace, const att_context *ctx,
                               const att_kernel_row *row, const void *problem) {
    att_cuda_tiling *tiling = state;
    const att_problem *p = problem;
    const att_cuda_kernel *kernel = row->cuda;
    const att_cuda_limits *limits = ctx->limits.gpu;
    int64_t blocks = 0;
    *workspace = 0;
    ATT_TRY(att_cuda_tiling_rows(tiling, &blocks, ctx, kernel, p));
    const int64_t rows = p->batch * p->heads_q * p->seq_q;
    const att_cuda_kernel *combine = att_cuda_combine_for(kernel, ctx, rows);
    if (blocks == 0 || !combine)
        return ATT_OK;
    /* One block per SM has enough bytes in flight for a decode kernel's share of the memory
     * bandwidth. */
    const int resident =
        kernel->role == ATT_ROLE_DECODE
            ? 1
            : att_cuda_blocks_per_sm(limits, att_cuda_function_code(tiling->function),
                                     &tiling->shape);
    const int64_t slots = (int64_t)limits->sms * resident;
    const int splits = kernel->dtype == ATT_F32
                           ? att_cuda_f32_splits(kernel, p, blocks, limits->sms, resident)
                           : att_cuda_choose_splits(kernel, p, blocks, slots);
    tiling->params.splits = splits;
    tiling->params.by_splits = att_cuda_divisor((unsigned)splits);
    tiling->shape.grid[1] = (uint32_t)splits;
    return splits > 1 ? att_cuda_plan_combine(tiling, workspace, ctx, combine, rows) : ATT_OK;
}

void att_cuda_point_parts(att_fwd_params *params, void *memory) {
    const int64_t rows = (int64_t)params->batch * params->heads_q * params->seq_q;
    params->partial_o = memory;
    params->partial_sums = params->partial_o + partial_o_floats(params, rows);
}

att_status att_cuda_blocks_run(const att_plan *plan, const void *args, void *workspace,
                               void *stream) {
    const att_cuda_tiling *tiling = plan->state;
    att_fwd_params params;
    att_cuda_tiling_point(&params, tiling, args);
    if (tiling->shape.grid[0] == 0)
        return ATT_OK;
    if (tiling->combine)
        att_cuda_point_parts(&params, workspace);
    ATT_TRY(att_cuda_launch(tiling->function, &tiling->shape, &params, sizeof params, stream));
    if (!tiling->combine)
        return ATT_OK;
    return att_cuda_launch(tiling->combine, &tiling->combine_shape, &params, sizeof params,
                           stream);
}
