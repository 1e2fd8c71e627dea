/* moe_cuda_cut.c: how a layer of experts is cut into blocks, and its workspace. */
#include "base/checked.h"
#include "base/error.h"
#include "cuda/shape.h"
#include "cuda/workspace_parts.h"
#include "moe/cuda/moe_cuda.h"
#include "moe/cuda/moe_gpu_params.h"
#include "moe/moe.h"

enum {
    ROUTE_SHARED_MOST = 96 * 1024, /* per block; available on every GPU with code */
    ROUTE_ALONE = 32,              /* tokens that one block routes faster than two launches */
    HISTOGRAMS_MOST = 1 << 16,     /* numbers that every block of moe_route adds up */
    COMBINE_COLUMNS = 8,           /* per thread */
    ITEMS_MOST = INT32_MAX - 65535 /* persistent blocks and warps count past the last item */
};

/* Words of the table of tiles of `slots` slots: their number; expert, count and slots of each. */
#define TABLE_WORDS(m, slots) (1 + (slots) * (2 + (int64_t)(m)->tile_rows))

static att_status load(const att_cuda_function **out, att_cuda_shape *shape,
                       const att_context *ctx, const att_cuda_kernel *kernel, uint32_t shared) {
    *shape = (att_cuda_shape){.grid = {0, 1, 1},
                              .threads = att_cuda_kernel_threads(kernel),
                              .shared = shared,
                              .overlap = true};
    ATT_TRY(att_cuda_function_load(out, ctx->gpu, kernel, &ctx->source));
    return att_cuda_function_allow(*out, shared);
}

/* One block per SM, or a single one if that is faster. */
static att_status cut_route(att_moe_gpu *s, const att_context *ctx, const att_moe_problem *p,
                            const att_cuda_kernel *kernel) {
    const int64_t room = p->experts + 2 * (p->groups + p->experts_per_token),
                  totals = 4 * (p->experts + 1);
    const int64_t word = (int64_t)sizeof(int);
    const int64_t warps =
        att_max(1, att_min(kernel->warps, (ROUTE_SHARED_MOST / word - totals) / room));
    int64_t blocks = 1;
    if (p->tokens > ROUTE_ALONE)
        blocks = att_min(att_min(ctx->limits.gpu->sms, att_ceil_div(p->tokens, warps)),
                         att_max(1, HISTOGRAMS_MOST / (p->experts + 1)));
    s->params.route_warps = (int)warps;
    s->params.route_tokens = (int)att_max(1, att_ceil_div(p->tokens, blocks));
    s->params.route_blocks = (int)att_max(1, att_ceil_div(p->tokens, s->params.route_tokens));
    ATT_TRY(load(&s->route, &s->route_shape, ctx, kernel,
                 (uint32_t)((warps * room + totals) * word)));
    s->route_shape.grid[0] = (uint32_t)s->params.route_blocks;
    return ATT_OK;
}

static bool place_all(att_moe_gpu *s, size_t *workspace, int64_t slots, int64_t tiles) {
    const att_moe_params *m = &s->params;
    const int64_t word = (int64_t)sizeof(int), experts = s->few ? 0 : m->local_experts + 1;
    const int64_t sorted = s->few ? 0 : slots, table = s->few ? TABLE_WORDS(m, slots) : 0;
    int64_t h, parts;
    *workspace = 0;
    return att_mul(slots, m->h_pitch, &h) && att_mul(sorted, m->part_pitch, &parts) &&
           att_cuda_place(&s->at.slot_ids, workspace, slots, word) &&
           att_cuda_place(&s->at.slot_weights, workspace, slots, (int64_t)sizeof(float)) &&
           att_cuda_place(&s->at.histograms, workspace,
                          m->route_blocks * (int64_t)(m->experts + 1), word) &&
           att_cuda_place(&s->at.starts, workspace, experts, word) &&
           att_cuda_place(&s->at.tile_starts, workspace, experts, word) &&
           att_cuda_place(&s->at.tile_experts, workspace, s->few ? 0 : tiles + 1, word) &&
           att_cuda_place(&s->at.slot_at, workspace, sorted, word) &&
           att_cuda_place(&s->at.counters, workspace, s->few ? 0 : 2, word) &&
           att_cuda_place(&s->at.few_table, workspace, table, word) &&
           att_cuda_place(&s->at.h, workspace, h, (int64_t)sizeof(uint16_t)) &&
           att_cuda_place(
               &s->at.parts, workspace, parts,
               (int64_t)(m->flags & ATT_MOE_PARTS_16 ? sizeof(uint16_t) : sizeof(float)));
}

