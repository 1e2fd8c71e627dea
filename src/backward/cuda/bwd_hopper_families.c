/* bwd_hopper_families.c: the Hopper kernels of the backward pass, one row per source. */
#include "backward/cuda/bwd_hopper.h"

/* Tiles that the products and the sums of dQ are laid out for; as many stages as shared memory
 * holds. */
static bool tile_fits(const int tile[4], char *why, size_t n) {
    enum { ROWS, KEYS, STAGES, WARPS };
    if ((tile[ROWS] == 64 || tile[ROWS] == 128) && tile[KEYS] == 128 && tile[STAGES] >= 1 &&
        tile[STAGES] <= 3 && tile[WARPS] == 12)
        return true;
    snprintf(why, n, "takes 64 or 128 rows, 128 keys, 1 to 3 stages and 12 warps");
    return false;
}

static bool wide_tile_fits(const int tile[4], char *why, size_t n) {
    enum { ROWS, KEYS, STAGES, WARPS };
    if (tile[ROWS] == 64 && (tile[KEYS] == 64 || tile[KEYS] == 128) && tile[STAGES] >= 1 &&
        tile[STAGES] <= 2 && tile[WARPS] == 12)
        return true;
    snprintf(why, n, "takes 64 rows, 64 or 128 keys, 1 or 2 stages and 12 warps");
    return false;
}

#define FAMILY                                                                                 \
    .operation = &att_operation_backward, .state_bytes = sizeof(att_backward_hopper),          \
    .describe = att_backward_hopper_describe
#define MAIN                                                                                   \
    FAMILY, .serves = att_backward_hopper_serves, .cut = att_backward_hopper_cut,              \
            .run = att_backward_hopper_run

const att_family att_family_bwd_sm90 = {MAIN, .tile_fits = tile_fits};
const att_family att_family_bwd_sm90_wide = {MAIN, .tile_fits = wide_tile_fits};

static bool serves_nothing(const att_kernel_row *row, const att_limits *limits,
                           const void *problem, att_refusal *refusal) {
    (void)row, (void)limits, (void)problem;
    ATT_CONDITION(false, "role", "rounds the dQ that another kernel leaves");
    return true;
}

static bool steps_in(const att_kernel_row *step, const att_kernel_row *row,
                     const void *problem) {
    (void)problem;
    return row->cuda && row->family->cut == att_backward_hopper_cut &&
           att_backward_hopper_finish(row, true) == step->cuda;
}

#define FINISH FAMILY, .serves = serves_nothing, .steps_in = steps_in

const att_family att_family_bwd_sm90_finish = {FINISH};
const att_family att_family_bwd_sm90_wide_finish = {FINISH};

bool att_backward_hopper_finishes(const att_kernel_row *finish, const att_kernel_row *row) {
    return finish->family == (row->family == &att_family_bwd_sm90
                                  ? &att_family_bwd_sm90_finish
                                  : &att_family_bwd_sm90_wide_finish);
}
