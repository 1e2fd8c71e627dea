/* registry.c: the kernels of the library. */
#include "select/registry.h"

#include <string.h>

enum { ATT_ANY = 0 }; /* a dtype column: decided at run time */

/* ROW_<id>: where the row stands. */
enum {
#define ATT_CPU_KERNEL(kernel, ...)  ROW_##kernel,
#define ATT_CUDA_KERNEL(kernel, ...) ROW_##kernel,
#include "kernels/kernels.def"
    ROWS
};

static const att_kernel_row registry[ROWS] = {
#define ATT_CPU_KERNEL(kernel, set, kind, text)                                                \
    {.id = #kernel,                                                                            \
     .summary = text,                                                                          \
     .device = ATT_DEVICE_CPU,                                                                 \
     .isa = ATT_ISA_##set,                                                                     \
     .family = ATT_FAMILY_##kind,                                                              \
     .cpu = &kernel},
#define ATT_CUDA_KERNEL(kernel, file, sm, kind, type, dqk, dv, m, n, depth, warp_count, text)  \
    {.id = #kernel,                                                                            \
     .summary = text,                                                                          \
     .device = ATT_DEVICE_CUDA,                                                                \
     .cuda = &(const att_cuda_kernel){.id = #kernel,                                           \
                                      .source = #file,                                         \
                                      .summary = text,                                         \
                                      .targets = ATT_##sm,                                     \
                                      .role = ATT_ROLE_##kind,                                 \
                                      .dtype = (att_dtype)ATT_##type,                          \
                                      .d_qk = dqk,                                             \
                                      .d_v = dv,                                               \
                                      .tile_m = m,                                             \
                                      .tile_n = n,                                             \
                                      .stages = depth,                                         \
                                      .warps = warp_count}},
#include "kernels/kernels.def"
#define ATT_UNATTESTED(kernel) [ROW_##kernel].unattested = true,
#include "kernels/kernels.def"
};

size_t att_registry_count(void) {
    return ROWS;
}

const att_kernel_row *att_registry_row(size_t i) {
    return &registry[i];
}

bool att_kernel_matches(const char *id, const char *pattern) {
    const size_t length = strlen(pattern);
    if (length > 0 && pattern[length - 1] == '*')
        return strncmp(id, pattern, length - 1) == 0;
    return strcmp(id, pattern) == 0;
}

const char *att_row_role(const att_kernel_row *row) {
    static const char *const roles[] = {
        [ATT_ROLE_PLAIN] = "plain",   [ATT_ROLE_GENERAL] = "general",
        [ATT_ROLE_DECODE] = "decode", [ATT_ROLE_COMBINE] = "combine",
        [ATT_ROLE_RUNG] = "rung",     [ATT_ROLE_SMALL] = "small",
    };
    if (row->cuda)
        return roles[row->cuda->role];
    return row->family == ATT_FAMILY_DECODE ? "decode" : "fwd";
}

uint32_t att_cuda_target_of(const att_cuda_limits *gpu) {
    enum { AMPERE_SHARED = 163 * 1024 }; /* what a block may have on sm_80 */
    const uint32_t exact = att_cuda_target_bit(gpu->cc);
    if (exact)
        return exact;
    return gpu->shared_per_block >= AMPERE_SHARED ? ATT_SM80 : ATT_SM89;
}

const att_cuda_kernel *att_registry_combine(const att_cuda_kernel *kernel,
                                            bool allow_unattested) {
    for (size_t i = 0; i < att_registry_count(); i++) {
        const att_cuda_kernel *row = registry[i].cuda;
        if (registry[i].unattested && !allow_unattested)
            continue;
        if (row && row->role == ATT_ROLE_COMBINE && row->d_v >= kernel->d_v &&
            (row->dtype == (att_dtype)ATT_ANY || row->dtype == kernel->dtype))
            return row;
    }
    return NULL;
}
