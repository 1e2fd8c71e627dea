/* bwd_sm90.cu: the gradients of attention on Hopper, warp-specialised
 * COMPUTES dK and dV, and the sums of dQ, which bwd_sm90_finish rounds. One block per SM; each
 *          takes key tiles until none is left. Blocks without further work turn complete sums
 *          into d_q
 * TILE     TILE_N keys; for each query head of its group, a block walks row blocks of TILE_M
 *          rows from the last to the first; D_QK and D_V in panels of 64 columns, STAGES row
 *          blocks of Q and of dO
 * THREADS  one warpgroup in which one warp loads and three store dQ, and two consumer
 *          warpgroups of 64 keys each
 * SMEM     bwd_sm90_shared.cuh
 * REGS     40 / 232 by setmaxnreg; zero spills, checked by the build
 * FLOW     tensor  S dP | dV dQ dK |     per row block; no product stays in flight at its end
 *          alu      exp   dS    dQ out
 *          copy    Q dO of the next row block; dQ of the previous one is added to its sum once
 *                  the previous key tile has been added
 * NUMERICS float32 S, P, dP, dS and sums; P and dS rounded to DTYPE as operands; dQ is summed
 *          in the order of the key tiles
 * LIMITS   d_qk <= D_QK, d_v <= D_V, rows at multiples of 16 bytes; a scale above 0; score
 *          modifications only as compiled in by FEATURES: softcap, ALiBi
 * WHY      docs/hopper-backward.md
 * SWITCHES switches.def */
#include "kernels/programmatic_launch.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/bwd_sm90_consume.cuh"
#include "kernels/bwd_sm90_produce.cuh"
#include "kernels/bwd_sm90_store.cuh"

#define THREADS (32 * WARPS)

/* All warpgroups together use at most what the launch gives the block: floor(65536 / THREADS /
 * 8) * 8 per thread. */
#define KEEP_REGISTERS 40
#define TAKE_REGISTERS 232

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    KERNEL(const __grid_constant__ att_bwd_sm90_params params) {
    extern __shared__ __align__(1024) char shared_memory[];
    const att_bwd_sm90_params *p = &params;
    const unsigned shared = shared_address(shared_memory);
    const int group = uniform((int)threadIdx.x / WARPGROUP);
    if (USE_EARLY_LAUNCH)
        allow_next_kernel();
    if (shared % 1024) /* there is no room to align it here */
        asm volatile("trap;");
    if (threadIdx.x == 0) {
        mbarrier_init(barrier_of(shared, BAR_KEYS_FULL), 1);
        mbarrier_init(barrier_of(shared, BAR_KEYS_EMPTY), 4 * GROUPS);
        for (int n = 0; n < STAGES; n++) {
            mbarrier_init(barrier_of(shared, BAR_Q_FULL + n), 1);
            mbarrier_init(barrier_of(shared, BAR_Q_EMPTY + n), 4 * GROUPS);
            mbarrier_init(barrier_of(shared, BAR_DO_FULL + n), 1);
            mbarrier_init(barrier_of(shared, BAR_DO_EMPTY + n), 4 * GROUPS);
        }
        for (int n = 0; n < STORERS * GROUPS; n++)
            mbarrier_init(barrier_of(shared, BAR_DQ_FULL + n), 4);
        for (int n = 0; n < DQ_PLACES * GROUPS; n++)
            mbarrier_init(barrier_of(shared, BAR_DQ_EMPTY + n), 1);
        init_announcement_barriers(shared);
        mbarrier_init_done();
    }
    __syncthreads();
    if (group == 0) {
        REGISTERS_KEEP(KEEP_REGISTERS);
        const int warp = uniform((int)threadIdx.x / 32);
        if (warp == 0)
            produce(p, shared);
        else if (warp <= STORERS && does_speak())
            store_sums(p, shared, warp - 1);
    } else {
        REGISTERS_TAKE(TAKE_REGISTERS);
        const int thread = (int)threadIdx.x % WARPGROUP;
        consumer c = {p,
                      shared,
                      wgmma_address(shared),
                      group - 1,
                      uniform(thread / 32),
                      thread % 32,
                      {0, 0},
                      {0, 0},
                      {0, 0},
                      0,
                      0,
                      0,
                      0,
                      0.0f};
        consume(&c);
        if (USE_FINISH_INSIDE && p->finishes_inside)
            finish_rows(&c);
        if (threadIdx.x / 32 == 4 && does_speak())
            tma_store_wait();
    }
}
