/* warpgroup_log.h: what the four warps of a warpgroup must all do, in the same order and with
 * the same operands. */
#ifndef ATT_VGPU_WARPGROUP_LOG_H
#define ATT_VGPU_WARPGROUP_LOG_H

#include "tests/virtual_gpu/ptx.h"

enum { WARPGROUP_WARPS = 4, EVENT_VALUES = 3 };

typedef struct warpgroup_event {
    const ptx_instruction *instruction;
    uint64_t values[EVENT_VALUES]; /* of operands that must agree */
} warpgroup_event;

/* Events that some of the warps have had. The log belongs to the first warp. */
typedef struct warpgroup_log {
    warpgroup_event *events;
    long first; /* number of events[0] */
    int count, room;
    long had[WARPGROUP_WARPS]; /* events by each warp */
} warpgroup_log;

/* The warp's next event. Fails if another warp of its warpgroup had a different one at this
 * position, or if the warpgroup is incomplete. */
void warpgroup_agree(vgpu_warp *warp, const warpgroup_event *event);

/* All warps have ended: fails if one had fewer events than another. */
void warpgroup_ended(const vgpu_warp *warp);
void warpgroup_log_free(warpgroup_log *log);

/* products.c keeps it. */
warpgroup_log *warpgroup_log_of(vgpu_warp *first);

#endif