static att_status encode_maps(att_moe_gpu *s, const att_context *ctx, const att_moe_problem *p,
                              const att_cuda_kernel *up, const att_cuda_kernel *down) {
    ATT_TRY(att_cuda_device_enter(ctx->gpu));
    const att_status status =
        att_moe_maps_encode(&s->maps, att_cuda_device_driver(ctx->gpu), p, up, down);
    att_cuda_device_leave(ctx->gpu);
    return status;
}

/* One block per item; on Hopper persistent blocks, as many as the GPU holds. */
static uint32_t blocks_of(const att_moe_gpu *s, const att_cuda_limits *gpu, int64_t items,
                          uint32_t shared) {
    const int64_t held =
        gpu->sms * att_min(2, gpu->shared_per_sm / ((int64_t)shared + gpu->shared_reserved));
    return (uint32_t)(s->by_maps ? att_min(items, held) : items);
}

/* What a token needs in shared memory, in words, to be routed by all warps of the block
 * (kernels/moe_route_block.cuh): values and keys, lists of 16-byte vectors, groups; or by one:
 * scores and groups. */
static int64_t few_words(const att_moe_problem *p, const att_cuda_kernel *kernel) {
    const int64_t warp = 32, quad = 4, lists = att_ceil_div(p->experts, warp),
                  list = att_round_up(p->experts_per_token, quad);
    const bool together = p->experts <= warp * kernel->warps && p->experts_per_token <= warp;
    return att_round_up(2 * p->groups + (together ? lists * 2 * (warp + list) : p->experts),
                        quad);
}

/* Few tokens: persistent warps, and one block that multiplies nothing; then blocks with equal
 * shares of the columns of y. Both have the same shared memory: blocks of the second take the
 * places of the first, and an SM that divides its memory again must be empty. */
static att_status cut_few(att_moe_gpu *s, const att_context *ctx, const att_moe_problem *p,
                          const att_cuda_kernel *up, const att_cuda_kernel *down) {
    att_moe_params *m = &s->params;
    const int64_t slots = p->tokens * p->experts_per_token, word = (int64_t)sizeof(int);
    const int64_t held = (int64_t)ctx->limits.gpu->sms * (ATT_MOE_FEW_WARPS / up->warps);
    const int64_t blocks =
        att_max(att_ceil_div(m->down_steps, ATT_MOE_FEW_STEPS), att_min(held, m->down_steps));
    const int64_t room = few_words(p, up),
                  rest = 2 * slots + p->experts + 1 + TABLE_WORDS(m, slots);
    const int64_t warps = att_max(
        1, att_min(att_min(up->warps, p->tokens), (ROUTE_SHARED_MOST / word - rest) / room));
    const int64_t shared =
        att_max((warps * room + rest) * word,
                slots * (att_ceil_div(m->down_steps, blocks) + 1) * 2 * word);
    m->route_warps = (int)warps;
    m->few_words = (int)room;
    m->few_blocks = (int)blocks;
    ATT_TRY(load(&s->up, &s->up_shape, ctx, up, (uint32_t)shared));
    ATT_TRY(load(&s->down, &s->down_shape, ctx, down, (uint32_t)shared));
    s->up_shape.grid[0] =
        (uint32_t)(1 + att_min(att_ceil_div(slots * m->up_steps, up->warps), held - 1));
    s->down_shape.grid[0] = p->tokens ? (uint32_t)blocks : 0;
    return ATT_OK;
}

