/* backward_steps.c: planning and launching the additional kernels of a backward run. */
#include "backward/cuda/backward_steps.h"

#include "backward/cuda/backward_params.h"
#include "base/checked.h"
#include "base/error.h"
#include "cuda/shape.h"
#include "cuda/workspace_parts.h"

const att_cuda_kernel *att_backward_step_of(const att_family *family, const att_problem *p,
                                            bool allow_unattested) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const att_cuda_kernel *k = row->cuda;
        if (row->family == family && (!k->dtype || k->dtype == p->dtype) && p->d_v <= k->d_v &&
            (family != &att_family_bwd_bias || p->d_qk <= k->d_qk) &&
            (!row->unattested || allow_unattested))
            return k;
    }
    return NULL;
}

/* Load a step and set its shape, except for the blocks. */
static att_status load_step(const att_cuda_function **out, att_cuda_shape *shape,
                            const att_context *ctx, const att_family *family,
                            const att_problem *p, const char *what) {
    const att_cuda_kernel *kernel =
        att_backward_step_of(family, p, ctx->limits.allow_unattested);
    ATT_REQUIRE(kernel, ATT_E_UNSUPPORTED, "flags", "backward needs a kernel that %s", what);
    *shape = (att_cuda_shape){.grid = {0, 1, 1},
                              .threads = att_cuda_kernel_threads(kernel),
                              .shared = att_cuda_kernel_shared(kernel)};
    ATT_TRY(att_cuda_function_load(out, ctx->gpu, kernel, &ctx->source));
    return att_cuda_function_allow(*out, shape->shared);
}

static bool place_all(att_backward_tiling *t, size_t *workspace, const att_backward_cut *cut) {
    const att_bwd_params *b = &t->params;
    const int64_t heads = b->fwd.heads_q;
    int64_t tiles, rows, numbers, pairs;
    if (!att_mul(heads, b->tiles, &tiles) || !att_mul(tiles, b->tile_rows, &rows) ||
        !att_mul(rows, cut->columns, &numbers) || !att_mul(heads, b->fwd.batch, &pairs) ||
        tiles > (int64_t)(UINT32_MAX - 1) / att_max(1, cut->turn_count))
        return false;
    att_backward_places *at = &t->places;
    *workspace = 0;
    return att_cuda_place(&at->terms, workspace, rows, ATT_BWD_TERMS * sizeof(float)) &&
           att_cuda_place(&at->d_q_sums, workspace, numbers, sizeof(float)) &&
           att_cuda_place(&at->turns, workspace, tiles * cut->turn_count, sizeof(unsigned)) &&
           att_cuda_place(&at->next_work, workspace, ATT_BWD_COUNTERS, sizeof(unsigned)) &&
           att_cuda_place(&at->sink_sums, workspace, t->delta_shape.grid[0], sizeof(float)) &&
           att_cuda_place(&at->alibi_sums, workspace, pairs * b->key_tiles,
                          (int64_t)sizeof(float) * cut->alibi_parts);
}

/* One block per tile of d_bias. */
static att_status cut_bias(att_backward_tiling *t, const att_context *ctx,
                           const att_problem *p) {
    t->bias = NULL;
    if (!(p->gradients & ATT_D_BIAS) || !p->batch || !p->seq_q || !p->seq_k)
        return ATT_OK;
    const att_cuda_kernel *k =
        att_backward_step_of(&att_family_bwd_bias, p, ctx->limits.allow_unattested);
    ATT_TRY(load_step(&t->bias, &t->bias_shape, ctx, &att_family_bwd_bias, p,
                      "sums up the gradient of a bias"));
    const att_strides *s = &p->grad_bias;
    const int64_t parts[] = {s->batch ? p->batch : 1, s->head ? p->heads_q : 1,
                             s->row ? att_ceil_div(p->seq_q, k->tile_m) : 1,
                             s->col ? att_ceil_div(p->seq_k, k->tile_n) : 1};
    int64_t blocks = 1;
    for (int i = 0; i < 4; i++)
        if (!att_mul(blocks, parts[i], &blocks))
            blocks = INT64_MAX;
    ATT_REQUIRE(blocks <= INT32_MAX, ATT_E_UNSUPPORTED, "grad_bias",
                "%s would need more than 2^31 blocks", k->id);
    t->bias_shape.grid[0] = (uint32_t)blocks;
    return ATT_OK;
}

