/* mask_lists.c: planning and launching fwd_mask. */
#include "attention/cuda/mask_lists.h"

#include "attention/problem.h"
#include "base/checked.h"
#include "base/error.h"
#include "core/registry.h"
#include "cuda/function.h"
#include "cuda/shape.h"

enum { WARP = 32, WORKSPACE_UNIT = 256 };

const att_cuda_kernel *att_cuda_mask_reader(bool allow_unattested) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->cuda && row->cuda->role == ATT_ROLE_MASK &&
            (!row->unattested || allow_unattested))
            return row->cuda;
    }
    return NULL;
}

/* Do batch entries differ in which keys their rows see? */
static bool differs_by_entry(const att_problem *p) {
    return p->bias.batch != 0 ||
           p->features & (ATT_CU_SEQLENS_Q | ATT_CU_SEQLENS_K | ATT_LENS_K | ATT_OFFSETS_VARY);
}

/* Do all rows see the same keys? If so, one list serves every tile of them. */
static bool is_same_for_rows(const att_fwd_params *f, const att_problem *p) {
    return p->bias.row == 0 && f->window_left < 0 && f->window_right < 0;
}

static int64_t count_lists(const att_fwd_mask *m) {
    return (int64_t)m->batches * m->heads * m->row_blocks;
}

static att_fwd_mask lists_of(const att_cuda_tiling *t, const att_cuda_kernel *kernel,
                             const att_problem *p) {
    const int64_t units = t->hopper.pack ? p->heads_kv : p->heads_q;
    return (att_fwd_mask){
        .batches = differs_by_entry(p) ? (int)p->batch : 1,
        .heads = p->bias.head != 0 ? (int)units : 1,
        .row_blocks = is_same_for_rows(&t->params, p) ? 1 : t->params.row_blocks,
        .key_tiles = (int)att_ceil_div(p->seq_k, kernel->tile_n),
    };
}

/* Place counts, tiles and bits of the lists one after the other at the end of the workspace.
 * Returns false if it would be too large. */
static bool place_lists(att_cuda_mask_plan *plan, size_t *workspace) {
    const att_fwd_mask *m = &plan->lists;
    const int64_t lanes = plan->tile_m / ATT_MASK_WARP_ROWS * WARP;
    int64_t tiles, bits;
    if (!att_mul(count_lists(m), m->key_tiles, &tiles) ||
        !att_mul(tiles, lanes * (int64_t)sizeof(att_fwd_mask_bits), &bits) ||
        bits > INT64_MAX / 2)
        return false;
    const int64_t counts = count_lists(m) * (int64_t)sizeof(int);
    plan->counts_at = *workspace;
    plan->tiles_at = plan->counts_at + (size_t)att_round_up(counts, WORKSPACE_UNIT);
    tiles *= (int64_t)sizeof(att_fwd_mask_tile);
    plan->bits_at = plan->tiles_at + (size_t)att_round_up(tiles, WORKSPACE_UNIT);
    *workspace = plan->bits_at + (size_t)att_round_up(bits, WORKSPACE_UNIT);
    return true;
}

att_status att_cuda_mask_cut(att_cuda_tiling *t, size_t *workspace, const att_context *ctx,
                             const att_cuda_kernel *kernel, const att_problem *p) {
    const att_cuda_kernel *reader = att_cuda_mask_reader(ctx->limits.allow_unattested);
    ATT_REQUIRE(reader, ATT_E_UNSUPPORTED, "flags", "%s needs a kernel that reads masks",
                kernel->id);
    att_cuda_mask_plan *plan = &t->mask;
    plan->lists = lists_of(t, kernel, p);
    plan->tile_m = kernel->tile_m;
    plan->tile_n = kernel->tile_n;
    ATT_REQUIRE(place_lists(plan, workspace), ATT_E_UNSUPPORTED, "bias",
                "%s: the bits of the mask would need more than 2^62 bytes", kernel->id);
    plan->shape = (att_cuda_shape){
        .grid = {(uint32_t)count_lists(&plan->lists), ATT_MASK_CLUSTER, 1},
        .threads = (uint32_t)(kernel->tile_m / ATT_MASK_WARP_ROWS * WARP),
        .shared = att_cuda_kernel_shared(reader),
        .cluster = ATT_MASK_CLUSTER,
        .overlap = true,
    };
    return att_cuda_function_load(&plan->function, ctx->gpu, reader, &ctx->source);
}

void att_cuda_mask_point(att_fwd_mask *lists, const att_cuda_mask_plan *plan, void *workspace) {
    char *at = workspace;
    *lists = plan->lists;
    lists->counts = (int *)(void *)(at + plan->counts_at);
    lists->tiles = (att_fwd_mask_tile *)(void *)(at + plan->tiles_at);
    lists->bits = (att_fwd_mask_bits *)(void *)(at + plan->bits_at);
}

/* Bytes of the mask that may be read at once. Strides along dimensions of size 1 are
 * ignored. */
static int width_of(const att_fwd_params *f) {
    const att_fwd_strides *s = &f->bias_stride;
    const uint64_t steps =
        (uint64_t)(uintptr_t)f->bias | (f->batch > 1 ? (uint64_t)s->batch : 0) |
        (f->heads_q > 1 ? (uint64_t)s->head : 0) | (f->seq_q > 1 ? (uint64_t)s->row : 0);
    return s->col != 1 ? 1 : steps % 16 ? 4 : 16;
}

att_status att_cuda_mask_launch(const att_cuda_mask_plan *plan,
                                const att_fwd_sm90_feature_params *h, void *stream) {
    const att_fwd_mask_params params = {.fwd = h->plain.fwd,
                                        .mask = h->mask,
                                        .tile_m = plan->tile_m,
                                        .tile_n = plan->tile_n,
                                        .top_rows = h->plain.top_rows,
                                        .pack = h->plain.pack,
                                        .width = width_of(&h->plain.fwd),
                                        .next_tile = h->plain.next_tile};
    return att_cuda_launch(plan->function, &plan->shape, &params, sizeof params, stream);
}
