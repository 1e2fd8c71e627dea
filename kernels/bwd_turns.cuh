/* bwd_turns.cuh: sums in global memory to which warps of different blocks add one after the
 * other: wait for the turn, add, pass it on. Reads of what others wrote bypass L1. */
#ifndef ATT_BWD_TURNS_CUH
#define ATT_BWD_TURNS_CUH

#include "kernels/semaphore.cuh"

/* Wait until `turns` warps have passed the turn on. Every lane must call this. */
DEVICE void wait_for_turn(const unsigned *counter, unsigned turns) {
    if (threadIdx.x % 32 == 0)
        semaphore_wait(counter, turns);
    __syncwarp();
}

/* Pass the turn on. Earlier writes of the warp's lanes are visible to the next. */
DEVICE void pass_turn(unsigned *counter) {
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        semaphore_count(counter);
}

DEVICE void add_in_turn(float *to, float x) {
    asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory");
}

DEVICE float load_in_turn(const float *from) {
    float x;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(from) : "memory");
    return x;
}

#endif
