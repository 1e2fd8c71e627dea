/* family.c: how a row is planned and launched. */
#include "cuda/family.h"

#include <string.h>

att_cuda_family att_cuda_family_of(const att_cuda_kernel *kernel) {
    if (kernel->role == ATT_ROLE_RUNG)
        return ATT_CUDA_RUNG;
    if (strcmp(kernel->source, "fwd_decode_sm90") == 0)
        return ATT_CUDA_CLUSTER;
    return strncmp(kernel->source, "fwd_sm90", strlen("fwd_sm90")) == 0 ? ATT_CUDA_HOPPER
                                                                        : ATT_CUDA_BLOCKS;
}
