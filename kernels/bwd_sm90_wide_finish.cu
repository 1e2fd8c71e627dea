/* bwd_sm90_wide_finish.cu: the last step after bwd_sm90_wide
 * COMPUTES d_q of the tiles of TILE_M rows that no block of bwd_sm90_wide has finished; and, in
 *          float64, the d_q, d_k and d_v of tiles and keys that are not finite. A block takes
 *          one tile after another
 * THREADS  256: each thread has the same elements as a thread of the two consumer warpgroups
 * SMEM     a rounded tile, from which rows are stored 16 bytes at a time
 * NUMERICS float32; float64 for results that are not finite
 * LIMITS   d_qk <= D_QK, rows of d_q at multiples of 16 bytes
 * WHY      bound by memory: all of a thread's loads are in flight at once */
#include "kernels/bwd_sm90_finish.cuh"
#include "kernels/programmatic_launch.cuh"

#define BLOCKS_PER_SM (D_QK > 192 ? 1 : 2) /* as many as registers allow */

extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS_PER_SM)
    KERNEL(const __grid_constant__ att_bwd_params params) {
    __shared__ __align__(16) half_bits rounded[TILE_M * ROWS_PITCH];
    if (USE_EARLY_LAUNCH)
        allow_next_kernel();
    wait_for_previous_kernel();
    finish(&params, rounded);
}
