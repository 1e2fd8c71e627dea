/* warp.h: what the lanes of a warp do together. */
#ifndef ATT_VGPU_WARP_H
#define ATT_VGPU_WARP_H

#include "tests/virtual_gpu/lanes.h"

/* The lane is in `operation` with the lanes of its warp that `mask` names; the last to arrive
 * calls `execute` (or NULL) for all. Lanes in different operations fail. Returns when all have
 * arrived. */
void warp_meet(vgpu_lane *lane, unsigned mask, const void *operation, int what,
               void (*execute)(vgpu_warp *warp));

enum { WARP_ASM = 100 }; /* `what` of an asm statement */

#endif
