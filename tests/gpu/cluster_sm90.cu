/* cluster_sm90.cu: two blocks of a cluster each have half a box copied into the shared memory of both. fwd_sm90 does not: it
 * brought nothing (docs/hopper.md); what it would be made of is kept working here. */
#include "kernels/mbarrier.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/vector.cuh"
#include "tests/gpu/primitives_sm90_params.h"

enum { THREADS = 32 * WARPS, ROW_BYTES = 128, BLOCKS = 2 };

/* The box at (c0, c1, c2, c3), at `to` in every block of `mask`; its bytes arrive at each one's own `barrier`. */
DEVICE void tma_load_4d_for(unsigned to, const att_tensor_map *map, unsigned barrier, int c0, int c1, int c2, int c3, int mask) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "h"((short)mask)
                 : "memory");
}

DEVICE void cluster_wait(void) {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/* out[block][round][row] = `rows` rows, of which each block asks for half, at rows at[1] + round * rows of k rounds. */
extern "C" __global__ void __launch_bounds__(THREADS) __cluster_dims__(BLOCKS, 1, 1)
    KERNEL(const __grid_constant__ primitives_sm90_params p) {
    extern __shared__ char shared_memory[];
    const unsigned to = (shared_address(shared_memory) + 1023) & ~1023u;
    const unsigned full = to + p.rows * ROW_BYTES, empty = full + MBARRIER_BYTES;
    const int block = (int)blockIdx.x, half = p.rows / BLOCKS;
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        mbarrier_init(empty, BLOCKS * WARPS);
        mbarrier_init_done();
    }
    cluster_wait(); /* nobody copies to a block whose barriers are not there */
    for (int round = 0; round < p.k; round++) {
        if (threadIdx.x == 0) {
            mbarrier_wait(empty, round & 1 ^ 1); /* both blocks have read the round before */
            mbarrier_expect(full, p.rows * ROW_BYTES);
            tma_load_4d_for(to + block * half * ROW_BYTES, &p.map, full, p.at[0], p.at[1] + round * p.rows + block * half, p.at[2], p.at[3],
                            (1 << BLOCKS) - 1);
        }
        mbarrier_wait(full, round & 1);
        for (int i = (int)threadIdx.x; i < p.rows * ROW_BYTES / 16; i += THREADS)
            store_16((uint4 *)p.out + (block * p.k + round) * p.rows * ROW_BYTES / 16 + i,
                     *(const uint4 *)__cvta_shared_to_generic(to + 16 * i));
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            for (int other = 0; other < BLOCKS; other++)
                mbarrier_arrive_at(empty, other);
    }
    cluster_wait(); /* nobody leaves while another arrives at its barriers */
}
