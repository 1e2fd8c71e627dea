/* fwd_mask_params.h: the tile lists that fwd_mask makes from a boolean mask and fwd_sm90 reads.
 * Read as C11, as CUDA C and by NVRTC.
 *
 * A list is what a tile of rows sees: tile_m rows of one unit (fwd_sm90_params.h) under one
 * mask. It includes causal mask, window and lengths: the attention kernel needs nothing
 * else. */
#ifndef ATT_FWD_MASK_PARAMS_H
#define ATT_FWD_MASK_PARAMS_H

#include "kernels/fwd_params.h"

enum {
    ATT_MASK_WARP_ROWS = 16, /* rows per warp; a lane has two, 8 apart */
    ATT_MASK_CLUSTER = 8,    /* blocks that divide the keys of a list */
    ATT_MASK_SPAN = 32,      /* tiles of keys that a block classifies between two barriers */
    ATT_MASK_WARPS_MOST = 16 /* 256 rows */
};

/* What the rows of a warp see of a tile of keys: two bits per warp. */
enum { ATT_MASK_PART = 0, ATT_MASK_ALL = 1, ATT_MASK_NONE = 2 };

/* A tile of keys that some row sees. */
typedef struct att_fwd_mask_tile {
    int tile;
    unsigned kinds; /* ATT_MASK_PART ... of warp w in bits 2w and 2w + 1 */
} att_fwd_mask_tile;

/* What a lane's two rows see of a tile of keys: bit 2n + e is column 8n + 2 (lane % 4) + e, as
 * in wgmma results. */
typedef struct att_fwd_mask_bits {
    unsigned row[2];
} att_fwd_mask_bits;

/* List l is row block l % row_blocks of mask l / row_blocks; a mask is one of `batches` *
 * `heads`. Each of the three is 1 if all batch entries, all units of one, or all rows see the
 * same. */
typedef struct att_fwd_mask {
    int *counts;              /* (list): tiles of keys to visit */
    att_fwd_mask_tile *tiles; /* (list, key_tiles): those, in ascending order */
    att_fwd_mask_bits *bits;  /* (list, key_tiles, tile_m / 16, 32): warps that see a part */
    int batches, heads, row_blocks;
    int key_tiles; /* of seq_k keys */
} att_fwd_mask;

typedef struct att_fwd_mask_params {
    att_fwd_params fwd;
    att_fwd_mask mask;
    int tile_m, tile_n;  /* of the attention kernel */
    int top_rows, pack;  /* of att_fwd_sm90_params */
    int width;           /* bytes per read: 16; 4 if keys are contiguous; otherwise 1 */
    unsigned *next_tile; /* set to 0 for the attention kernel */
} att_fwd_mask_params;

#endif