att_status att_backward_steps_cut(att_backward_tiling *t, size_t *workspace,
                                  const att_context *ctx, const att_problem *p,
                                  const att_backward_cut *cut) {
    const bool packed = p->features & ATT_CU_SEQLENS_Q;
    const att_cuda_kernel *delta =
        att_backward_step_of(&att_family_bwd_delta, p, ctx->limits.allow_unattested);
    const int64_t row_tiles = att_max(1, att_ceil_div(p->seq_q, cut->tile_rows));
    const int64_t row_blocks =
        delta ? att_ceil_div(row_tiles * cut->tile_rows, delta->tile_m) : 1;
    const int64_t tiles =
        packed ? p->total_q / cut->tile_rows + p->batch : p->batch * row_tiles;
    const int64_t heads = p->batch * p->heads_q;
    ATT_REQUIRE(
        tiles <= INT32_MAX && heads <= INT32_MAX / row_tiles && heads <= INT32_MAX / row_blocks,
        ATT_E_UNSUPPORTED, "batch", "more than 2^31 tiles of %d rows", cut->tile_rows);
    t->params.tile_rows = cut->tile_rows;
    t->params.tiles = (int)tiles;
    t->params.row_tiles = (int)row_tiles;
    t->params.row_blocks = (int)row_blocks;
    t->params.key_tiles = (int)att_ceil_div(p->seq_k, cut->tile_keys);
    t->params.turn_count = cut->turn_count;
    t->params.alibi_parts = cut->alibi_parts;
    ATT_TRY(load_step(&t->delta, &t->delta_shape, ctx, &att_family_bwd_delta, p,
                      "sums up O and dO"));
    t->delta_shape.grid[0] = (uint32_t)(heads * row_blocks);
    t->delta_shape.overlap = true;
    const int64_t sinks = p->gradients & ATT_D_SINKS ? p->heads_q : 0;
    const int64_t slopes =
        p->gradients & ATT_D_ALIBI ? p->heads_q * (p->alibi_stride_batch ? p->batch : 1) : 0;
    t->sums = NULL;
    if (sinks + slopes > 0) {
        ATT_TRY(load_step(&t->sums, &t->sums_shape, ctx, &att_family_bwd_sums, p,
                          "sums up sinks and slopes"));
        t->sums_shape.grid[0] = (uint32_t)(sinks + slopes);
    }
    ATT_TRY(cut_bias(t, ctx, p));
    ATT_REQUIRE(place_all(t, workspace, cut), ATT_E_UNSUPPORTED, "seq_q",
                "the workspace would need more than 2^61 bytes");
    return ATT_OK;
}

void att_backward_point(att_bwd_params *params, const att_backward_tiling *t,
                        const att_args *args, void *workspace) {
    char *at = workspace;
    const att_backward_places *places = &t->places;
    *params = t->params;
    att_backward_params_point(params, args);
    params->terms = (float *)(void *)(at + places->terms);
    params->d_q_sums = (float *)(void *)(at + places->d_q_sums);
    params->turns = (unsigned *)(void *)(at + places->turns);
    params->next_work = (unsigned *)(void *)(at + places->next_work);
    params->sink_sums = (float *)(void *)(at + places->sink_sums);
    params->alibi_sums = (float *)(void *)(at + places->alibi_sums);
}

att_status att_backward_launch_ahead(const att_backward_tiling *t, const att_bwd_params *params,
                                     void *stream) {
    return t->delta_shape.grid[0]
               ? att_cuda_launch(t->delta, &t->delta_shape, params, sizeof *params, stream)
               : ATT_OK;
}

att_status att_backward_launch_behind(const att_backward_tiling *t,
                                      const att_bwd_params *params, void *stream) {
    if (t->bias)
        ATT_TRY(att_cuda_launch(t->bias, &t->bias_shape, params, sizeof *params, stream));
    return t->sums ? att_cuda_launch(t->sums, &t->sums_shape, params, sizeof *params, stream)
                   : ATT_OK;
}
