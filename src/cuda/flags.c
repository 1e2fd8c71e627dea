/* flags.c: the columns of a row as -D flags. Also part of the build's own tool
 * (scripts/cuda_rows.c). */
#include "cuda/flags.h"

#include <stdio.h>

#include "cuda/shape.h"

static const char *role_name(att_cuda_role role) {
    switch (role) {
    case ATT_ROLE_PLAIN:
        return "PLAIN";
    case ATT_ROLE_GENERAL:
        return "GENERAL";
    case ATT_ROLE_DECODE:
        return "DECODE";
    case ATT_ROLE_COMBINE:
        return "COMBINE";
    case ATT_ROLE_RUNG:
        return "RUNG";
    case ATT_ROLE_SMALL:
        return "SMALL";
    case ATT_ROLE_MASK:
        return "MASK";
    case ATT_ROLE_SPLIT:
        return "SPLIT";
    case ATT_ROLE_STEP:
        return "STEP";
    }
    return "UNKNOWN";
}

static const char *type_name(att_dtype dtype) {
    switch (dtype) {
    case ATT_F32:
        return "F32";
    case ATT_F16:
        return "F16";
    case ATT_BF16:
        return "BF16";
    default:
        return "ANY";
    }
}

void att_cuda_flags(char out[ATT_CUDA_FLAGS_MAX], const att_cuda_kernel *kernel) {
    char features[32] = ""; /* empty for rows without features: code depends on its flags */
    if (kernel->features)
        snprintf(features, sizeof features, " -DFEATURES=%u", (unsigned)kernel->features);
    snprintf(out, ATT_CUDA_FLAGS_MAX,
             "-DKERNEL=%s -DROLE=%s -DDTYPE=%s -DD_QK=%d -DD_V=%d -DTILE_M=%d -DTILE_N=%d "
             "-DSTAGES=%d -DWARPS=%d -DSHARED_BYTES=%u%s",
             kernel->id, role_name(kernel->role), type_name(kernel->dtype), kernel->d_qk,
             kernel->d_v, kernel->tile_m, kernel->tile_n, kernel->stages, kernel->warps,
             (unsigned)att_cuda_kernel_shared(kernel), features);
}
