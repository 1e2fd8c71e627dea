/* warp.c: what the lanes of a warp do together. */
#include "tests/virtual_gpu/warp.h"

#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"

static void begin(vgpu_warp *warp, const vgpu_lane *lane, unsigned mask, const void *operation,
                  int what) {
    if (!(mask >> lane->index & 1))
        vgpu_fail(CHECK_CONVERGENCE, "lane %d is not in the mask %08x that it gives",
                  lane->index, mask);
    warp->mask = mask & warp->live;
    warp->operation = operation;
    warp->what = what;
}

void warp_meet(vgpu_lane *lane, unsigned mask, const void *operation, int what,
               void (*execute)(vgpu_warp *warp)) {
    vgpu_warp *warp = lane->warp;
    if (warp->arrived == 0)
        begin(warp, lane, mask, operation, what);
    else if (warp->operation != operation || warp->what != what ||
             warp->mask != (mask & warp->live))
        vgpu_fail(CHECK_CONVERGENCE,
                  "lane %d comes to an operation of its warp with mask %08x, lanes %08x are in "
                  "another at %s:%d",
                  lane->index, mask, warp->arrived,
                  warp->lanes[__builtin_ctz(warp->arrived)]->at.file,
                  warp->lanes[__builtin_ctz(warp->arrived)]->at.line);
    warp->arrived |= 1u << lane->index;
    if (warp->arrived != warp->mask) {
        lane_block(lane, LANE_IN_WARP);
        return;
    }
    if (execute)
        execute(warp);
    warp->arrived = 0;
    for (int i = 0; i < warp->count; i++)
        if (warp->lanes[i]->state == LANE_IN_WARP)
            lane_wake(warp->lanes[i]);
    lane_yield(lane);
}

static bool is_in(const vgpu_warp *warp, int lane) {
    return lane >= 0 && lane < WARP_LANES && (warp->mask >> lane & 1);
}

/* The value of a missing lane is undefined: use a conspicuous one. */
static uint64_t value_of(const vgpu_warp *warp, int lane) {
    enum { UNDEFINED = 0x42c342c3 };
    return is_in(warp, lane) ? warp->lanes[lane]->value : UNDEFINED;
}

static uint64_t reduce(const vgpu_warp *warp) {
    uint32_t max = 0, min = UINT32_MAX, sum = 0, any = 0, all = UINT32_MAX;
    unsigned votes = 0;
    for (int i = 0; i < WARP_LANES; i++) {
        if (!is_in(warp, i))
            continue;
        const uint32_t x = (uint32_t)warp->lanes[i]->value;
        max = x > max ? x : max;
        min = x < min ? x : min;
        sum += x;
        any |= x;
        all &= x;
        votes |= (unsigned)(warp->lanes[i]->value != 0) << i;
    }
    switch (warp->what) {
    case VGPU_BALLOT:
        return votes;
    case VGPU_ANY:
        return votes != 0;
    case VGPU_ALL:
        return votes == warp->mask;
    case VGPU_REDUCE_MAX:
        return max;
    case VGPU_REDUCE_MIN:
        return min;
    case VGPU_REDUCE_ADD:
        return sum;
    case VGPU_REDUCE_OR:
        return any;
    default:
        return all;
    }
}

static void vote(vgpu_warp *warp) {
    const bool shuffles = warp->what == VGPU_SHUFFLE;
    const uint64_t common = shuffles ? 0 : reduce(warp);
    for (int i = 0; i < WARP_LANES; i++)
        if (is_in(warp, i))
            warp->lanes[i]->result =
                shuffles ? value_of(warp, warp->lanes[i]->other & (WARP_LANES - 1)) : common;
}

/* Of all these only __syncwarp() orders memory. */
static void sync(vgpu_warp *warp) {
    races_meet(warp, warp->mask);
}

uint64_t vgpu_vote(int what, unsigned mask, uint64_t value, int other, const char *file,
                   int line) {
    vgpu_lane *lane = vgpu_lane_at(file, line);
    lane->value = value;
    lane->other = other;
    warp_meet(lane, mask, file + line, what, what == VGPU_SYNCWARP ? sync : vote);
    return lane->result;
}
