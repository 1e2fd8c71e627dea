/* tiling.h: cut a problem into blocks for a GPU kernel, and launch them. */
#ifndef ATT_CUDA_TILING_H
#define ATT_CUDA_TILING_H

#include "core/plan.h"
#include "cuda/launch.h"
#include "kernels/fwd_sm90_params.h"

enum { ATT_PARTS_MOST = 128 }; /* for the keys of a tile of rows */

/* The launch of fwd_mask before fwd_sm90, for tiles of this many rows and keys, and the offsets
 * of its lists in the workspace (mask_lists.h). */
typedef struct att_cuda_mask_plan {
    const att_cuda_function *function; /* NULL: no boolean mask */
    att_cuda_shape shape;
    int tile_m, tile_n;
    att_fwd_mask lists; /* except the pointers */
    size_t counts_at, tiles_at, bits_at;
} att_cuda_mask_plan;

/* A problem cut for one kernel on one device: the plan state of every GPU family of
 * attention. */
typedef struct att_cuda_tiling {
    const att_cuda_function *function, *combine; /* combine: NULL if no parts are stored */
    att_cuda_shape shape, combine_shape;
    att_fwd_params params;        /* except the pointers */
    struct att_cublas *cublas;    /* only for the rung `unfused`, otherwise NULL */
    att_fwd_sm90_params hopper;   /* only for fwd_sm90: except `fwd` and the pointers */
    att_fwd_softcap softcap;      /* its rows with softcap */
    att_fwd_bias bias;            /* its rows with a bias: except the address */
    bool has_features;            /* its rows with any: att_fwd_sm90_feature_params */
    bool counts_tiles;            /* fwd_sm90: blocks claim their tiles from a counter */
    att_cuda_mask_plan mask;      /* fwd_sm90 with a boolean mask */
    size_t weights_at, opened_at; /* fwd_decode_shares: offsets in the workspace */
} att_cuda_tiling;

/* The common start of every family: load the code, fill in the parameters without pointers. A
 * user's row is checked against its limits. Errors: ATT_E_UNSUPPORTED, ATT_E_CUDA,
 * ATT_E_MEMORY. */
att_status att_cuda_tiling_begin(att_cuda_tiling *tiling, const att_context *ctx,
                                 const att_cuda_kernel *kernel, const att_problem *p);

/* The parameters of a run, and its launch record if requested. */
void att_cuda_tiling_point(att_fwd_params *params, const att_cuda_tiling *tiling,
                           const att_args *args);

/* Tiles of rows into which fwd_sm80, fwd_decode and fwd_decode_sm90 cut the problem, before the
 * keys are split; INT64_MAX if there are too many to count. */
int64_t att_cuda_row_tiles(const att_cuda_kernel *kernel, const att_problem *p);

/* The fastest number of parts of the keys for `blocks` tiles of rows, on a GPU that holds
 * `slots` blocks of fwd_sm80 or fwd_decode at once. */
int att_cuda_choose_splits(const att_cuda_kernel *kernel, const att_problem *p, int64_t blocks,
                           int64_t slots);

/* The kernel that merges the splits of `kernel`, or NULL; one without evidence only if that is
 * allowed. */
const att_cuda_kernel *att_cuda_combine_of(const att_cuda_kernel *kernel,
                                           bool allow_unattested);

/* Blocks along the rows, before the keys are split. */
att_status att_cuda_tiling_rows(att_cuda_tiling *tiling, int64_t *blocks,
                                const att_context *ctx, const att_cuda_kernel *kernel,
                                const att_problem *p);

/* The kernel that could merge the parts of `rows` rows of a context, or NULL. */
const att_cuda_kernel *att_cuda_combine_for(const att_cuda_kernel *kernel,
                                            const att_context *ctx, int64_t rows);

/* Load `combine` and allocate *workspace for the parts of `rows` rows; params.splits must be
 * set. */
att_status att_cuda_plan_combine(att_cuda_tiling *t, size_t *workspace, const att_context *ctx,
                                 const att_cuda_kernel *combine, int64_t rows);

/* Set the addresses of a run's parts in `memory`. */
void att_cuda_point_parts(att_fwd_params *params, void *memory);

/* att_family.cut and .run of the kernels with one block per tile of rows (fwd_sm80,
 * fwd_decode): the keys are split if that fills the GPU. Also .cut of those whose blocks divide
 * the keys in clusters (fwd_decode_sm90). */
att_status att_cuda_blocks_cut(void *state, size_t *workspace, const att_context *ctx,
                               const att_kernel_row *row, const void *problem);
att_status att_cuda_cluster_cut(void *state, size_t *workspace, const att_context *ctx,
                                const att_kernel_row *row, const void *problem);
att_status att_cuda_blocks_run(const att_plan *plan, const void *args, void *workspace,
                               void *stream);

#endif
