/* barrier.h: numbered barriers of a block, of a cluster, and those in shared memory. */
#ifndef ATT_VGPU_BARRIER_H
#define ATT_VGPU_BARRIER_H

#include "tests/virtual_gpu/lanes.h"

/* bar.sync (wait) and bar.arrive. 0 threads: all of the block. */
void barrier_arrive(vgpu_lane *lane, int id, int threads, bool wait);
void barrier_lane_ended(vgpu_lane *lane);

/* barrier.cluster. */
void cluster_arrive(vgpu_lane *lane, bool release);
void cluster_wait(vgpu_lane *lane, bool acquire);

void mbarrier_init(vgpu_lane *lane, unsigned address, int arrivals);
void mbarrier_inval(vgpu_lane *lane, unsigned address);

/* An arrival of the lane; `expected` more bytes must arrive in this phase. */
void mbarrier_arrive(vgpu_lane *lane, unsigned address, int arrivals, long long expected);

/* More bytes are expected, without an arrival. */
void mbarrier_expect(unsigned address, long long bytes);

/* Bytes have arrived; waiters then know what `clock` knows (NULL: nothing). */
void mbarrier_complete(unsigned address, long long bytes, const races_clock *clock);

/* The lane sends bytes to it: the lane must know that the mbarrier was initialised, and so must
 * the copy engine, if that delivers them. */
void mbarrier_used(vgpu_lane *lane, unsigned address, bool by_copy_engine);

/* Whether the phase of that parity is over. mbarrier_wait() returns when it is. */
bool mbarrier_is_over(unsigned address, int parity);
void mbarrier_wait(vgpu_lane *lane, unsigned address, int parity);

void barriers_free(vgpu_block *block);

#endif
