/* cluster.cuh: blocks of a cluster write into each other's shared memory (sm_90 and newer).
 *
 * A block may be written to once it has started, and must not end before what is sent to it has arrived. What is sent counts,
 * in bytes, at a barrier (mbarrier.cuh) of the block that it is sent to. */
#ifndef ATT_CLUSTER_CUH
#define ATT_CLUSTER_CUH

#include "kernels/config.cuh"

/* This thread is here, and its barriers are made (mbarrier_init_done); of other writes this says nothing. */
DEVICE void cluster_arrive(void) {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/* The same, and what it wrote can be read by all who wait. */
DEVICE void cluster_publish(void) {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

/* Every thread of the cluster has arrived. */
DEVICE void cluster_wait(void) {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* An address of this block's shared memory as the same place of another block. */
DEVICE unsigned cluster_address(unsigned own, int block) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
    return there;
}

/* Send 16 bytes to `to`; they arrive at `barrier`, of the same block. */
DEVICE void cluster_send_16(unsigned to, unsigned barrier, float4 x) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%2, %3, %4, %5}, [%1];" ::"r"(to),
                 "r"(barrier), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w)
                 : "memory");
}

/* The same of 8 bytes. */
DEVICE void cluster_send_8(unsigned to, unsigned barrier, float2 x) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%2, %3}, [%1];" ::"r"(to), "r"(barrier),
                 "f"(x.x), "f"(x.y)
                 : "memory");
}

#endif