static att_status cut_many(att_moe_gpu *s, const att_context *ctx, const att_kernel_row *row,
                           const att_moe_problem *p, const att_cuda_kernel *down,
                           int64_t tiles) {
    const bool any = ctx->limits.allow_unattested;
    const att_cuda_kernel *route = att_moe_step_of(&att_family_moe_route, row, any),
                          *combine = att_moe_step_of(&att_family_moe_combine, row, any);
    const att_cuda_limits *gpu = ctx->limits.gpu;
    const int64_t combine_steps =
        att_ceil_div(p->hidden, COMBINE_COLUMNS * (int64_t)att_cuda_kernel_threads(combine));
    int64_t most;
    ATT_REQUIRE(att_mul(p->tokens, combine_steps, &most) && most <= ITEMS_MOST,
                ATT_E_UNSUPPORTED, "tokens", "%s would need more than 2^31 blocks",
                row->cuda->id);
    if (s->by_maps)
        ATT_TRY(encode_maps(s, ctx, p, row->cuda, down));
    ATT_TRY(cut_route(s, ctx, p, route));
    ATT_TRY(load(&s->up, &s->up_shape, ctx, row->cuda, att_cuda_kernel_shared(row->cuda)));
    ATT_TRY(load(&s->down, &s->down_shape, ctx, down, att_cuda_kernel_shared(down)));
    ATT_TRY(load(&s->combine, &s->combine_shape, ctx, combine, 0));
    s->up_shape.grid[0] = blocks_of(s, gpu, tiles * s->params.up_steps, s->up_shape.shared);
    s->down_shape.grid[0] =
        blocks_of(s, gpu, tiles * s->params.down_steps, s->down_shape.shared);
    s->combine_shape.grid[0] = (uint32_t)most;
    return ATT_OK;
}

att_status att_moe_gpu_cut(void *out, size_t *workspace, const att_context *ctx,
                           const att_kernel_row *row, const void *problem) {
    const att_moe_problem *p = problem;
    const att_cuda_kernel *k = row->cuda;
    const att_cuda_kernel *down =
        att_moe_step_of(att_moe_down_family(row), row, ctx->limits.allow_unattested);
    att_moe_gpu *s = out;
    att_moe_params *m = &s->params;
    att_moe_params_of(m, p);
    s->few = att_moe_is_few(row);
    s->by_maps = att_moe_is_hopper(row);
    if (s->by_maps && p->dtype_y == p->dtype)
        m->flags |= ATT_MOE_PARTS_16;
    const int64_t slots = p->tokens * p->experts_per_token;
    const int64_t tiles = s->few ? slots : att_moe_tiles_most(k, p);
    m->tile_rows = k->tile_m;
    m->up_columns = att_moe_is_gated(p) ? k->tile_n : 2 * k->tile_n;
    const int64_t up_steps = att_ceil_div(p->inner, m->up_columns),
                  down_steps = att_ceil_div(p->hidden, down->tile_n);
    m->up_steps = (int)up_steps;
    m->down_steps = (int)down_steps;
    int64_t most;
    ATT_REQUIRE(att_mul(tiles, att_max(up_steps, down_steps), &most) && most <= ITEMS_MOST,
                ATT_E_UNSUPPORTED, "tokens", "%s would need more than 2^31 blocks", k->id);
    if (s->few)
        ATT_TRY(cut_few(s, ctx, p, k, down));
    else
        ATT_TRY(cut_many(s, ctx, row, p, down, tiles));
    ATT_REQUIRE(place_all(s, workspace, slots, tiles), ATT_E_UNSUPPORTED, "tokens",
                "the workspace would need more than 2^61 bytes");
    return ATT_OK;
}
