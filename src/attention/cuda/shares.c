/* shares.c: decoding for sequences of unequal lengths.
 *
 * As many blocks as the GPU holds divide the keys of all sequences evenly. Where they cut depends
 * on the lengths, which only the device knows, so each block finds its share by itself. At most two
 * parts per block are left for the kernel that joins them. */
#include "attention/cuda/shares.h"

#include <stdio.h>
#include <string.h>

#include "attention/cuda/cuda_families.h"
#include "attention/cuda/decode_tiling.h"
#include "base/checked.h"
#include "base/error.h"
#include "cuda/function.h"
#include "cuda/shape.h"
#include "cuda/workspace_parts.h"
#include "kernels/fwd_shares_params.h"

enum {
    PARTS = 2,  /* of a share that are joined with others, at most */
    SLICES = 4, /* steps in what the warps of a block walk at once */
    HALF = 2,   /* bytes of an element */
    /* Fitted on an H200: what a block prefetches while the previous kernel ends; and the keys that
     * could be read in the time that beginning a tile takes. */
    PREFETCH_BYTES = 65536,
    OPENING_KEYS = 384
};

static int keys_a_step(const att_cuda_kernel *kernel) {
    return kernel->tile_n * kernel->warps / SLICES;
}

int64_t att_cuda_shares_count(int sms) {
    enum { RESIDENT = 2 /* blocks per SM, as the kernel's launch bounds say */ };
    return RESIDENT * (int64_t)sms;
}

bool att_cuda_shares_countable(const att_cuda_kernel *kernel, const att_problem *p) {
    const int64_t each = att_ceil_div(p->seq_k + OPENING_KEYS, keys_a_step(kernel));
    int64_t work;
    return att_mul(att_cuda_row_tiles(kernel, p), each + 1, &work) && work <= INT32_MAX;
}

const att_cuda_kernel *att_cuda_join_of(const att_cuda_kernel *kernel, bool allow_unattested) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_kernel_row *row = att_registry_row(i);
        if (row->family == &att_family_fwd_decode_join && row->cuda->d_v >= kernel->d_v &&
            (!row->unattested || allow_unattested))
            return row->cuda;
    }
    return NULL;
}

bool att_cuda_join_steps_in(const att_kernel_row *step, const att_kernel_row *row,
                            const void *problem) {
    (void)problem;
    return row->family == &att_family_fwd_decode_shares &&
           att_cuda_join_of(row->cuda, true) == step->cuda;
}

/* The parts, their weights, and the tiles that shares leave unfinished. */
static bool place_parts(att_cuda_tiling *t, size_t *workspace, int64_t shares, int tile_m) {
    const int64_t rows = shares * PARTS * tile_m;
    size_t parts_at = 0;
    return att_cuda_place(&parts_at, workspace, rows * t->params.d_v, sizeof(float)) &&
           att_cuda_place(&t->weights_at, workspace, rows * 2, sizeof(float)) &&
           att_cuda_place(&t->opened_at, workspace, shares, sizeof(att_fwd_opened));
}

att_status att_cuda_shares_cut(void *state, size_t *workspace, const att_context *ctx,
                               const att_kernel_row *row, const void *problem) {
    att_cuda_tiling *t = state;
    const att_problem *p = problem;
    const att_cuda_kernel *kernel = row->cuda;
    const att_cuda_kernel *join = att_cuda_join_of(kernel, ctx->limits.allow_unattested);
    int64_t tiles = 0;
    *workspace = 0;
    ATT_TRY(att_cuda_tiling_rows(t, &tiles, ctx, kernel, p));
    if (tiles == 0)
        return ATT_OK;
    ATT_TRY(att_cuda_function_load(&t->combine, ctx->gpu, join, &ctx->source));
    const int64_t shares = att_cuda_shares_count(ctx->limits.gpu->sms);
    t->shape.grid[0] = (uint32_t)shares;
    t->combine_shape = (att_cuda_shape){
        .grid = {(uint32_t)shares, (uint32_t)kernel->tile_m, 1},
        .threads = att_cuda_kernel_threads(join),
        .shared = att_cuda_kernel_shared(join),
        .overlap = true,
    };
    ATT_REQUIRE(place_parts(t, workspace, shares, kernel->tile_m), ATT_E_UNSUPPORTED, "d_v",
                "the workspace for %lld shares of the keys would be too large",
                (long long)shares);
    return ATT_OK;
}

att_status att_cuda_shares_run(const att_plan *plan, const void *args, void *workspace,
                               void *stream) {
    const att_cuda_tiling *t = plan->state;
    char *memory = workspace;
    const att_cuda_kernel *kernel = plan->kernel->cuda;
    att_fwd_shares_params params = {
        .shares = (int)t->shape.grid[0],
        .tile_rows = kernel->tile_m,
        .prefetch = PREFETCH_BYTES / (t->params.d_qk + t->params.d_v) / HALF,
        .opening = OPENING_KEYS / keys_a_step(kernel),
    };
    att_cuda_tiling_point(&params.fwd, t, args);
    if (t->shape.grid[0] == 0)
        return ATT_OK;
    params.fwd.partial_o = (float *)(void *)memory;
    params.fwd.partial_sums = (float *)(void *)(memory + t->weights_at);
    params.opened = (att_fwd_opened *)(void *)(memory + t->opened_at);
    ATT_TRY(att_cuda_launch(t->function, &t->shape, &params, sizeof params, stream));
    return att_cuda_launch(t->combine, &t->combine_shape, &params, sizeof params, stream);
}

void att_cuda_shares_describe(const att_plan *plan, char *text, size_t n) {
    const att_cuda_tiling *t = plan->state;
    snprintf(text, n,
             "grid %u x %u x %u, %u threads and %u bytes per block, keys of all sequences in "
             "%u equal shares, workspace %zu bytes",
             t->shape.grid[0], t->shape.grid[1], t->shape.grid[2], t->shape.threads,
             t->shape.shared, t->shape.grid[0], plan->workspace);
    const size_t used = strlen(text);
    att_cuda_decode_remark(plan->kernel->cuda, plan->problem, text + used, n - used);
}
