/* tma.cuh: Hopper's copy engine: boxes of a tensor to and from shared memory, started by one
 * thread (sm_90 and newer).
 *
 * Boxes are 64 columns of 16 bits wide: rows of 128 bytes, swizzled as in swizzle.cuh at that
 * pitch, on a boundary of 1024 bytes. Elements outside the tensor are loaded as zeros, count
 * among the bytes, and are not written by stores. */
#ifndef ATT_TMA_CUH
#define ATT_TMA_CUH

#include "kernels/config.cuh"
#include "kernels/tensor_map.h"

DEVICE void tma_prefetch_map(const att_tensor_map *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Load the box at (c0, c1, c2, c3); its bytes are counted at `barrier`. */
DEVICE void tma_load_4d(unsigned to, const att_tensor_map *map, unsigned barrier, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

DEVICE void tma_load_5d(unsigned to, const att_tensor_map *map, unsigned barrier, int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

/* Prefetch the box into L2. */
DEVICE void tma_ask_l2_4d(const att_tensor_map *map, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

DEVICE void tma_ask_l2_5d(const att_tensor_map *map, int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];" ::"l"(map), "r"(c0), "r"(c1), "r"(c2),
                 "r"(c3), "r"(c4)
                 : "memory");
}

/* Before a store: make this thread's writes to shared memory visible to the copy engine. */
DEVICE void tma_publish(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

DEVICE void tma_store_5d(const att_tensor_map *map, unsigned from, int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map), "r"(from), "r"(c0),
                 "r"(c1), "r"(c2), "r"(c3), "r"(c4)
                 : "memory");
}

DEVICE void tma_store_commit(void) {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Wait until this thread's stores have read shared memory, which may then be overwritten. */
DEVICE void tma_store_wait_read(void) {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/* Wait until this thread's stores have completed. */
DEVICE void tma_store_wait(void) {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

#endif
