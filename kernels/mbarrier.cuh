/* mbarrier.cuh: barriers in shared memory that threads and the copy engine arrive at (sm_90 and
 * newer).
 *
 * A barrier runs through phases. A phase completes when the number of arrivals given at
 * initialisation and all expected bytes have come. A wait names the parity of a phase and
 * returns once that phase is complete. A consumer starts with parity 0; a producer, for which
 * every slot is empty at the start, with 1. */
#ifndef ATT_MBARRIER_CUH
#define ATT_MBARRIER_CUH

#include "kernels/config.cuh"

enum { MBARRIER_BYTES = 8 };

DEVICE void mbarrier_init(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/* Call this after a thread's last mbarrier_init and before the block barrier after which others
 * use them. */
DEVICE void mbarrier_init_done(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

DEVICE void mbarrier_arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrive, and make the phase wait for `bytes` delivered by copies. */
DEVICE void mbarrier_expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* Arrive at the same barrier of another block of the cluster. */
DEVICE void mbarrier_arrive_at(unsigned barrier, int block) {
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
                 "r"(block)
                 : "memory");
}

/* mbarrier_wait for a warp that shares the SM with others: it polls again only when the phase
 * is complete, or after a long while. */
DEVICE void mbarrier_wait_long(unsigned barrier, int parity) {
    enum { NANOSECONDS = 10000000 };
    asm volatile("{\n.reg .pred over;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1, %2;\n"
                 "@over bra OVER;\n"
                 "bra AGAIN;\n"
                 "OVER:\n}" ::"r"(barrier),
                 "r"(parity), "r"(NANOSECONDS)
                 : "memory");
}

DEVICE void mbarrier_wait(unsigned barrier, int parity) {
    asm volatile("{\n.reg .pred over;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
                 "@over bra OVER;\n"
                 "bra AGAIN;\n"
                 "OVER:\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

#endif
