/* fwd_sm90_tiles.cuh: the tiles of the forward kernels for Hopper in shared memory. Each
 * warpgroup's 64 rows of Q and O are separate. */
#ifndef ATT_FWD_SM90_TILES_CUH
#define ATT_FWD_SM90_TILES_CUH

#include "kernels/panels.cuh"

#define Q_BYTES (64 * ROW_BYTES * QK_PANELS)
#define O_BYTES (64 * ROW_BYTES * V_PANELS)

#endif
