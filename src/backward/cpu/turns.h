/* turns.h: tasks that add to the same block of d_q take turns, in the order of their keys.
 *
 * The previous task always has a lower index and has already been started by some thread
 * (pool.h hands out tasks in order). It never waits for this one, so every turn comes. */
#ifndef ATT_BACKWARD_CPU_TURNS_H
#define ATT_BACKWARD_CPU_TURNS_H

#include <sched.h>

#include "backward/cpu/gradient_job.h"

static inline void att_turn_await(att_block_fact *block, int64_t chunk) {
    enum { SPINS = 2000 }; /* some tens of microseconds, then yield the processor */
    for (int spin = 0; atomic_load_explicit(&block->turn, memory_order_acquire) != chunk;
         spin++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (spin >= SPINS)
            sched_yield();
    }
}

static inline void att_turn_pass(att_block_fact *block, int64_t chunk) {
    atomic_store_explicit(&block->turn, chunk + 1, memory_order_release);
}

#endif
