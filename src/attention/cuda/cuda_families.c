/* cuda_families.c: the GPU kernels of attention, one row per source. */
#include "attention/cuda/cuda_families.h"

#include <string.h>

#include "attention/cuda/conditions_cuda.h"
#include "attention/cuda/decode_tiling.h"
#include "attention/cuda/f32_tiling.h"
#include "attention/cuda/hopper.h"
#include "attention/cuda/hopper_choice.h"
#include "attention/cuda/mask_lists.h"
#include "attention/cuda/rungs.h"
#include "attention/cuda/shares.h"
#include "attention/cuda/tile_fits.h"
#include "base/dtype.h"
#include "cuda/function.h"

static void describe(const att_plan *plan, char *text, size_t n) {
    const att_cuda_tiling *t = plan->state;
    const att_cuda_shape *s = &t->shape;
    char mask[96] = "", written[96] = "";
    if (t->combine && t->params.splits == 1)
        snprintf(written, sizeof written, " that %s writes as %s", t->combine->name,
                 att_dtype_name((att_dtype)t->params.dtype_o));
    if (t->mask.function)
        snprintf(mask, sizeof mask, "; the mask is read by %s, grid %u x %u x %u",
                 t->mask.function->name, t->mask.shape.grid[0], t->mask.shape.grid[1],
                 t->mask.shape.grid[2]);
    snprintf(text, n,
             "grid %u x %u x %u, %u threads and %u bytes per block, keys in %d part%s%s%s, "
             "workspace %zu bytes%s",
             s->grid[0], s->grid[1], s->grid[2], s->threads, s->shared, t->params.splits,
             t->params.splits == 1 ? "" : "s", s->cluster ? " that a cluster merges" : "",
             written, plan->workspace, mask);
}

static void describe_cluster(const att_plan *plan, char *text, size_t n) {
    describe(plan, text, n);
    const size_t used = strlen(text);
    att_cuda_decode_remark(plan->kernel->cuda, plan->problem, text + used, n - used);
}

#define FAMILY                                                                                 \
    .operation = &att_operation_attention, .state_bytes = sizeof(att_cuda_tiling),             \
    .describe = describe

#define HOPPER                                                                                 \
    FAMILY, .serves = att_cuda_serves_hopper, .estimate = att_cuda_hopper_estimate,            \
            .cut = att_cuda_hopper_cut, .run = att_cuda_hopper_run

/* Persistent blocks, fed by the copy engine through tensor maps. */
const att_family att_family_fwd_sm90 = {HOPPER, .tile_fits = att_cuda_tile_fits_hopper};
const att_family att_family_fwd_sm90_small = {HOPPER, .tile_fits = att_cuda_tile_fits_small};

/* One block per tile of rows; the keys are split if that fills the GPU. */
#define BLOCKS                                                                                 \
    FAMILY, .serves = att_cuda_serves_blocks, .cut = att_cuda_blocks_cut,                      \
            .run = att_cuda_blocks_run

const att_family att_family_fwd_sm80 = {BLOCKS, .estimate = att_cuda_blocks_estimate,
                                        .tile_fits = att_cuda_tile_fits_blocks};
const att_family att_family_fwd_sm80_f32 = {BLOCKS, .estimate = att_cuda_f32_estimate,
                                            .tile_fits = att_cuda_tile_fits_f32};
const att_family att_family_fwd_decode = {FAMILY,
                                          .special = true,
                                          .serves = att_cuda_serves_decode,
                                          .estimate = att_cuda_hopper_estimate,
                                          .cut = att_cuda_blocks_cut,
                                          .run = att_cuda_blocks_run};

/* A cluster of blocks per tile of rows, which divide the keys. */
const att_family att_family_fwd_decode_sm90 = {.operation = &att_operation_attention,
                                               .state_bytes = sizeof(att_cuda_tiling),
                                               .describe = describe_cluster,
                                               .special = true,
                                               .serves = att_cuda_serves_cluster,
                                               .estimate = att_cuda_hopper_estimate,
                                               .cut = att_cuda_cluster_cut,
                                               .run = att_cuda_blocks_run};

/* The keys of all sequences in equal shares, one per block; then the parts that cuts have made
 * are joined. */
const att_family att_family_fwd_decode_shares = {.operation = &att_operation_attention,
                                                 .state_bytes = sizeof(att_cuda_tiling),
                                                 .describe = att_cuda_shares_describe,
                                                 .special = true,
                                                 .serves = att_cuda_serves_shares,
                                                 .estimate = att_cuda_hopper_estimate,
                                                 .cut = att_cuda_shares_cut,
                                                 .run = att_cuda_shares_run};
const att_family att_family_fwd_decode_join = {FAMILY, .serves = att_cuda_serves_nothing,
                                               .steps_in = att_cuda_join_steps_in};

/* Merges the parts of the other families above; no problem selects it. */
static bool combines(const att_kernel_row *step, const att_kernel_row *row,
                     const void *problem) {
    (void)problem;
    return row->family != &att_family_fwd_decode_shares &&
           att_cuda_combine_of(row->cuda, true) == step->cuda;
}
const att_family att_family_fwd_combine = {FAMILY, .serves = att_cuda_serves_nothing,
                                           .steps_in = combines};

/* Reads a boolean mask before them. */
static bool reads_mask(const att_kernel_row *step, const att_kernel_row *row,
                       const void *problem) {
    (void)problem;
    return row->cuda->features & ATT_FEATURE_MASK && att_cuda_mask_reader(true) == step->cuda;
}
const att_family att_family_fwd_mask = {FAMILY, .serves = att_cuda_serves_nothing,
                                        .steps_in = reads_mask};

/* The steps of the ladder. */
#define RUNG(source, needs)                                                                    \
    const att_family att_family_##source = {                                                   \
        FAMILY, .asks = (needs), .serves = att_cuda_serves_rung, .cut = att_cuda_rung_cut,     \
        .run = att_cuda_rung_run}
RUNG(naive, 0);
RUNG(tiled, ATT_ASKS_PLAIN_SCORES);
RUNG(vector, ATT_ASKS_PLAIN_SCORES | ATT_ASKS_VECTORS);
RUNG(unfused, ATT_ASKS_PLAIN_SCORES | ATT_ASKS_CUBLAS);
RUNG(mma, ATT_ASKS_PLAIN_SCORES | ATT_ASKS_VECTORS);
RUNG(mma_async, ATT_ASKS_PLAIN_SCORES | ATT_ASKS_VECTORS);
