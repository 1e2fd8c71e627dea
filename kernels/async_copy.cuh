/* async_copy.cuh: asynchronous copies from global to shared memory (cp.async). */
#ifndef ATT_ASYNC_COPY_CUH
#define ATT_ASYNC_COPY_CUH

#include "kernels/config.cuh"

/* Start a copy of 16 bytes. The first `bytes` (0 or 16) are read, the rest are zero-filled.
 * Both addresses must be multiples of 16. */
DEVICE void async_copy_16(unsigned shared, const void *global, int bytes) {
    if (!USE_ASYNC_COPY)
        *(uint4 *)__cvta_shared_to_generic(shared) =
            bytes ? __ldg((const uint4 *)global) : make_uint4(0, 0, 0, 0);
    else if (USE_L2_PREFETCH)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                     "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
                     : "memory");
}

/* Close the group of copies started since the last call. */
DEVICE void async_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Arrive at a barrier (mbarrier.cuh) once this thread's copies so far have landed. The arrival is
 * one of those that the barrier was initialised for. */
DEVICE void async_arrive(unsigned barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/* Wait until at most N (a constant) of this thread's groups are still in flight. */
#define ASYNC_WAIT(N) asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory")

#endif
