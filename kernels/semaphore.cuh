/* semaphore.cuh: counters in global memory with which blocks wait for each other. */
#ifndef ATT_SEMAPHORE_CUH
#define ATT_SEMAPHORE_CUH

#include "kernels/config.cuh"

DEVICE unsigned semaphore_read(const unsigned *counter) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

/* Count up. This thread's earlier writes are visible to anyone who then reads the counter. */
DEVICE void semaphore_count(unsigned *counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

/* Wait until the counter is at least `value`. The thread that is waited for must already be
 * running: a wait of seconds is an error and traps the kernel. */
DEVICE void semaphore_wait(const unsigned *counter, unsigned value) {
    enum { POLLS_MOST = 1 << 24 };
#pragma unroll 1
    for (int polls = 0; semaphore_read(counter) < value; polls++) {
        asm volatile("nanosleep.u32 20;");
        if (polls == POLLS_MOST)
            asm volatile("trap;");
    }
}

#endif
