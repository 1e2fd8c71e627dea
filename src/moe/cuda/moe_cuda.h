/* moe_cuda.h: the plan of a layer of experts on a GPU: its kernels, their shapes, and the
 * layout of the workspace. */
#ifndef ATT_MOE_CUDA_H
#define ATT_MOE_CUDA_H

#include "core/plan.h"
#include "core/registry.h"
#include "cuda/function.h"
#include "cuda/launch.h"
#include "kernels/moe_params.h"
#include "moe/cuda/moe_maps.h"

extern const att_family att_family_moe_route, att_family_moe_sm80, att_family_moe_sm80_down,
    att_family_moe_sm90, att_family_moe_sm90_down, att_family_moe_few, att_family_moe_few_down,
    att_family_moe_combine;

/* Offsets of the parts of the workspace. */
typedef struct att_moe_places {
    size_t slot_ids, slot_weights, histograms, starts, tile_starts, tile_experts, slot_at,
        counters, few_table, h, parts;
} att_moe_places;

typedef struct att_moe_gpu {
    const att_cuda_function *route, *up, *down, *combine; /* for few tokens `up` and `down` */
    att_cuda_shape route_shape, up_shape, down_shape, combine_shape;
    att_moe_params params; /* except the pointers */
    att_moe_places at;
    bool few;     /* products for few tokens */
    bool by_maps; /* Hopper: products load weights with the copy engine */
    att_moe_maps maps;
} att_moe_gpu;

/* Is the row one of the products fed by Hopper's copy engine? */
static inline bool att_moe_is_hopper(const att_kernel_row *row) {
    return row->family == &att_family_moe_sm90;
}

/* Is the row one of the products for few tokens? They route tokens and add up parts
 * themselves. */
static inline bool att_moe_is_few(const att_kernel_row *row) {
    return row->family == &att_family_moe_few;
}

/* The family of the second product that goes with the row's first. */
static inline const att_family *att_moe_down_family(const att_kernel_row *row) {
    if (att_moe_is_few(row))
        return &att_family_moe_few_down;
    return att_moe_is_hopper(row) ? &att_family_moe_sm90_down : &att_family_moe_sm80_down;
}

/* The first row of `family` that works with the row `main` and that a context
 * may use, or NULL. */
const att_cuda_kernel *att_moe_step_of(const att_family *family, const att_kernel_row *main,
                                       bool allow_unattested);

/* The maximum number of tiles of positions: every expert that has slots may leave one tile
 * partly filled. */
int64_t att_moe_tiles_most(const att_cuda_kernel *main, const att_moe_problem *p);

att_status att_moe_gpu_cut(void *out, size_t *workspace, const att_context *ctx,
                           const att_kernel_row *row, const void *problem);
att_status att_moe_gpu_run(const att_plan *plan, const void *args, void *workspace,
                           void *stream);
void att_moe_gpu_describe(const att_plan *plan, char *text, size_t n);

/* In microseconds. */
double att_moe_gpu_estimate(const att_kernel_row *row, const att_limits *limits,
                            const void *problem);

#endif
