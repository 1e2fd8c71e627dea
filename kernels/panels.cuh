/* panels.cuh: tiles in shared memory as panels of 64 columns, [panel][row][64], as the tensor
 * cores of Hopper read them. */
#ifndef ATT_PANELS_CUH
#define ATT_PANELS_CUH

#include "kernels/config.cuh"

#define QK_PANELS       ((D_QK + 63) / 64)
#define V_PANELS        ((D_V + 63) / 64)
#define ROW_BYTES       128                  /* of a panel */
#define KEY_PANEL_BYTES (TILE_N * ROW_BYTES) /* of a tile of K or V */
#define K_BYTES         (KEY_PANEL_BYTES * QK_PANELS)
#define V_BYTES         (KEY_PANEL_BYTES * V_PANELS)

#endif
