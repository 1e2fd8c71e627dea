/* hopper.c: planning and launching fwd_sm90. */
#include "attention/cuda/hopper.h"

#include "base/checked.h"
#include "base/error.h"
#include "cuda/function.h"
#include "attention/cuda/hopper_bias.h"
#include "attention/cuda/hopper_choice.h"
#include "attention/cuda/hopper_parts.h"
#include "attention/cuda/mask_lists.h"
#include "attention/cuda/params.h"
#include "attention/cuda/softcap.h"
#include "cuda/shape.h"
#include "cuda/tensor_maps.h"
#include "attention/cuda/operands.h"
#include "attention/problem.h"

enum {
    BOX_COLS = 64,       /* columns per copy: the 128 bytes that are swizzled */
    BOX_ROWS = 64,       /* rows of Q and O: those of a warpgroup */
    WARP_ROWS = 16,      /* rows per warp */
    COUNTER_BYTES = 256, /* next_tile, padded */
    WORKSPACE_UNIT = 256
};

/* ------------------------------------------------------------------------------ refusals */

static int chunks(int64_t d) {
    return (int)att_ceil_div(d, BOX_COLS);
}

/* Can the copy engine use every stride of a dimension larger than 1? Heads of a group may be
 * packed into a box: then the stride from group to group counts. */
static bool is_walkable(const att_cuda_tensor *t) {
    const struct {
        int64_t size, stride, most;
    } steps[] = {
        {t->batch, t->strides->batch, ATT_TENSOR_STRIDE_END},
        {t->heads, t->strides->head, ATT_TENSOR_STRIDE_END / WARP_ROWS},
        {t->rows, t->strides->row, ATT_TENSOR_STRIDE_END},
    };
    const bool empty = t->batch == 0 || t->rows == 0;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && !empty; i++)
        if (steps[i].size > 1 &&
            (steps[i].stride <= 0 || steps[i].stride >= steps[i].most / (int64_t)t->element))
            return false;
    return true;
}

const char *att_cuda_hopper_refusal(const att_cuda_kernel *kernel, const att_problem *p,
                                    const char **field) {
    *field = "d_qk";
    if (chunks(p->d_qk) != chunks(kernel->d_qk))
        return "would pad d_qk by 64 columns or more";
    *field = "d_v";
    if (chunks(p->d_v) != chunks(kernel->d_v))
        return "would pad d_v by 64 columns or more";
    att_cuda_tensor tensors[ATT_TENSORS];
    att_cuda_tensors(tensors, p);
    for (int i = 0; i < ATT_TENSORS; i++) {
        *field = tensors[i].name;
        if (!is_walkable(&tensors[i]))
            return "has a stride that tensor maps do not take: 0, or too large";
    }
    *field = "page_size";
    if (att_cuda_hopper_copy_rows(kernel->tile_n, p) == 0)
        return "the keys of a page are not a multiple of 8";
    *field = "features";
    if (p->features & ATT_PAGED && p->features & ATT_STARTS_K)
        return "takes no starts_k with pages: no copy begins within a page";
    if (kernel->features & (ATT_FEATURE_MASK | ATT_FEATURE_BIAS) && p->features & ATT_STARTS_K)
        return "takes no starts_k beside a bias or a mask: its columns are counted from key 0";
    *field = NULL;
    return NULL;
}

/* ------------------------------------------------------------------------------- cutting */

int att_cuda_hopper_pack(const att_cuda_kernel *kernel, const att_problem *p) {
    const int64_t group = p->heads_q / p->heads_kv;
    if (kernel->features & (ATT_FEATURE_ALIBI | ATT_FEATURE_BIAS)) /* a tile has one head */
        return 0;
    if (group > WARP_ROWS || (group & (group - 1)) != 0 || p->seq_q >= kernel->tile_m)
        return 0;
    int pack = 0;
    while (group >> pack > 1)
        pack++;
    return pack;
}

static int64_t row_blocks_of(const att_cuda_kernel *kernel, const att_problem *p) {
    return att_ceil_div(p->seq_q << att_cuda_hopper_pack(kernel, p), kernel->tile_m);
}

int64_t att_cuda_hopper_tiles(const att_cuda_kernel *kernel, const att_problem *p) {
    const int64_t heads = att_cuda_hopper_pack(kernel, p) ? p->heads_kv : p->heads_q;
    int64_t tiles;
    return att_mul(p->batch * heads, row_blocks_of(kernel, p), &tiles) ? tiles : INT64_MAX;
}

