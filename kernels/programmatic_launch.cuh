/* programmatic_launch.cuh: let the next kernel on the stream start before this one has ended
 * (sm_90 and newer). On other GPUs kernels run one after the other, and both calls do
 * nothing. */
#ifndef ATT_PROGRAMMATIC_LAUNCH_CUH
#define ATT_PROGRAMMATIC_LAUNCH_CUH

#include "kernels/config.cuh"

/* Blocks of the next kernel may launch once every block of this one has called this or
 * ended. */
DEVICE void allow_next_kernel(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Wait until the previous kernel has ended and its writes are visible. */
DEVICE void wait_for_previous_kernel(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif
