/* bwd_hopper.c: planning and launching bwd_sm90 and bwd_sm90_wide. A run is bwd_delta, one of
 * these, the kernel that finishes its results, and bwd_sums if sinks have gradients. */
#include "backward/cuda/bwd_hopper.h"

#include "attention/cuda/band.h"
#include "backward/cuda/backward_params.h"
#include "backward/cuda/bwd_hopper_tensors.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "cuda/function.h"
#include "cuda/shape.h"
#include "cuda/tensor_maps.h"

enum {
    FINISH_BLOCKS = 4, /* per SM: they take tile after tile, and mostly find nothing to do */
    NOTED_KEYS = 16,   /* bwd_sm90_work.cuh: keys that share a flag */
    PANEL = 64,        /* columns per copy: the 128 bytes that are swizzled */
    /* The number of steps by which a key tile should be ahead of the next one of its unit when
     * that starts, and the minimum of key tiles of a unit in progress at once. With fewer
     * steps, tiles wait for each other at the sums of dQ. With more, or with fewer tiles, the
     * data that the next one reads again has left L2. If masks shorten the walk, later tiles
     * catch up with earlier ones. */
    STEPS_AHEAD = 4,
    STEPS_AHEAD_SHORTENED = 16,
    TILES_AT_ONCE = 4
};

const att_cuda_kernel *att_backward_hopper_finish(const att_kernel_row *row,
                                                  bool allow_unattested) {
    const att_cuda_kernel *kernel = row->cuda;
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *finish = att_registry_row(i);
        if (att_backward_hopper_finishes(finish, row) &&
            finish->cuda->d_qk == att_round_up(kernel->d_qk, PANEL) &&
            finish->cuda->tile_m == kernel->tile_m && finish->cuda->tile_n == kernel->tile_n &&
            (!finish->unattested || allow_unattested))
            return finish->cuda;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------- cutting */

static int64_t units_of(const att_problem *p) {
    return p->batch * p->heads_kv;
}

/* Row blocks that the first key tile of a unit walks, approximately. */
static int64_t steps_of(const att_cuda_kernel *kernel, const att_problem *p) {
    const int64_t left = p->window_left,
                  right = p->causal != ATT_CAUSAL_NONE ? 0 : p->window_right;
    int64_t rows = p->seq_q;
    if (left >= 0 && right >= 0)
        rows = att_min(rows, att_min(left, rows) + att_min(right, rows) + kernel->tile_n);
    return p->heads_q / p->heads_kv * att_max(1, att_ceil_div(rows, kernel->tile_m));
}

static bool is_shortened(const att_problem *p) {
    return att_cuda_band_hides(p);
}

int64_t att_backward_hopper_section(const att_cuda_kernel *kernel, const att_problem *p,
                                    int sms) {
    const int64_t units = att_max(1, units_of(p));
    const int64_t ahead = is_shortened(p) ? STEPS_AHEAD_SHORTENED : STEPS_AHEAD;
    const int64_t most = att_min(att_ceil_div(ahead * sms, steps_of(kernel, p)),
                                 att_ceil_div(sms, TILES_AT_ONCE));
    return att_ceil_div(units, att_ceil_div(units, most)); /* nearly equal sizes */
}

int att_backward_hopper_sets(const att_cuda_kernel *kernel, const att_problem *p, int sms) {
    const int64_t tiles = att_ceil_div(p->seq_k, kernel->tile_n), units = units_of(p);
    /* If all items start at once, every key tile waits for all before it. */
    if (tiles <= 1 || units * tiles > (int64_t)sms)
        return 1;
    return (int)att_min(ATT_BWD_SETS_MOST, tiles);
}

/* --------------------------------------------------------------------------- tensor maps */

static att_tensor_walk walk_of(const att_cuda_tensor *t, int rows) {
    const att_strides *s = t->strides;
    return (att_tensor_walk){.rank = 4,
                             .axis = {{t->cols, 1, PANEL},
                                      {att_min(t->rows, INT32_MAX), s->row, rows},
                                      {t->heads, s->head, 1},
                                      {att_min(t->batch, INT32_MAX), s->batch, 1}}};
}

static att_status encode_maps(att_bwd_sm90_params *h, const att_cuda_driver *cu,
                              const att_cuda_kernel *kernel, const att_problem *p) {
    att_cuda_tensor tensors[ATT_BWD_TENSORS];
    att_backward_tensors(tensors, p);
    const struct {
        att_tensor_map *map;
        int tensor, rows;
    } maps[] = {
        {&h->q, ATT_BWD_TENSOR_Q, kernel->tile_m},
        {&h->d_o, ATT_BWD_TENSOR_D_O, kernel->tile_m},
        {&h->k, ATT_BWD_TENSOR_K, kernel->tile_n},
        {&h->v, ATT_BWD_TENSOR_V, kernel->tile_n},
        {&h->d_k, ATT_BWD_TENSOR_D_K, kernel->tile_n},
        {&h->d_v, ATT_BWD_TENSOR_D_V, kernel->tile_n},
    };
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++) {
        const att_cuda_tensor *t = &tensors[maps[i].tensor];
        if (t->element != att_dtype_size(p->dtype))
            continue; /* the copy engine does not store float32 gradients */
        const att_tensor_walk walk = walk_of(t, maps[i].rows);
        ATT_TRY(att_cuda_tensor_map_encode(maps[i].map, cu, p->dtype, &walk, kernel->id));
    }
    return ATT_OK;
}

/* ------------------------------------------------------------------------------ planning */

