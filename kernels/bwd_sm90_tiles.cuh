/* bwd_sm90_tiles.cuh: the tiles that bwd_sm90 and bwd_sm90_wide both have in shared memory, and
 * the warps that work on them. */
#ifndef ATT_BWD_SM90_TILES_CUH
#define ATT_BWD_SM90_TILES_CUH

#include "kernels/bwd_params.h"
#include "kernels/panels.cuh"
#include "kernels/switches_bwd.cuh"
#include "kernels/warpgroup.cuh"

#define GROUPS  2                          /* consumer warpgroups */
#define STORERS (USE_MORE_STORERS ? 3 : 1) /* warps that store dQ, in turn */
static_assert(WARPS == 4 * (GROUPS + 1),
              "a warpgroup that loads and stores, and the consumers");

#define PANEL_BYTES (TILE_M * ROW_BYTES) /* of a row block of Q or dO */
#define Q_BYTES     (PANEL_BYTES * QK_PANELS)
#define DO_BYTES    (PANEL_BYTES * V_PANELS)
#define ROWS_BYTES  (TILE_M * ATT_BWD_TERMS * 4) /* log-sum and delta of each row */

/* A block begins with K and V of a key tile, then a ring of Q and one of dO. */
#define K_AT  0
#define V_AT  (K_AT + K_BYTES)
#define Q_AT  (V_AT + V_BYTES)
#define DO_AT (Q_AT + STAGES * Q_BYTES)

#define SHARED_SLACK 512 /* barriers, records and notes */

#endif