int64_t att_cuda_hopper_blocks(const att_cuda_kernel *kernel, int64_t tiles, int sms) {
    return kernel->role != ATT_ROLE_SMALL ? att_min(tiles, sms) : tiles;
}

static bool reads_mask(const att_cuda_kernel *kernel) {
    return kernel->features & ATT_FEATURE_MASK;
}

/* Do tiles differ in the keys that they see? */
static bool is_uneven(const att_cuda_kernel *kernel, const att_fwd_params *f,
                      const att_problem *p) {
    return reads_mask(kernel) || f->window_left >= 0 || f->window_right >= 0 ||
           p->features & (ATT_LENGTHS_VARY | ATT_OFFSETS_VARY);
}

/* The number of units whose tiles are interleaved: those whose K and V fit in L2 along with
 * what streams through it. Sections have (nearly) equal sizes: a small last one would end with
 * long tiles. */
static int section_of(const att_fwd_sm90_params *h, const att_problem *p,
                      const att_cuda_limits *limits) {
    const bool packed_keys = (p->features & ATT_CU_SEQLENS_K) && !(p->features & ATT_PAGED);
    const int64_t keys = packed_keys ? att_ceil_div(p->total_k, p->batch) : p->seq_k;
    const int64_t bytes =
        att_max(1, keys) * (p->d_qk + p->d_v) * (int64_t)att_dtype_size(p->dtype);
    /* Units with the same K and V stay together. */
    const int64_t sharing = h->pack ? 1 : p->heads_q / p->heads_kv;
    const int64_t groups = h->units / sharing;
    const int64_t most = att_max(1, limits->l2_bytes / 8 * 5 / bytes);
    const int64_t sections = att_ceil_div(groups, most);
    return (int)(att_ceil_div(groups, sections) * sharing);
}

/* Row blocks that are deferred until all sections are done. They load K and V into L2 a second
 * time, so only if the last section is too small to end evenly. */
static int last_blocks_of(const att_fwd_sm90_params *h, int64_t row_blocks,
                          const att_cuda_limits *limits) {
    const int64_t last = h->units - (h->units - 1) / h->section * h->section;
    return last * row_blocks * 2 < 3 * (int64_t)limits->sms ? (int)(row_blocks / 3) : 0;
}

/* Rows that are missing from the first tile of a unit instead of the last, if later rows see
 * more keys, as with many masks: persistent blocks then have no long tile that is only partly
 * full. Sequences of different lengths would each need another number. */
static int top_rows_of(const att_cuda_tiling *t, const att_cuda_kernel *kernel,
                       const att_problem *p) {
    if ((t->params.window_right < 0 && !reads_mask(kernel)) || t->hopper.pack ||
        p->features & ATT_CU_SEQLENS_Q || kernel->role == ATT_ROLE_SMALL ||
        kernel->role == ATT_ROLE_SPLIT)
        return 0;
    return (int)((int64_t)t->params.row_blocks * kernel->tile_m - p->seq_q);
}

static att_status cut(att_cuda_tiling *t, size_t *workspace, const att_cuda_kernel *kernel,
                      const att_problem *p, const att_cuda_limits *limits, int parts) {
    att_fwd_sm90_params *h = &t->hopper;
    h->pack = att_cuda_hopper_pack(kernel, p);
    const int64_t heads = h->pack ? p->heads_kv : p->heads_q;
    const int64_t units = p->batch * heads;
    const int64_t row_blocks = row_blocks_of(kernel, p);
    const int64_t tiles = att_cuda_hopper_tiles(kernel, p);
    ATT_REQUIRE(tiles <= INT32_MAX / parts, ATT_E_UNSUPPORTED, "batch",
                "%s would need %lld x %lld tiles, past 2^31", kernel->id, (long long)units,
                (long long)row_blocks);
    t->params.row_blocks = (int)row_blocks;
    t->params.by_row_blocks = att_cuda_divisor((unsigned)att_max(row_blocks, 1));
    h->by_heads = att_cuda_divisor((unsigned)heads);
    h->tiles = (int)tiles * parts;
    h->units = (int)units;
    const bool uneven = is_uneven(kernel, &t->params, p);
    h->section = uneven && units > 0 ? section_of(h, p, limits) : 1;
    h->last_blocks = uneven && units > 0 ? last_blocks_of(h, row_blocks, limits) : 0;
    h->top_rows = top_rows_of(t, kernel, p);
    t->has_features = kernel->features != 0;
    if (kernel->features & ATT_FEATURE_SOFTCAP)
        ATT_REQUIRE(att_cuda_softcap_of(&t->softcap, p), ATT_E_UNSUPPORTED, "softcap",
                    "softcap=%g is out of range", (double)p->softcap);
    h->copy_rows = att_cuda_hopper_copy_rows(kernel->tile_n, p);
    t->params.splits = parts;
    t->params.by_splits = att_cuda_divisor((unsigned)parts);
    t->counts_tiles =
        uneven && kernel->role != ATT_ROLE_SMALL &&
        (kernel->role != ATT_ROLE_SPLIT || h->tiles > limits->sms); /* else one per block */
    const int64_t redo = tiles * (kernel->tile_m / WARP_ROWS) * (int64_t)sizeof(att_fwd_redo);
    *workspace = (size_t)(COUNTER_BYTES + att_round_up(redo, WORKSPACE_UNIT)) * (tiles > 0);
    return ATT_OK;
}

