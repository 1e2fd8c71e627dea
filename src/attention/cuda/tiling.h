/* tiling.h: cut a problem into blocks for a GPU kernel, and launch them. */
#ifndef ATT_CUDA_TILING_H
#define ATT_CUDA_TILING_H

#include "core/plan.h"
#include "cuda/launch.h"
#include "kernels/fwd_sm90_params.h"

enum { ATT_PARTS_MOST = 128 }; /* of the keys of a tile of rows */

/* The launch of fwd_mask ahead of fwd_sm90, for tiles of this many rows and keys, and where its lists lie in the workspace
 * (mask_lists.h). */
typedef struct att_cuda_mask_plan {
    const att_cuda_function *function; /* NULL: no boolean mask */
    att_cuda_shape shape;
    int tile_m, tile_n;
    att_fwd_mask lists; /* all but the pointers */
    size_t counts_at, tiles_at, bits_at;
} att_cuda_mask_plan;

/* A problem cut for one kernel on one device: the state of a plan of every GPU family of attention. */
typedef struct att_cuda_tiling {
    const att_cuda_function *function, *combine; /* combine: NULL where splits = 1 */
    att_cuda_shape shape, combine_shape;
    att_fwd_params params;      /* all but the pointers */
    struct att_cublas *cublas;  /* the rung `unfused` alone, else NULL */
    att_fwd_sm90_params hopper; /* fwd_sm90 alone: all but `fwd` and the pointers */
    att_fwd_softcap softcap;    /* its rows with softcap */
    att_fwd_bias bias;          /* its rows with a bias: all but the address */
    bool has_features;          /* its rows with any: they take att_fwd_sm90_feature_params */
    bool counts_tiles;          /* fwd_sm90: blocks draw their tiles from a counter */
    att_cuda_mask_plan mask;    /* fwd_sm90 with a boolean mask */
} att_cuda_tiling;

/* What every family begins with: the code loaded, the parameters without their pointers. A user's row is held to its budget.
 * Errors: ATT_E_UNSUPPORTED, ATT_E_CUDA, ATT_E_MEMORY. */
att_status att_cuda_tiling_begin(att_cuda_tiling *tiling, const att_context *ctx,
                                 const att_cuda_kernel *kernel, const att_problem *p);

/* The parameters of a run, and its launch record where one is asked for. */
void att_cuda_tiling_point(att_fwd_params *params, const att_cuda_tiling *tiling,
                           const att_args *args);

/* Tiles of rows that fwd_sm80, fwd_decode and fwd_decode_sm90 cut the problem into, before the keys are split; INT64_MAX where they
 * are too many to count. */
int64_t att_cuda_row_tiles(const att_cuda_kernel *kernel, const att_problem *p);

/* Parts of the keys for `blocks` tiles of rows on a GPU that holds `slots` blocks at once, of fwd_sm80 and fwd_decode: those that
 * end soonest. */
int att_cuda_choose_splits(const att_cuda_kernel *kernel, const att_problem *p, int64_t blocks,
                           int64_t slots);

/* The kernel that merges what the splits of `kernel` leave, or NULL; one without evidence only where that is allowed. */
const att_cuda_kernel *att_cuda_combine_of(const att_cuda_kernel *kernel,
                                           bool allow_unattested);

/* The kernel that could merge the parts of `rows` rows of a context, or NULL. */
const att_cuda_kernel *att_cuda_combine_for(const att_cuda_kernel *kernel,
                                            const att_context *ctx, int64_t rows);

/* Load `combine` and give the parts of `rows` rows their *workspace, where params.splits is set. */
att_status att_cuda_plan_combine(att_cuda_tiling *t, size_t *workspace, const att_context *ctx,
                                 const att_cuda_kernel *combine, int64_t rows);

/* Have the parts of a run lie in `memory`. */
void att_cuda_point_parts(att_fwd_params *params, void *memory);

/* att_family.cut and .run of the kernels with a block per tile of rows (fwd_sm80, fwd_decode): the keys are split where that fills
 * the GPU; and .cut of those whose blocks share the keys in clusters (fwd_decode_sm90). */
att_status att_cuda_blocks_cut(void *state, size_t *workspace, const att_context *ctx,
                               const att_kernel_row *row, const void *problem);
att_status att_cuda_cluster_cut(void *state, size_t *workspace, const att_context *ctx,
                                const att_kernel_row *row, const void *problem);
att_status att_cuda_blocks_run(const att_plan *plan, const void *args, void *workspace,
                               void *stream);

#endif
