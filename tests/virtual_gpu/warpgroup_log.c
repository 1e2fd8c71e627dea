/* warpgroup_log.c: what the four warps of a warpgroup must all do, in the same order and with
 * the same operands. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/warpgroup_log.h"

#include <stdlib.h>

#include "tests/virtual_gpu/checks.h"

static vgpu_warp *first_of(const vgpu_warp *warp) {
    return &warp->block->warps[warp->index / WARPGROUP_WARPS * WARPGROUP_WARPS];
}

static void append(warpgroup_log *log, const warpgroup_event *event) {
    if (log->count == log->room) {
        log->room = log->room ? 2 * log->room : 64;
        log->events = allocate_grown(log->events, (size_t)log->room * sizeof *log->events);
    }
    log->events[log->count++] = *event;
}

/* Drop the events that all four have had. */
static void trim(warpgroup_log *log) {
    long least = log->had[0];
    for (int i = 1; i < WARPGROUP_WARPS; i++)
        least = log->had[i] < least ? log->had[i] : least;
    const int over = (int)(least - log->first);
    if (over < log->room / 2 || over == 0)
        return;
    memmove(log->events, log->events + over, (size_t)(log->count - over) * sizeof *log->events);
    log->count -= over;
    log->first = least;
}

void warpgroup_agree(vgpu_warp *warp, const warpgroup_event *event) {
    if (first_of(warp)->index + WARPGROUP_WARPS > warp->block->warps_count)
        vgpu_fail(CHECK_CONVERGENCE, "%s in a warpgroup that has fewer than four warps",
                  event->instruction->name);
    warpgroup_log *log = warpgroup_log_of(first_of(warp));
    const long turn = log->had[warp->index % WARPGROUP_WARPS]++;
    if (turn == log->first + log->count) {
        append(log, event);
        return;
    }
    const warpgroup_event *other = &log->events[turn - log->first];
    if (other->instruction != event->instruction ||
        memcmp(other->values, event->values, sizeof other->values) != 0)
        vgpu_fail(CHECK_CONVERGENCE,
                  "%s of warp %d differs from what another warp of its warpgroup does in the "
                  "same turn: %s",
                  event->instruction->name, warp->index,
                  other->instruction != event->instruction ? other->instruction->name
                                                           : "other operands");
    trim(log);
}

void warpgroup_ended(const vgpu_warp *warp) {
    const vgpu_warp *first = first_of(warp);
    if (first->index + WARPGROUP_WARPS > warp->block->warps_count || !first->wgmma)
        return;
    const warpgroup_log *log = warpgroup_log_of(first_of(warp));
    for (int i = 0; i < WARPGROUP_WARPS; i++)
        if (first[i].live != 0 && &first[i] != warp)
            return;
    for (int i = 1; i < WARPGROUP_WARPS; i++)
        if (log->had[i] != log->had[0])
            vgpu_fail(CHECK_CONVERGENCE,
                      "warps %d and %d of a warpgroup had %ld and %ld products and changes of "
                      "registers",
                      first->index, first[i].index, log->had[0], log->had[i]);
}

void warpgroup_log_free(warpgroup_log *log) {
    free(log->events);
    *log = (warpgroup_log){0};
}
