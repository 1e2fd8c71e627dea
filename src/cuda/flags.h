/* flags.h: the compiler flags of a kernel, from its row; the same for nvcc at build time and
 * for NVRTC. */
#ifndef ATT_CUDA_FLAGS_H
#define ATT_CUDA_FLAGS_H

#include <stddef.h>

#include "cuda/row.h"

enum { ATT_CUDA_FLAGS_MAX = 512 };

/* "-DKERNEL=<id> -DROLE=PLAIN -DDTYPE=F16 -DD_QK=64 ...". */
void att_cuda_flags(char out[ATT_CUDA_FLAGS_MAX], const att_cuda_kernel *kernel);

#endif
