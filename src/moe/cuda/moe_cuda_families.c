/* moe_cuda_families.c: a layer of experts on a GPU: moe_route, then moe_sm80, moe_sm80_down and moe_combine. */
#include <math.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"
#include "core/plan.h"
#include "core/registry.h"
#include "cuda/function.h"
#include "cuda/launch.h"
#include "cuda/shape.h"
#include "moe/cuda/moe_gpu_params.h"
#include "moe/moe.h"

extern const att_family att_family_moe_route, att_family_moe_sm80_down, att_family_moe_combine;

enum {
    WORKSPACE_UNIT = 256,
    ROUTE_SHARED_MOST = 96 * 1024, /* every GPU with code has as much for a block */
    ROUTE_ALONE = 32,          /* tokens that one block routes sooner than two launches would */
    HISTOGRAMS_MOST = 1 << 16, /* numbers that every block of moe_route adds up */
    COMBINE_COLUMNS = 4        /* of a thread */
};

/* Where the parts of the workspace begin. */
typedef struct places {
    size_t slot_ids, slot_weights, histograms, starts, tile_starts, tile_experts, slot_at, h,
        parts;
} places;

typedef struct state {
    const att_cuda_function *route, *up, *down, *combine;
    att_cuda_shape route_shape, up_shape, down_shape, combine_shape;
    att_moe_params params; /* all but the pointers */
    places at;
} state;

/* ---------------------------------------------------------------- which row */

/* The first row of `family` that works with `main` and that a context may use, or NULL. */
static const att_cuda_kernel *step_of(const att_family *family, const att_cuda_kernel *main,
                                      bool allow_unattested) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        const att_cuda_kernel *k = row->cuda;
        if (row->family == family && (!k->dtype || k->dtype == main->dtype) &&
            (family != &att_family_moe_sm80_down || k->tile_m == main->tile_m) &&
            (!row->unattested || allow_unattested))
            return k;
    }
    return NULL;
}

static const att_family *const steps[] = {&att_family_moe_route, &att_family_moe_sm80_down,
                                          &att_family_moe_combine};

static bool serves(const att_kernel_row *row, const att_limits *limits, const void *problem,
                   att_refusal *refusal) {
    /* Kernels count rows and columns in 32 bits, and add a tile to them. */
    const int64_t most = INT32_MAX - 65535;
    const att_moe_problem *p = problem;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        ATT_CONDITION(step_of(steps[i], row->cuda, limits->allow_unattested), "flags",
                      "a kernel that it needs has no evidence");
    ATT_CONDITION(row->cuda->dtype == p->dtype, "dtype", "is for %s, not %s",
                  att_dtype_name(row->cuda->dtype), att_dtype_name(p->dtype));
    ATT_CONDITION(p->hidden <= most, "hidden",
                  "hidden=%lld does not fit the 32 bits that GPU kernels count in",
                  (long long)p->hidden);
    ATT_CONDITION(p->inner <= most / 2, "inner",
                  "inner=%lld does not fit the 32 bits that GPU kernels count in",
                  (long long)p->inner);
    ATT_CONDITION(
        p->tokens <= most / p->experts_per_token, "tokens",
        "tokens x experts_per_token=%lld does not fit the 32 bits that GPU kernels count in",
        (long long)(p->tokens * p->experts_per_token));
    return true;
}

/* Experts that tokens drawn at random reach, of those whose weights are here. */
static double experts_reached(const att_moe_problem *p) {
    const double share = (double)p->experts_per_token / (double)p->experts;
    return (double)p->local_experts * (1.0 - pow(1.0 - share, (double)p->tokens));
}

/* Microseconds of a GPU with rates in proportion to an H200's: weights are read once, by blocks of which the small ones have more loads in
 * flight, and tiles are multiplied whole. */
static double estimate(const att_kernel_row *row, const att_limits *limits,
                       const void *problem) {
    const bool small = row->cuda->role == ATT_ROLE_SMALL;
    const double memory = small ? 4.0e6 : 3.0e6; /* bytes a microsecond */
    const double rate = small ? 1.5e8 : 4.0e8;   /* operations a microsecond */
    const double start = 5.0;
    const att_moe_problem *p = problem;
    (void)limits;
    const double reached = experts_reached(p);
    if (reached <= 0.0)
        return start;
    const double slots = (double)p->tokens * (double)p->experts_per_token *
                         (double)p->local_experts / (double)p->experts;
    const double tiles = reached * ceil(slots / reached / row->cuda->tile_m);
    const double weights =
        (att_moe_is_gated(p) ? 3.0 : 2.0) * (double)p->hidden * (double)p->inner;
    return start + fmax(2.0 * weights * reached / memory,
                        2.0 * weights * tiles * row->cuda->tile_m / rate);
}

