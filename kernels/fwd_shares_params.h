/* fwd_shares_params.h: parameters that the host passes by value to fwd_decode_shares and
 * fwd_decode_join. Read as C11, as CUDA C and by NVRTC.
 *
 * The work on all tiles of rows, one tile after the other, is cut into equal shares, one per
 * block. It is counted in steps over keys, and beginning a tile counts like some steps. A tile
 * that a cut divides has several parts, each of another share. A share has at most two parts of
 * such tiles: at its beginning, of a tile that an earlier share opened, and at its end, of a tile
 * that it opens itself. */
#ifndef ATT_FWD_SHARES_PARAMS_H
#define ATT_FWD_SHARES_PARAMS_H

#include "kernels/fwd_params.h"

/* The tile that a share opens and the following ones complete. */
typedef struct att_fwd_opened {
    int batch, head_kv;
    int row0;  /* the tile's first row, among the positions of the query heads of a group */
    int parts; /* this share's included; 0: the share leaves no tile unfinished */
} att_fwd_opened;

typedef struct att_fwd_shares_params {
    /* The parts' order is (share, beginning or end, row of the tile). */
    att_fwd_params fwd;
    att_fwd_opened *opened; /* one per share */
    int shares;             /* at most; few keys make fewer */
    int tile_rows;          /* of a tile of fwd_decode_shares */
    int prefetch;           /* keys per share, at most, before the previous kernel has ended */
    int opening;            /* the steps over keys that beginning a tile is worth */
} att_fwd_shares_params;

#endif