/* --------------------------------------------------------------------------- tensor maps */

/* Sizes limited to the 32 bits of a coordinate; lengths and page ids cannot reach beyond
 * them. */
static int64_t within(int64_t size) {
    return att_min(size, INT32_MAX);
}

static att_tensor_walk walk_rows(const att_cuda_tensor *t, int pack) {
    const att_strides *s = t->strides;
    const int group = 1 << pack;
    return (att_tensor_walk){.rank = 5,
                             .axis = {{t->cols, 1, BOX_COLS},
                                      {group, s->head, group},
                                      {within(t->rows), s->row, BOX_ROWS / group},
                                      {t->heads / group, s->head * group, 1},
                                      {within(t->batch), s->batch, 1}}};
}

static att_tensor_walk walk_keys(const att_cuda_tensor *t, int copy_rows) {
    const att_strides *s = t->strides;
    return (att_tensor_walk){.rank = 4,
                             .axis = {{t->cols, 1, BOX_COLS},
                                      {within(t->rows), s->row, copy_rows},
                                      {t->heads, s->head, 1},
                                      {within(t->batch), s->batch, 1}}};
}

/* Rows that split keys store O from registers, for another kernel to merge: they have no map
 * of it. */
static att_status encode_maps(att_fwd_sm90_params *h, const att_cuda_driver *cu,
                              const att_problem *p, const att_cuda_kernel *kernel) {
    att_cuda_tensor tensors[ATT_TENSORS];
    att_cuda_tensors(tensors, p);
    const struct {
        att_tensor_map *map;
        att_tensor_walk walk;
    } maps[] = {
        {&h->q, walk_rows(&tensors[ATT_TENSOR_Q], h->pack)},
        {&h->k, walk_keys(&tensors[ATT_TENSOR_K], h->copy_rows)},
        {&h->v, walk_keys(&tensors[ATT_TENSOR_V], h->copy_rows)},
        {&h->o, walk_rows(&tensors[ATT_TENSOR_O], h->pack)},
    };
    const size_t count = sizeof maps / sizeof maps[0] - (kernel->role == ATT_ROLE_SPLIT);
    for (size_t i = 0; i < count; i++)
        ATT_TRY(
            att_cuda_tensor_map_encode(maps[i].map, cu, p->dtype, &maps[i].walk, kernel->id));
    return ATT_OK;
}

/* If keys are split there is no list of rows to recompute: the kernel that merges the parts
 * does that. */
static att_status plan_parts(att_cuda_tiling *t, size_t *workspace, const att_context *ctx,
                             const att_cuda_kernel *kernel, const att_problem *p) {
    const int64_t rows = p->batch * p->heads_q * p->seq_q;
    const att_cuda_kernel *combine = att_cuda_combine_for(kernel, ctx, rows);
    ATT_REQUIRE(combine, ATT_E_UNSUPPORTED, "batch",
                "%s: no kernel merges the parts of %lld rows", kernel->id, (long long)rows);
    ATT_TRY(att_cuda_plan_combine(t, workspace, ctx, combine, rows));
    *workspace += COUNTER_BYTES;
    return ATT_OK;
}