/* ------------------------------------------------------------------- cutting */

static att_status load(const att_cuda_function **out, att_cuda_shape *shape,
                       const att_context *ctx, const att_cuda_kernel *kernel, uint32_t shared) {
    *shape = (att_cuda_shape){.grid = {0, 1, 1},
                              .threads = att_cuda_kernel_threads(kernel),
                              .shared = shared,
                              .overlap = true};
    ATT_TRY(att_cuda_function_load(out, ctx->gpu, kernel, &ctx->source));
    return att_cuda_function_allow(*out, shared);
}

/* As many blocks as there are SMs, or one where that is sooner. */
static att_status cut_route(state *s, const att_context *ctx, const att_moe_problem *p,
                            const att_cuda_kernel *kernel) {
    const int64_t room = p->experts + 2 * p->groups, totals = 4 * (p->experts + 1);
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

/* Another `count` elements of `bytes` behind what the workspace has; false where that is too much. */
static bool place(size_t *at, size_t *workspace, int64_t count, int64_t bytes) {
    int64_t size, end;
    if (!att_mul(count, bytes, &size) || size > INT64_MAX / 4 ||
        !att_add((int64_t)*workspace, att_round_up(size, WORKSPACE_UNIT), &end))
        return false;
    *at = *workspace;
    *workspace = (size_t)end;
    return true;
}

static bool place_all(state *s, size_t *workspace, int64_t slots, int64_t tiles) {
    const att_moe_params *m = &s->params;
    const int64_t word = (int64_t)sizeof(int), experts = m->local_experts + 1;
    int64_t h, parts;
    *workspace = 0;
    return att_mul(slots, m->h_pitch, &h) && att_mul(slots, m->part_pitch, &parts) &&
           place(&s->at.slot_ids, workspace, slots, word) &&
           place(&s->at.slot_weights, workspace, slots, (int64_t)sizeof(float)) &&
           place(&s->at.histograms, workspace, m->route_blocks * (int64_t)(m->experts + 1),
                 word) &&
           place(&s->at.starts, workspace, experts, word) &&
           place(&s->at.tile_starts, workspace, experts, word) &&
           place(&s->at.tile_experts, workspace, tiles, word) &&
           place(&s->at.slot_at, workspace, slots, word) &&
           place(&s->at.h, workspace, h, (int64_t)sizeof(uint16_t)) &&
           place(&s->at.parts, workspace, parts, (int64_t)sizeof(float));
}

static att_status cut(void *out, size_t *workspace, const att_context *ctx,
                      const att_kernel_row *row, const void *problem) {
    const att_moe_problem *p = problem;
    const att_cuda_kernel *k = row->cuda;
    const bool any = ctx->limits.allow_unattested;
    const att_cuda_kernel *down = step_of(&att_family_moe_sm80_down, k, any),
                          *combine = step_of(&att_family_moe_combine, k, any);
    state *s = out;
    att_moe_params *m = &s->params;
    att_moe_params_of(m, p);
    const int64_t slots = p->tokens * p->experts_per_token;
    /* Every expert that has slots may leave one tile partly filled. */
    const int64_t tiles = slots / k->tile_m + att_min(slots, p->local_experts);
    m->tile_rows = k->tile_m;
    m->up_columns = att_moe_is_gated(p) ? k->tile_n : 2 * k->tile_n;
    const int64_t up_steps = att_ceil_div(p->inner, m->up_columns),
                  down_steps = att_ceil_div(p->hidden, down->tile_n),
                  combine_steps = att_ceil_div(
                      p->hidden, COMBINE_COLUMNS * (int64_t)att_cuda_kernel_threads(combine));
    m->up_steps = (int)up_steps;
    m->down_steps = (int)down_steps;
    int64_t most;
    ATT_REQUIRE(att_mul(tiles, att_max(up_steps, down_steps), &most) && most <= INT32_MAX &&
                    att_mul(p->tokens, combine_steps, &most) && most <= INT32_MAX,
                ATT_E_UNSUPPORTED, "tokens", "%s would need more than 2^31 blocks", k->id);
    ATT_TRY(cut_route(s, ctx, p, step_of(&att_family_moe_route, k, any)));
    ATT_TRY(load(&s->up, &s->up_shape, ctx, k, att_cuda_kernel_shared(k)));
    ATT_TRY(load(&s->down, &s->down_shape, ctx, down, att_cuda_kernel_shared(down)));
    ATT_TRY(load(&s->combine, &s->combine_shape, ctx, combine, 0));
    s->up_shape.grid[0] = (uint32_t)(tiles * up_steps);
    s->down_shape.grid[0] = (uint32_t)(tiles * down_steps);
    s->combine_shape.grid[0] = (uint32_t)(p->tokens * combine_steps);
    ATT_REQUIRE(place_all(s, workspace, slots, tiles), ATT_E_UNSUPPORTED, "tokens",
                "the workspace would need more than 2^61 bytes");
    return ATT_OK;
}

/* ------------------------------------------------------------------- running */

static void point(att_moe_params *params, const state *s, const att_moe_args *a,
                  void *workspace) {
    char *base = workspace;
    *params = s->params;
    att_moe_params_point(params, a);
    params->slot_ids = (int *)(void *)(base + s->at.slot_ids);
    params->slot_weights = (float *)(void *)(base + s->at.slot_weights);
    params->histograms = (int *)(void *)(base + s->at.histograms);
    params->starts = (int *)(void *)(base + s->at.starts);
    params->tile_starts = (int *)(void *)(base + s->at.tile_starts);
    params->tile_experts = (int *)(void *)(base + s->at.tile_experts);
    params->slot_at = (int *)(void *)(base + s->at.slot_at);
    params->h = base + s->at.h;
    params->parts = (float *)(void *)(base + s->at.parts);
}

static att_status launch(const att_cuda_function *function, const att_cuda_shape *shape,
                         const att_moe_params *params, void *stream) {
    return shape->grid[0] ? att_cuda_launch(function, shape, params, sizeof *params, stream)
                          : ATT_OK;
}

static att_status route(const state *s, att_moe_params *params, void *stream) {
    const int both = ATT_MOE_SELECT | ATT_MOE_SORT;
    params->phases = params->route_blocks == 1 ? both : ATT_MOE_SELECT;
    ATT_TRY(launch(s->route, &s->route_shape, params, stream));
    if (params->phases == both)
        return ATT_OK;
    params->phases = ATT_MOE_SORT;
    return launch(s->route, &s->route_shape, params, stream);
}

static att_status run(const att_plan *plan, const void *args, void *workspace, void *stream) {
    const state *s = plan->state;
    const att_moe_args *a = args;
    att_moe_params params;
    if (a->launch)
        att_cuda_launch_record(a->launch, s->up, &s->up_shape);
    point(&params, s, a, workspace);
    ATT_TRY(route(s, &params, stream));
    ATT_TRY(launch(s->up, &s->up_shape, &params, stream));
    ATT_TRY(launch(s->down, &s->down_shape, &params, stream));
    return launch(s->combine, &s->combine_shape, &params, stream);
}

static void describe(const att_plan *plan, char *text, size_t n) {
    const state *s = plan->state;
    snprintf(
        text, n,
        "grid %u x 1 x 1, %u threads and %u bytes per block, workspace %zu bytes; after %s in "
        "%d launch%s of %u block%s, before %s and %s",
        s->up_shape.grid[0], s->up_shape.threads, s->up_shape.shared, plan->workspace,
        s->route->name, s->params.route_blocks == 1 ? 1 : 2,
        s->params.route_blocks == 1 ? "" : "es", s->route_shape.grid[0],
        s->route_shape.grid[0] == 1 ? "" : "s", s->down->name, s->combine->name);
}

/* ------------------------------------------------------------------ families */

static bool serves_nothing(const att_kernel_row *row, const att_limits *limits,
                           const void *problem, att_refusal *refusal) {
    (void)row, (void)limits, (void)problem;
    ATT_CONDITION(false, "role", "is a step of other kernels' runs");
    return true;
}

static bool steps_in(const att_kernel_row *step, const att_kernel_row *row,
                     const void *problem) {
    (void)problem;
    return row->cuda && row->family->operation == &att_operation_moe &&
           step_of(step->family, row->cuda, true) == step->cuda;
}

#define FAMILY                                                                                 \
    .operation = &att_operation_moe, .state_bytes = sizeof(state), .describe = describe

const att_family att_family_moe_sm80 = {FAMILY, .serves = serves, .estimate = estimate,
                                        .cut = cut, .run = run};
const att_family att_family_moe_route = {FAMILY, .serves = serves_nothing,
                                         .steps_in = steps_in};
const att_family att_family_moe_sm80_down = {FAMILY, .serves = serves_nothing,
                                             .steps_in = steps_in};
const att_family att_family_moe_combine = {FAMILY, .serves = serves_nothing,
                                           .steps_in = steps_in};
