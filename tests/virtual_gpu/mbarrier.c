/* mbarrier.c: barriers in shared memory for arrivals of threads and copies. The real state is
 * kept separately; shared memory holds a mark. */
#include <stdlib.h>
#include <string.h>

#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/barrier.h"
#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"
#include "tests/virtual_gpu/shared_memory.h"

enum { MBARRIER_BYTES = 8, ARRIVALS_MAX = (1 << 20) - 1 };
static const uint64_t mark = UINT64_C(0xb0a221e4b0a221e4);

static vgpu_mbarrier *find(const vgpu_block *block, unsigned address) {
    vgpu_mbarrier *m = block->mbarriers;
    while (m && m->address != address)
        m = m->next;
    return m;
}

static vgpu_mbarrier *mbarrier_at(unsigned address) {
    const char *place = shared_at(address, MBARRIER_BYTES, MBARRIER_BYTES, "mbarrier");
    const vgpu_block *block = shared_block(address);
    vgpu_mbarrier *m = find(block, address);
    if (!m)
        vgpu_fail(CHECK_UNINITIALISED, "no mbarrier was made at +0x%x",
                  (address & 0xffffff) - block->base);
    if (memcmp(place, &mark, sizeof mark) != 0)
        vgpu_fail(CHECK_RACE, "the mbarrier at +0x%x was overwritten",
                  (address & 0xffffff) - block->base);
    return m;
}

void mbarrier_init(vgpu_lane *lane, unsigned address, int arrivals) {
    if (arrivals < 1 || arrivals > ARRIVALS_MAX)
        vgpu_fail(CHECK_COUNT, "an mbarrier of %d arrivals", arrivals);
    char *place = shared_at(address, MBARRIER_BYTES, MBARRIER_BYTES, "mbarrier.init");
    shared_touch(lane, address, MBARRIER_BYTES, SHARED_WRITE, "mbarrier.init");
    memcpy(place, &mark, sizeof mark);
    vgpu_block *block = shared_block(address);
    vgpu_mbarrier *m = find(block, address);
    if (!m) {
        m = allocate_zeroed(1, sizeof *m);
        m->next = block->mbarriers;
        block->mbarriers = m;
    }
    m->address = address;
    m->expected = m->pending = arrivals;
    m->bytes = 0;
    m->phase = 0;
}

void mbarrier_inval(vgpu_lane *lane, unsigned address) {
    vgpu_mbarrier *m = mbarrier_at(address);
    vgpu_mbarrier **link = &lane->block->mbarriers;
    while (*link && *link != m)
        link = &(*link)->next;
    if (!*link)
        vgpu_fail(CHECK_BOUNDS, "mbarrier.inval of another block's");
    *link = m->next;
    races_forget(&m->races);
    free(m);
}

static void settle(vgpu_mbarrier *m) {
    if (m->pending > 0 || m->bytes != 0)
        return;
    m->phase++;
    m->pending = m->expected;
    races_flip(&m->races);
    vgpu_block *block = shared_block(m->address);
    for (int i = 0; i < block->lanes_count; i++)
        if (block->lanes[i].state == LANE_AT_MBARRIER &&
            block->lanes[i].waits_for == m->address) {
            races_take(&m->races, &block->lanes[i]);
            lane_wake(&block->lanes[i]);
        }
}

/* The lane must know of its initialisation, which is a write like any other. */
static void check_known(vgpu_lane *lane, unsigned address) {
    vgpu_block *block = shared_block(address);
    races_shared(lane, block, (address & 0xffffff) - block->base, MBARRIER_BYTES, RACES_READ,
                 "mbarrier");
}

void mbarrier_used(vgpu_lane *lane, unsigned address, bool by_copy_engine) {
    mbarrier_at(address);
    shared_touch(lane, address, MBARRIER_BYTES,
                 by_copy_engine ? SHARED_ASYNC_READ : SHARED_READ, "mbarrier");
}

void mbarrier_arrive(vgpu_lane *lane, unsigned address, int arrivals, long long expected) {
    vgpu_mbarrier *m = mbarrier_at(address);
    check_known(lane, address);
    races_leave(&m->races, lane);
    m->bytes += expected;
    m->pending -= arrivals;
    if (m->pending < 0)
        vgpu_fail(CHECK_COUNT, "mbarrier +0x%x: more arrivals than its %d in phase %u",
                  (address & 0xffffff) - shared_block(address)->base, m->expected, m->phase);
    settle(m);
}

void mbarrier_expect(unsigned address, long long bytes) {
    mbarrier_at(address)->bytes += bytes;
}

void mbarrier_complete(unsigned address, long long bytes, const races_clock *clock) {
    vgpu_mbarrier *m = mbarrier_at(address);
    races_leave_clock(&m->races, clock);
    m->bytes -= bytes;
    settle(m);
}

bool mbarrier_is_over(unsigned address, int parity) {
    return (mbarrier_at(address)->phase & 1) != (unsigned)parity;
}

void mbarrier_wait(vgpu_lane *lane, unsigned address, int parity) {
    check_known(lane, address);
    if (mbarrier_is_over(address, parity)) {
        races_take(&mbarrier_at(address)->races, lane);
        return;
    }
    lane->waits_for = address;
    lane->parity = parity;
    lane_block(lane, LANE_AT_MBARRIER);
    if (!mbarrier_is_over(address, parity))
        vgpu_fail(
            CHECK_COUNT,
            "a lane waited at mbarrier +0x%x for a phase of parity %d; it is over, and so is "
            "the next phase: by its parity the lane would wait on",
            (address & 0xffffff) - shared_block(address)->base, parity);
}

void barriers_free(vgpu_block *block) {
    while (block->mbarriers) {
        vgpu_mbarrier *m = block->mbarriers;
        block->mbarriers = m->next;
        races_forget(&m->races);
        free(m);
    }
    for (int i = 0; i < NAMED_BARRIERS; i++) {
        races_forget(&block->barriers[i].races);
        free(block->barriers[i].waiting);
    }
}
