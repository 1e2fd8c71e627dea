/* fwd_sm90_params.h: what the host passes to the Hopper kernels, by value: one parameter, whose tensor maps lie at multiples of
 * 64 bytes as the copy engine wants them. Read by C11, by CUDA C and by NVRTC.
 *
 * A unit is what tiles of rows are cut from: one query head of one batch entry, or, where the query heads of a group
 * are packed, one K/V head: row r of the unit is then position r >> pack of head r % (1 << pack) of the group. */
#ifndef ATT_FWD_SM90_PARAMS_H
#define ATT_FWD_SM90_PARAMS_H

#include "kernels/fwd_mask_params.h"
#include "kernels/fwd_params.h"
#include "kernels/tensor_map.h"

/* 16 rows of a tile, of which some are to be computed again in float64: a list of these that their warp keeps. Entry i is for
 * rows 16 * (i % (TILE_M / 16)) and on of tile i / (TILE_M / 16). */
typedef struct att_fwd_redo {
    unsigned rows; /* a bit a row */
    int next;      /* an index, -1: the last */
} att_fwd_redo;

typedef struct att_fwd_sm90_params {
    /* (column, head of a packed group, position, head or group, batch entry); boxes of 64 columns and 64 rows */
    att_tensor_map q, o;
    /* (column, key, head, batch entry or page); boxes of 64 columns and `copy_rows` keys */
    att_tensor_map k, v;
    att_fwd_params fwd; /* row_blocks: tiles of rows in a unit */
    att_fwd_divisor by_heads; /* units of a batch entry */
    int tiles;     /* units * row_blocks; 0: reset next_tile, nothing else */
    int units;     /* batch entries * heads, or * K/V heads */
    int section;   /* units whose tiles are taken together, those with most keys first; 1: unit after unit */
    int last_blocks; /* row blocks of every unit that are taken after all sections */
    int top_rows;  /* that the first tile of a unit lacks, and not the last: under a causal mask it sees the fewest keys */
    int pack;      /* log2 of the query heads in a tile, at most 4 */
    int copy_rows; /* keys that one copy of K or V brings: TILE_N, or a page where that is less */
    unsigned *next_tile; /* counts the tiles that blocks asked for, 0 at the start; NULL: tile t goes to block t % gridDim.x */
    att_fwd_redo *redo;  /* tiles * (TILE_M / 16) */
} att_fwd_sm90_params;

/* Softcap: a product becomes cap * tanh(scale * product / cap), in units of log2. That is the product times a polynomial of its square,
 * whose coefficients hold scale and cap: a short one up to `near_reach`, a longer one up to `far_reach`; beyond, most * tanh by
 * exp(-2|x|) = 2^(decay * |product|). */
enum { ATT_SOFTCAP_NEAR = 2, ATT_SOFTCAP_FAR = 4 }; /* degrees */
typedef struct att_fwd_softcap {
    float near[ATT_SOFTCAP_NEAR + 1], far[ATT_SOFTCAP_FAR + 1];
    float near_reach, far_reach, decay, most;
} att_fwd_softcap;

/* An additive bias of Q's type. A size of 1: the same for all. */
typedef struct att_fwd_bias {
    att_tensor_map map; /* (key, row, head, batch entry); boxes of 32 or 64 keys and of 64 rows, or of 1 */
    int rows, heads, batches;
} att_fwd_bias;

/* What rows with features take instead. */
typedef struct att_fwd_sm90_feature_params {
    att_fwd_sm90_params plain;
    att_fwd_bias bias;
    att_fwd_softcap softcap;
    att_fwd_mask mask; /* what fwd_mask made of a boolean mask */
} att_fwd_sm90_feature_params;

#endif
