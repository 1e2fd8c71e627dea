/* ring.cuh: rings of slots in shared memory, each guarded by barriers. */
#ifndef ATT_RING_CUH
#define ATT_RING_CUH

#include "kernels/config.cuh"

/* A slot of a ring, and the parity that readers wait for there. */
typedef struct ring {
    int place, parity;
} ring;

DEVICE ring ring_next(ring r, int places) {
    const bool wraps = r.place == places - 1;
    return {wraps ? 0 : r.place + 1, r.parity ^ wraps};
}

#endif
