/* programmatic_launch.cuh: let the next kernel on the stream start before this one has ended (sm_90 and newer; elsewhere
 * kernels follow each other, and both calls are nothing). */
#ifndef ATT_PROGRAMMATIC_LAUNCH_CUH
#define ATT_PROGRAMMATIC_LAUNCH_CUH

#include "kernels/config.cuh"

/* Blocks of the next kernel may be placed once every block of this one has called, or ended. */
DEVICE void allow_next_kernel(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Wait until the kernel before this one has ended and what it wrote can be read. */
DEVICE void wait_for_previous_kernel(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif
