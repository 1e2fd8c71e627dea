/* backward_cuda_families.c: the GPU kernels of backward, one row per source. */
#include "attention/cuda/alignment.h"
#include "attention/cuda/band.h"
#include "backward/backward.h"
#include "backward/cuda/backward_params.h"
#include "backward/cuda/backward_steps.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "cuda/function.h"
#include "cuda/occupancy.h"
#include "cuda/shape.h"

/* Kernels count rows, keys and heads in 32 bits, and add a tile to the counts. */
static const int64_t count_most = INT32_MAX - 65535;

static bool counts_fit(const att_problem *p, att_refusal *refusal) {
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {
        {"batch", p->batch}, {"heads_q", p->heads_q},          {"seq_q", p->seq_q},
        {"seq_k", p->seq_k}, {"batch", p->batch * p->heads_q}, /* cannot overflow: checked */
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        ATT_CONDITION(counts[i].value <= count_most, counts[i].name,
                      "%s%s=%lld does not fit the 32 bits that GPU kernels count in",
                      counts[i].name, i == 4 ? " x heads_q" : "", (long long)counts[i].value);
    const char *field, *why = att_cuda_band_refusal(p, &field);
    ATT_CONDITION(!why, field, "%s %s", field, why);
    return true;
}

/* Conditions of every row: type, head dimensions, sizes in range. */
static bool takes_sizes(const att_cuda_kernel *k, const att_problem *p, att_refusal *refusal) {
    ATT_CONDITION(k->dtype == p->dtype, "dtype", "is for %s, not %s", att_dtype_name(k->dtype),
                  att_dtype_name(p->dtype));
    ATT_CONDITION(p->d_qk <= k->d_qk, "d_qk", "d_qk=%lld is above %d", (long long)p->d_qk,
                  k->d_qk);
    ATT_CONDITION(p->d_v <= k->d_v, "d_v", "d_v=%lld is above %d", (long long)p->d_v, k->d_v);
    return counts_fit(p, refusal);
}

/* The plain rows do not modify the scores, and move 16 bytes at a time. */
static bool is_plain(const att_problem *p, att_refusal *refusal) {
    ATT_CONDITION(!(p->softcap > 0.0f), "softcap", "has no softcap");
    ATT_CONDITION(!(p->features & ATT_ALIBI), "features", "has no ALiBi");
    ATT_CONDITION(!(p->features & ATT_BIAS), "features", "has no bias");
    ATT_CONDITION(p->dtype_o == p->dtype, "dtype_o", "reads O of %s, as Q is, not %s",
                  att_dtype_name(p->dtype), att_dtype_name(p->dtype_o));
    ATT_CONDITION(p->d_qk % 8 == 0, "d_qk", "d_qk=%lld is not a multiple of 8",
                  (long long)p->d_qk);
    ATT_CONDITION(p->d_v % 8 == 0, "d_v", "d_v=%lld is not a multiple of 8", (long long)p->d_v);
    const char *field = NULL;
    const size_t alignment = att_backward_row_alignment(p, &field);
    ATT_CONDITION(!field, field, "rows are aligned to %zu bytes, not to 16", alignment);
    return true;
}

static bool serves_blocks(const att_kernel_row *row, const att_limits *limits,
                          const void *problem, att_refusal *refusal) {
    const att_problem *p = problem;
    if (!takes_sizes(row->cuda, p, refusal) ||
        (row->cuda->role == ATT_ROLE_PLAIN && !is_plain(p, refusal)))
        return false;
    ATT_CONDITION(att_backward_step_of(&att_family_bwd_delta, p, limits->allow_unattested),
                  "flags", "the kernel that runs before it has no evidence");
    return true;
}

static bool serves_nothing(const att_kernel_row *row, const att_limits *limits,
                           const void *problem, att_refusal *refusal) {
    (void)row, (void)limits, (void)problem;
    ATT_CONDITION(false, "role", "is a step of other kernels' runs");
    return true;
}

/* Key tiles are drawn in turn by the (batch, head) pairs of a section. Those of one pair that
 * run at once wait for each other at the start, half a step each: at most CHAIN of them, unless
 * there are too few pairs; fewer if the rows of more pairs fit in half of L2. A key tile that
 * closely follows another finds its rows in L2. */
int64_t att_backward_section(const att_cuda_limits *gpu, const att_problem *p, int64_t slots,
                             int64_t key_tiles) {
    enum { CHAIN = 8 };
    const int64_t pairs = p->batch * p->heads_kv, group = p->heads_q / p->heads_kv;
    const int64_t bytes =
        group * p->seq_q * (p->d_qk * (2 + (int64_t)sizeof(float)) + 2 * p->d_v);
    const int64_t fit = gpu->l2_bytes / 2 / att_max(1, bytes);
    const int64_t busy = att_ceil_div(slots, att_max(1, att_min(CHAIN, key_tiles)));
    return att_max(1, att_min(pairs, att_max(fit, busy)));
}

static att_status cut_blocks(void *out, size_t *workspace, const att_context *ctx,
                             const att_kernel_row *row, const void *problem) {
    const att_problem *p = problem;
    const att_cuda_kernel *k = row->cuda;
    att_backward_tiling *t = out;
    *t = (att_backward_tiling){.main = NULL};
    att_backward_params_of(&t->params, p);
    att_cuda_source source = ctx->source;
    if (k->defines) { /* a user's row is always compiled here */
        source.defines = k->defines;
        source.jit_only = 1;
    }
    ATT_TRY(att_cuda_function_load(&t->main, ctx->gpu, k, &source));
    ATT_TRY(att_backward_steps_cut(t, workspace, ctx, p,
                                   &(att_backward_cut){.tile_rows = k->tile_m,
                                                       .tile_keys = k->tile_n,
                                                       .columns = k->d_qk,
                                                       .turn_count = k->warps,
                                                       .alibi_parts = k->warps}));
    int64_t blocks;
    ATT_REQUIRE(
        att_mul(p->batch * p->heads_kv, t->params.key_tiles, &blocks) && blocks <= INT32_MAX,
        ATT_E_UNSUPPORTED, "batch", "%s would need more than 2^31 blocks", k->id);
    t->main_shape = (att_cuda_shape){.grid = {(uint32_t)blocks, 1, 1},
                                     .threads = att_cuda_kernel_threads(k),
                                     .shared = att_cuda_kernel_shared(k)};
    const int64_t slots = (int64_t)ctx->limits.gpu->sms *
                          att_cuda_blocks_per_sm(
                              ctx->limits.gpu, att_cuda_function_code(t->main), &t->main_shape);
    t->params.section =
        (int)att_backward_section(ctx->limits.gpu, p, slots, t->params.key_tiles);
    return att_cuda_function_allow(t->main, t->main_shape.shared);
}

static att_status run_blocks(const att_plan *plan, const void *args, void *workspace,
                             void *stream) {
    const att_backward_tiling *t = plan->state;
    const att_args *a = args;
    att_bwd_params params;
    att_backward_point(&params, t, a, workspace);
    if (a->launch)
        att_cuda_launch_record(a->launch, t->main, &t->main_shape);
    ATT_TRY(att_backward_launch_ahead(t, &params, stream));
    if (t->main_shape.grid[0])
        ATT_TRY(att_cuda_launch(t->main, &t->main_shape, &params, sizeof params, stream));
    return att_backward_launch_behind(t, &params, stream);
}

static void describe(const att_plan *plan, char *text, size_t n) {
    const att_backward_tiling *t = plan->state;
    const att_cuda_shape *s = &t->main_shape;
    snprintf(text, n,
             "grid %u x 1 x 1, %u threads and %u bytes per block, workspace %zu bytes; after %s"
             "%s%s%s%s",
             s->grid[0], s->threads, s->shared, plan->workspace, t->delta->name,
             t->bias ? ", before " : "", t->bias ? t->bias->name : "",
             t->sums ? ", before " : "", t->sums ? t->sums->name : "");
}

/* What the kernel's own assertions require for any head dimensions. */
static bool tile_fits(const int tile[4], char *why, size_t n) {
    const int rows = tile[0], keys = tile[1], stages = tile[2], warps = tile[3];
    if (rows != 16 && rows != 32 && rows != 64)
        return snprintf(why, n, "m%d: expected 16, 32 or 64 rows", rows) < 0;
    if (stages != 1 && stages != 2)
        return snprintf(why, n, "%d stages: expected 1 or 2", stages) < 0;
    if (warps != 2 && warps != 4 && warps != 8)
        return snprintf(why, n, "%d warps: expected 2, 4 or 8", warps) < 0;
    if (keys < 16 || keys > 256 || keys % 16 || (keys % (16 * warps) && keys != 8 * warps))
        return snprintf(why, n, "n%d is not a multiple of 16 keys for each of %d warps, or 8",
                        keys, warps) < 0;
    return true;
}

#define FAMILY                                                                                 \
    .operation = &att_operation_backward, .state_bytes = sizeof(att_backward_tiling),          \
    .describe = describe

/* One block per tile of keys. */
const att_family att_family_bwd_sm80 = {FAMILY, .serves = serves_blocks, .cut = cut_blocks,
                                        .run = run_blocks, .tile_fits = tile_fits};

/* Its steps; no problem selects them. Each is launched in the runs that need it, by the row for
 * the problem. */
static bool steps_in_all(const att_kernel_row *step, const att_kernel_row *row,
                         const void *problem) {
    return row->cuda && row->family->operation == &att_operation_backward &&
           att_backward_step_of(step->family, problem, true) == step->cuda;
}

static bool steps_in_where_summed(const att_kernel_row *step, const att_kernel_row *row,
                                  const void *problem) {
    const att_problem *p = problem;
    return steps_in_all(step, row, p) && p->gradients & (ATT_D_SINKS | ATT_D_ALIBI);
}

static bool steps_in_where_biased(const att_kernel_row *step, const att_kernel_row *row,
                                  const void *problem) {
    const att_problem *p = problem;
    return steps_in_all(step, row, p) && p->gradients & ATT_D_BIAS;
}

const att_family att_family_bwd_delta = {FAMILY, .serves = serves_nothing,
                                         .steps_in = steps_in_all};
const att_family att_family_bwd_sums = {FAMILY, .serves = serves_nothing,
                                        .steps_in = steps_in_where_summed};
const att_family att_family_bwd_bias = {FAMILY, .serves = serves_nothing,
                                        .steps_in = steps_in_where_biased};
