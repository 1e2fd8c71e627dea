/* bwd_hopper_families.c: the Hopper kernels of the backward pass, one row per source. */
#include "backward/cuda/bwd_hopper.h"

/* Tiles that the products and the sums of dQ are laid out for; stages as shared memory holds. */
static bool tile_fits(const int tile[4], char *why, size_t n) {
    enum { ROWS, KEYS, STAGES, WARPS };
    if ((tile[ROWS] == 64 || tile[ROWS] == 128) && tile[KEYS] == 128 && tile[STAGES] >= 1 &&
        tile[STAGES] <= 3 && tile[WARPS] == 12)
        return true;
    snprintf(why, n, "takes 64 or 128 rows, 128 keys, 1 to 3 stages and 12 warps");
    return false;
}

const att_family att_family_bwd_sm90 = {.operation = &att_operation_backward,
                                        .state_bytes = sizeof(att_backward_hopper),
                                        .serves = att_backward_hopper_serves,
                                        .cut = att_backward_hopper_cut,
                                        .run = att_backward_hopper_run,
                                        .describe = att_backward_hopper_describe,
                                        .tile_fits = tile_fits};

static bool serves_nothing(const att_kernel_row *row, const att_limits *limits,
                           const void *problem, att_refusal *refusal) {
    (void)row, (void)limits, (void)problem;
    ATT_CONDITION(false, "role", "rounds the dQ that bwd_sm90 leaves");
    return true;
}

static bool steps_in(const att_kernel_row *step, const att_kernel_row *row,
                     const void *problem) {
    (void)problem;
    return row->family == &att_family_bwd_sm90 &&
           att_backward_hopper_finish(row->cuda, true) == step->cuda;
}

const att_family att_family_bwd_sm90_finish = {.operation = &att_operation_backward,
                                               .state_bytes = sizeof(att_backward_hopper),
                                               .serves = serves_nothing,
                                               .describe = att_backward_hopper_describe,
                                               .steps_in = steps_in};
