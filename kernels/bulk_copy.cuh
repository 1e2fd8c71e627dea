/* bulk_copy.cuh: Hopper's copy engine without a tensor map: contiguous runs of at least 16
 * bytes, at multiples of 16 bytes. Also stores of four-dimensional boxes (sm_90 and newer). The
 * rest is in tma.cuh. */
#ifndef ATT_BULK_COPY_CUH
#define ATT_BULK_COPY_CUH

#include "kernels/tma.cuh"

/* Copy `bytes` to shared memory; completion is signalled at `barrier`. */
DEVICE void bulk_load(unsigned to, const void *from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
                 "[%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* From shared memory to global memory: store, or add as float32. Wait for them as for tensor
 * stores. */
DEVICE void bulk_store(void *to, unsigned from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}

DEVICE void bulk_add(float *to, unsigned from, int bytes) {
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
        "r"(from), "r"(bytes)
        : "memory");
}

/* Wait until all of this thread's stores, except the last group, have read shared memory. */
DEVICE void bulk_wait_read_all_but_last(void) {
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
}

/* Order this thread's copies to global memory before later accesses to it by others, and the
 * reverse. */
DEVICE void bulk_fence(void) {
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

DEVICE void tma_store_4d(const att_tensor_map *map, unsigned from, int c0, int c1, int c2,
                         int c3) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::
            "l"(map),
        "r"(from), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
        : "memory");
}

#endif