static att_status load(const att_cuda_function **out, att_cuda_shape *shape,
                       const att_context *ctx, const att_cuda_kernel *kernel, int64_t blocks) {
    att_cuda_source source = ctx->source;
    if (kernel->defines) {
        source.defines = kernel->defines;
        source.jit_only = 1;
    }
    ATT_TRY(att_cuda_function_load(out, ctx->gpu, kernel, &source));
    *shape = (att_cuda_shape){.grid = {(uint32_t)blocks, 1, 1},
                              .threads = att_cuda_kernel_threads(kernel),
                              .shared = att_cuda_kernel_shared(kernel),
                              .overlap = true};
    return att_cuda_function_allow(*out, shape->shared);
}

att_status att_backward_hopper_cut(void *state, size_t *workspace, const att_context *ctx,
                                   const att_kernel_row *row, const void *problem) {
    att_backward_hopper *s = state;
    const att_problem *p = problem;
    const att_cuda_kernel *kernel = row->cuda;
    const int sms = ctx->limits.gpu->sms, sets = att_backward_hopper_sets(kernel, p, sms);
    *s = (att_backward_hopper){.finish = NULL};
    att_bwd_params *b = &s->tiling.params;
    att_backward_params_of(b, p);
    ATT_TRY(att_backward_steps_cut(
        &s->tiling, workspace, ctx, p,
        &(att_backward_cut){.tile_rows = kernel->tile_m,
                            .tile_keys = kernel->tile_n,
                            .columns = (int)att_round_up(kernel->d_qk, PANEL) * sets,
                            .turn_count = sets,
                            .alibi_parts = kernel->tile_n / NOTED_KEYS}));
    b->section = (int)att_backward_hopper_section(kernel, p, sms);
    s->params.units = (int)units_of(p);
    s->params.items = s->params.units * b->key_tiles;
    s->params.finishes_inside = s->params.items > sms; /* else no block has spare time */
    ATT_TRY(load(&s->tiling.main, &s->tiling.main_shape, ctx, kernel,
                 att_min(s->params.items, sms)));
    const att_cuda_kernel *finish =
        att_backward_hopper_finish(row, ctx->limits.allow_unattested);
    ATT_REQUIRE(finish, ATT_E_UNSUPPORTED, "flags",
                "%s needs a kernel that makes dQ of its sums", kernel->id);
    const int64_t row_tiles = p->seq_q > 0 ? p->batch * p->heads_q * b->row_tiles : 0;
    ATT_TRY(load(&s->finish, &s->finish_shape, ctx, finish,
                 att_min(row_tiles, (int64_t)FINISH_BLOCKS * sms)));
    if (s->params.items == 0)
        return ATT_OK;
    ATT_TRY(att_cuda_device_enter(ctx->gpu));
    const att_status status =
        encode_maps(&s->params, att_cuda_device_driver(ctx->gpu), kernel, p);
    att_cuda_device_leave(ctx->gpu);
    return status;
}

void att_backward_hopper_describe(const att_plan *plan, char *text, size_t n) {
    const att_backward_hopper *s = plan->state;
    const att_cuda_shape *shape = &s->tiling.main_shape;
    const att_bwd_params *b = &s->tiling.params;
    snprintf(text, n,
             "grid %u x 1 x 1, %u threads and %u bytes per block, %d tiles of keys of %d heads "
             "in turn, "
             "dQ in %d sum%s, after %s, before %s, workspace %zu bytes",
             shape->grid[0], shape->threads, shape->shared, s->params.items, b->section,
             b->turn_count, b->turn_count == 1 ? "" : "s", s->tiling.delta->name,
             s->finish->name, plan->workspace);
}

/* ------------------------------------------------------------------------------- running */

static att_status point_maps(att_bwd_sm90_params *h, const att_args *a, bool stores,
                             const att_cuda_function *f) {
    const struct {
        att_tensor_map *map;
        const void *address;
        bool used;
    } maps[] = {{&h->q, a->q, true}, {&h->d_o, a->d_o, true},   {&h->k, a->k, true},
                {&h->v, a->v, true}, {&h->d_k, a->d_k, stores}, {&h->d_v, a->d_v, stores}};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        if (maps[i].used)
            ATT_TRY(att_cuda_tensor_map_point(maps[i].map, f->cu, maps[i].address, f->name));
    return ATT_OK;
}

static att_status launch(const att_backward_hopper *s, att_bwd_sm90_params *h,
                         const att_args *a, bool stores, void *stream) {
    const att_backward_tiling *t = &s->tiling;
    ATT_TRY(att_backward_launch_ahead(t, &h->bwd, stream));
    if (t->main_shape.grid[0]) {
        ATT_TRY(point_maps(h, a, stores, t->main));
        ATT_TRY(att_cuda_launch(t->main, &t->main_shape, h, sizeof *h, stream));
    }
    if (s->finish_shape.grid[0])
        ATT_TRY(att_cuda_launch(s->finish, &s->finish_shape, &h->bwd, sizeof h->bwd, stream));
    return att_backward_launch_behind(t, &h->bwd, stream);
}

att_status att_backward_hopper_run(const att_plan *plan, const void *args, void *workspace,
                                   void *stream) {
    const att_backward_hopper *s = plan->state;
    const att_backward_tiling *t = &s->tiling;
    const att_problem *p = plan->problem;
    const att_args *a = args;
    if (a->launch)
        att_cuda_launch_record(a->launch, t->main, &t->main_shape);
    att_bwd_sm90_params h = s->params;
    att_backward_point(&h.bwd, t, a, workspace);
    bool entered; /* tensor maps refer to addresses of the current context */
    ATT_TRY(att_cuda_device_enter_once(t->main->device, &entered));
    const att_status status = launch(s, &h, a, p->dtype_grad == p->dtype, stream);
    if (entered)
        att_cuda_device_leave(t->main->device);
    return status;
}
