/* warpgroup.cuh: warpgroups, four warps each: handing over registers, named barriers
 * (sm_90a). */
#ifndef ATT_WARPGROUP_CUH
#define ATT_WARPGROUP_CUH

#include "kernels/config.cuh"

enum { WARPGROUP = 128 /* threads */ };

/* The registers per thread of this warpgroup, a constant. Some warpgroups release registers and
 * others take them. Together they must not exceed what the launch gave all threads of the
 * block, or those that take wait forever. */
#define REGISTERS_KEEP(count) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count))
#define REGISTERS_TAKE(count) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count))

/* Barrier `id` (1 to 15; 0 is __syncthreads) of `threads` threads: arrive and wait, or only
 * arrive. */
DEVICE void named_barrier_wait(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

DEVICE void named_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* True in one lane of the warp; all lanes must call it. The compiler knows that it is a single
 * lane, and generates no loop over lanes around what that lane does. */
DEVICE bool elect_lane(void) {
    unsigned yes;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(yes));
    return yes != 0;
}

/* A value that is the same in all lanes, in a uniform register. */
DEVICE int uniform(int x) {
    return __shfl_sync(0xffffffffu, x, 0);
}

#endif
