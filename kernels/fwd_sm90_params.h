/* fwd_sm90_params.h: parameters that the host passes by value to the Hopper kernels, in one
 * struct, whose tensor maps are at multiples of 64 bytes, as the copy engine requires. Read as
 * C11, as CUDA C and by NVRTC.
 *
 * Tiles of rows are cut from units. A unit is one query head of one batch entry or, if the
 * query heads of a group are packed, one K/V head; row r of the unit is then position r >> pack
 * of head r % (1 << pack) of the group. */
#ifndef ATT_FWD_SM90_PARAMS_H
#define ATT_FWD_SM90_PARAMS_H

#include "kernels/fwd_mask_params.h"
#include "kernels/fwd_params.h"
#include "kernels/tensor_map.h"

/* 16 rows of a tile, some of which must be recomputed in float64, as an entry of a list kept by
 * their warp. Entry i is for rows 16 * (i % (TILE_M / 16)) and on of tile i / (TILE_M / 16). */
typedef struct att_fwd_redo {
    unsigned rows; /* one bit per row */
    int next;      /* an index; -1: the last */
} att_fwd_redo;

typedef struct att_fwd_sm90_params {
    /* (column, head of a packed group, position, head or group, batch entry); boxes of 64
     * columns and 64 rows */
    att_tensor_map q, o;
    /* (column, key, head, batch entry or page); boxes of 64 columns and `copy_rows` keys */
    att_tensor_map k, v;
    att_fwd_params fwd; /* row_blocks: tiles of rows per unit */
    att_fwd_divisor by_heads; /* units per batch entry */
    int tiles;     /* units * row_blocks; 0: reset next_tile, nothing else */
    int units;     /* batch entries * heads, or * K/V heads */
    int section;   /* units whose tiles are interleaved, longest first; 1: unit by unit */
    int last_blocks; /* row blocks of every unit that are taken after all sections */
    int top_rows;  /* rows that a unit's first tile lacks, not its last: causal, fewest keys */
    int pack;      /* log2 of the query heads in a tile, at most 4 */
    int copy_rows; /* keys per copy of K or V: TILE_N; pages: a divisor of it and of a page */
    unsigned *next_tile; /* counts tiles claimed, from 0; NULL: tile t to block t % gridDim.x */
    att_fwd_redo *redo;  /* tiles * (TILE_M / 16) */
} att_fwd_sm90_params;

/* Softcap: a product becomes cap * tanh(scale * product / cap), in units of log2. That is the
 * product times a polynomial in its square, whose coefficients include scale and cap: a short
 * one up to `near_reach`, a longer one up to `far_reach`. Beyond that it is most * tanh, from
 * exp(-2|x|) = 2^(decay * |product|). */
enum { ATT_SOFTCAP_NEAR = 2, ATT_SOFTCAP_FAR = 4 }; /* degrees */
typedef struct att_fwd_softcap {
    float near[ATT_SOFTCAP_NEAR + 1], far[ATT_SOFTCAP_FAR + 1];
    float near_reach, far_reach, decay, most;
} att_fwd_softcap;

/* An additive bias of Q's type. A size of 1 means the same for all. */
typedef struct att_fwd_bias {
    att_tensor_map map; /* (key, row, head, batch entry); 32 or 64 keys by 64 rows or 1 */
    int rows, heads, batches;
} att_fwd_bias;

/* The parameters of rows with features. */
typedef struct att_fwd_sm90_feature_params {
    att_fwd_sm90_params plain;
    att_fwd_bias bias;
    att_fwd_softcap softcap;
    att_fwd_mask mask; /* what fwd_mask made from a boolean mask */
} att_fwd_sm90_feature_params;

#endif
