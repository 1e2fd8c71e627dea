/* bwd_sm90_wide.cu: the gradients of attention on Hopper for head dimensions above 128,
 * warp-specialised
 * COMPUTES dK and dV, and the sums of dQ, which bwd_sm90_wide_finish rounds. One block per SM;
 *          each takes key tiles until none is left. Blocks without further work turn complete
 *          sums into d_q
 * TILE     TILE_N keys, 64 or 128; for each query head of its group, a block walks row blocks
 *          of 64 rows from the last to the first; D_QK and D_V in panels of 64 columns, STAGES
 *          row blocks of Q, one or two of dO
 * THREADS  one warpgroup in which one warp loads and three store dQ, and two consumer
 *          warpgroups. With 64 keys, each consumer computes the scores of 32 of them, and one
 *          or two panels of columns of dV, dK and dQ. With 128, each computes everything for 64
 *          keys, and half of the columns of dQ
 * SMEM     bwd_sm90_wide_shared.cuh
 * REGS     24 / 240 by setmaxnreg; zero spills, checked by the build
 * FLOW     64 keys   tensor  dP | S' dV | S' dQ dK |     per row block; S' is of the next one
 *                    alu     exp   dS      dQ out
 *          128 keys  tensor  S dP | dP dV | dQ dK dQ |     dP of 32 keys at a time
 *          copy      Q dO of the next row block; dQ is added to its sum once that of the
 *                    previous key tile has been
 *          No product stays in flight at the end of a row block
 * FLOOR    counted cycles per step for 256, 192 (64 keys), 192 and 128 columns (128 keys):
 *          tensor cores 2560, 1920, 3328; shared memory 4352, 3392, 4672, of which S and dP
 *          take 1536, 1152, 1536; dV, dK and dQ 1152, 960, 1792; storing dQ 1024, 768, 768;
 *          loads 512, 384, 320; P and dS 128, 128, 256. The registers cannot hold dK and dV of
 *          more keys
 * NUMERICS float32 S, P, dP, dS and sums; P and dS rounded to DTYPE as operands; dQ is summed
 *          in the order of the key tiles
 * LIMITS   128 < d_qk <= D_QK, d_v <= D_V, rows at multiples of 16 bytes; a scale above 0, no
 *          other score modification
 * WHY      docs/hopper-backward.md
 * SWITCHES switches.def */
#include "kernels/ldmatrix.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/bwd_sm90_wide_consume.cuh"
#include "kernels/bwd_sm90_produce.cuh"
#include "kernels/bwd_sm90_wide_store.cuh"

#define THREADS (32 * WARPS)

/* All warpgroups together use at most what the launch gives the block: floor(65536 / THREADS /
 * 8) * 8 per thread. */
#define KEEP_REGISTERS 24
#define TAKE_REGISTERS 240

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
        }
        for (int n = 0; n < DO_STAGES; n++) {
            mbarrier_init(barrier_of(shared, BAR_DO_FULL + n), 1);
            mbarrier_init(barrier_of(shared, BAR_DO_EMPTY + n), 4 * GROUPS);
        }
        for (int n = 0; n < GROUPS * DQ_PLACES; n++) {
            mbarrier_init(barrier_of(shared, BAR_DQ_FULL + n), 4);
            mbarrier_init(barrier_of(shared, BAR_DQ_EMPTY + n), 1);
        }
        for (int n = 0; n < STORERS; n++)
            mbarrier_init(barrier_of(shared, BAR_DQ_TURN + n), 1);
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
        consumer c = {p, shared, 0, 0};
        if (group == 1)
            consume(&c, 0);
        else
            consume(&c, 1);
        if (USE_FINISH_INSIDE && p->finishes_inside)
            finish_rows(&c, (int)threadIdx.x - WARPGROUP);
        if (threadIdx.x / 32 == 4 && does_speak())
            tma_store_wait();
    }
}
