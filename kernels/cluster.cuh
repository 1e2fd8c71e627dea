/* cluster.cuh: blocks of a cluster write to each other's shared memory (sm_90 and newer).
 *
 * A block may be written to once it has started, and must not exit before everything sent to it
 * has arrived. What is sent is counted in bytes at a barrier (mbarrier.cuh) of the receiving
 * block. */
#ifndef ATT_CLUSTER_CUH
#define ATT_CLUSTER_CUH

#include "kernels/config.cuh"

/* Arrive at the cluster barrier. This orders the initialisation of barriers
 * (mbarrier_init_done), but no other writes. */
DEVICE void cluster_arrive(void) {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/* Arrive, and make this thread's writes visible to all that wait. */
DEVICE void cluster_publish(void) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/* Wait until every thread of the cluster has arrived. */
DEVICE void cluster_wait(void) {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* The address in block `block` that corresponds to an address in this block's shared memory. */
DEVICE unsigned cluster_address(unsigned own, int block) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
    return there;
}

/* Send 16 bytes to `to`; they are counted at `barrier`, which must be in the same block. */
DEVICE void cluster_send_16(unsigned to, unsigned barrier, float4 x) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(to),
                 "r"(barrier), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
                 : "memory");
}

/* The same for 8 bytes. */
DEVICE void cluster_send_8(unsigned to, unsigned barrier, float2 x) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%2, %3}, [%1];" ::"r"(to), "r"(barrier),
                 "f"(x.x), "f"(x.y)
                 : "memory");
}

#endif
