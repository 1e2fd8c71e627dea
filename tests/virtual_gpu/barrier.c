/* barrier.c: numbered barriers of a block, and the barrier of a cluster. */
#include "tests/virtual_gpu/allocate.h"
#include "tests/virtual_gpu/barrier.h"

#include <stdlib.h>

#include "tests/virtual_gpu/checks.h"
#include "tests/virtual_gpu/schedule.h"

static void open_barrier(vgpu_barrier *barrier) {
    races_flip(&barrier->races);
    for (int i = 0; i < barrier->waiting_count; i++) {
        races_take(&barrier->races, barrier->waiting[i]);
        lane_wake(barrier->waiting[i]);
    }
    barrier->waiting_count = 0;
    barrier->arrived = 0;
}

static void add_waiting(vgpu_barrier *barrier, vgpu_lane *lane) {
    if (!barrier->waiting)
        barrier->waiting =
            allocate_zeroed((size_t)lane->block->lanes_count, sizeof(*barrier->waiting));
    barrier->waiting[barrier->waiting_count++] = lane;
}

void barrier_arrive(vgpu_lane *lane, int id, int threads, bool wait) {
    if (id < 0 || id >= NAMED_BARRIERS)
        vgpu_fail(CHECK_COUNT, "there is no barrier %d: they are numbered 0 to 15", id);
    if (threads % WARP_LANES != 0 || threads > lane->block->lanes_count)
        vgpu_fail(CHECK_COUNT, "barrier %d of %d threads in a block of %d", id, threads,
                  lane->block->lanes_count);
    vgpu_barrier *barrier = &lane->block->barriers[id];
    const int expected = threads ? threads : lane->block->live;
    if (barrier->arrived > 0 && threads && barrier->expected != threads)
        vgpu_fail(CHECK_COUNT, "barrier %d is for %d threads here and for %d elsewhere", id,
                  threads, barrier->expected);
    barrier->expected = expected;
    races_leave(&barrier->races, lane);
    barrier->arrived++;
    if (barrier->arrived < expected) {
        lane->waits_for = (unsigned)id;
        if (!wait) {
            lane_yield(lane);
            return;
        }
        add_waiting(barrier, lane);
        lane_block(lane, LANE_AT_BARRIER);
        return;
    }
    open_barrier(barrier);
    if (wait)
        races_take(&barrier->races, lane);
    lane_yield(lane);
}

/* __syncthreads() waits only for live threads. */
void barrier_lane_ended(vgpu_lane *lane) {
    vgpu_barrier *barrier = &lane->block->barriers[0];
    if (barrier->arrived > 0 && barrier->arrived >= lane->block->live)
        open_barrier(barrier);
}

void vgpu_syncthreads(const char *file, int line) {
    barrier_arrive(vgpu_lane_at(file, line), 0, 0, true);
}

void cluster_arrive(vgpu_lane *lane, bool release) {
    vgpu_cluster *cluster = lane->block->cluster;
    if (lane->cluster_phase > cluster->phase)
        vgpu_fail(CHECK_COUNT, "a thread arrives twice at the barrier of the cluster");
    lane->cluster_phase = cluster->phase + 1;
    if (release)
        races_leave(&cluster->races, lane);
    else
        races_leave_clock(&cluster->races, lane->made_barriers);
    if (++cluster->arrived == cluster->count * lane->block->lanes_count) {
        cluster->arrived = 0;
        cluster->phase++;
        races_flip(&cluster->races);
        for (int b = 0; b < cluster->count; b++)
            for (int i = 0; i < cluster->blocks[b].lanes_count; i++)
                if (cluster->blocks[b].lanes[i].state == LANE_AT_CLUSTER)
                    lane_wake(&cluster->blocks[b].lanes[i]);
    }
    lane_yield(lane);
}

void cluster_wait(vgpu_lane *lane, bool acquire) {
    const vgpu_cluster *cluster = lane->block->cluster;
    if (lane->cluster_phase == 0)
        vgpu_fail(CHECK_COUNT, "a thread waits at the barrier of the cluster without having "
                               "arrived there");
    while (cluster->phase < lane->cluster_phase)
        lane_block(lane, LANE_AT_CLUSTER);
    if (acquire)
        races_take(&cluster->races, lane);
}