att_status att_cuda_hopper_cut(void *state, size_t *workspace, const att_context *ctx,
                               const att_kernel_row *row, const void *problem) {
    att_cuda_tiling *tiling = state;
    const att_problem *p = problem;
    const att_cuda_kernel *kernel = row->cuda;
    const att_cuda_limits *limits = ctx->limits.gpu;
    ATT_TRY(att_cuda_tiling_begin(tiling, ctx, kernel, p));
    const bool split = kernel->role == ATT_ROLE_SPLIT;
    ATT_TRY(cut(tiling, workspace, kernel, p, limits,
                split ? att_cuda_hopper_parts(row, limits->sms, p).count : 1));
    if (split && tiling->hopper.tiles > 0)
        ATT_TRY(plan_parts(tiling, workspace, ctx, kernel, p));
    tiling->shape = (att_cuda_shape){
        .grid = {(uint32_t)att_cuda_hopper_blocks(kernel, tiling->hopper.tiles, limits->sms), 1,
                 1},
        .threads = att_cuda_kernel_threads(kernel),
        .shared = att_cuda_kernel_shared(kernel),
        .overlap = true,
    };
    ATT_TRY(att_cuda_function_allow(tiling->function, tiling->shape.shared));
    if (tiling->hopper.tiles == 0)
        return ATT_OK;
    if (reads_mask(kernel))
        ATT_TRY(att_cuda_mask_cut(tiling, workspace, ctx, kernel, p));
    ATT_TRY(att_cuda_device_enter(ctx->gpu));
    const att_cuda_driver *cu = att_cuda_device_driver(ctx->gpu);
    att_status status = encode_maps(&tiling->hopper, cu, p, kernel);
    if (status == ATT_OK && kernel->features & ATT_FEATURE_BIAS)
        status = att_cuda_hopper_bias_encode(&tiling->bias, cu, kernel, p);
    att_cuda_device_leave(ctx->gpu);
    return status;
}

/* ------------------------------------------------------------------------------- running */

static att_status point_maps(att_fwd_sm90_params *h, const att_cuda_function *f) {
    ATT_TRY(att_cuda_tensor_map_point(&h->q, f->cu, h->fwd.q, f->name));
    ATT_TRY(att_cuda_tensor_map_point(&h->k, f->cu, h->fwd.k, f->name));
    ATT_TRY(att_cuda_tensor_map_point(&h->v, f->cu, h->fwd.v, f->name));
    return h->fwd.partial_o ? ATT_OK
                            : att_cuda_tensor_map_point(&h->o, f->cu, h->fwd.o, f->name);
}

/* Rows without features take only the first part. */
static size_t params_bytes(const att_cuda_tiling *t) {
    return t->has_features ? sizeof(att_fwd_sm90_feature_params) : sizeof(att_fwd_sm90_params);
}

/* One block of the kernel itself, told to do only this: unlike a memset, it overlaps with the
 * kernels before and after. */
static att_status reset_counter(const att_cuda_tiling *t, const att_fwd_sm90_feature_params *h,
                                void *stream) {
    att_fwd_sm90_feature_params none = *h;
    none.plain.tiles = 0;
    att_cuda_shape one = t->shape;
    one.grid[0] = 1;
    one.shared = 0;
    return att_cuda_launch(t->function, &one, &none, params_bytes(t), stream);
}

static att_status launch(const att_cuda_tiling *t, att_fwd_sm90_feature_params *h,
                         void *stream) {
    const att_cuda_function *f = t->function;
    ATT_TRY(point_maps(&h->plain, f));
    if (h->bias.rows > 0)
        ATT_TRY(att_cuda_hopper_bias_point(&h->bias, f->cu, h->plain.fwd.bias, f->name));
    if (t->mask.function)
        ATT_TRY(att_cuda_mask_launch(&t->mask, h, stream));
    else if (h->plain.next_tile)
        ATT_TRY(reset_counter(t, h, stream));
    ATT_TRY(att_cuda_launch(f, &t->shape, h, params_bytes(t), stream));
    const att_fwd_params *parts = &h->plain.fwd;
    return t->combine
               ? att_cuda_launch(t->combine, &t->combine_shape, parts, sizeof *parts, stream)
               : ATT_OK;
}

att_status att_cuda_hopper_run(const att_plan *plan, const void *args, void *workspace,
                               void *stream) {
    const att_cuda_tiling *tiling = plan->state;
    att_fwd_sm90_feature_params h = {
        .plain = tiling->hopper, .bias = tiling->bias, .softcap = tiling->softcap};
    att_cuda_tiling_point(&h.plain.fwd, tiling, args);
    if (tiling->shape.grid[0] == 0)
        return ATT_OK;
    h.plain.next_tile = tiling->counts_tiles ? workspace : NULL;
    if (tiling->combine)
        att_cuda_point_parts(&h.plain.fwd, (char *)workspace + COUNTER_BYTES);
    else
        h.plain.redo = (att_fwd_redo *)((char *)workspace + COUNTER_BYTES);
    if (tiling->mask.function)
        att_cuda_mask_point(&h.mask, &tiling->mask, workspace);
    bool entered;
    ATT_TRY(att_cuda_device_enter_once(tiling->function->device, &entered));
    const att_status status = launch(tiling, &h, stream);
    if (entered)
        att_cuda_device_leave(tiling->function->device);
    return status;
}
