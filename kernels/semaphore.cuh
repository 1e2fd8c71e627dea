/* semaphore.cuh: counters in global memory by which blocks wait for each other. */
#ifndef ATT_SEMAPHORE_CUH
#define ATT_SEMAPHORE_CUH

#include "kernels/config.cuh"

DEVICE unsigned semaphore_read(const unsigned *counter) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
    return value;
}

/* What this thread wrote before is seen by those who read the counter then. */
DEVICE void semaphore_count(unsigned *counter) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

/* Wait until the counter is at least `value`. Whoever is waited for must be running already: a wait of seconds is a fault, and ends the kernel. */
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
