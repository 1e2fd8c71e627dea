/* registry.c: the kernels of the library. */
#include "core/registry.h"

#include <string.h>

enum { ATT_ANY = 0 }; /* for dtype columns: decided at run time */

#define ATT_CPU_KERNEL(kernel, set, kind, text)                                                \
    extern const att_cpu_kernel kernel;                                                        \
    extern const att_family att_family_cpu_##kind;
#define ATT_CUDA_KERNEL(kernel, file, ...) extern const att_family att_family_##file;
#include "kernels/kernels.def"

/* ROW_<id>: the index of the row. */
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
     .family = &att_family_cpu_##kind,                                                         \
     .cpu = &kernel},
#define ATT_CUDA_KERNEL(kernel, file, sm, kind, type, dqk, dv, m, n, depth, warp_count, ...)   \
    {.id = #kernel,                                                                            \
     .summary = ATT_ROW_SUMMARY(__VA_ARGS__, 0),                                               \
     .family = &att_family_##file,                                                             \
     .device = ATT_DEVICE_CUDA,                                                                \
     .cuda = &(const att_cuda_kernel){.id = #kernel,                                           \
                                      .source = #file,                                         \
                                      .summary = ATT_ROW_SUMMARY(__VA_ARGS__, 0),              \
                                      .targets = ATT_##sm,                                     \
                                      .role = ATT_ROLE_##kind,                                 \
                                      .dtype = (att_dtype)ATT_##type,                          \
                                      .d_qk = dqk,                                             \
                                      .d_v = dv,                                               \
                                      .tile_m = m,                                             \
                                      .tile_n = n,                                             \
                                      .stages = depth,                                         \
                                      .warps = warp_count,                                     \
                                      .features = ATT_ROW_FEATURES(__VA_ARGS__, 0, 0)}},
#include "kernels/kernels.def"
#define ATT_UNATTESTED(kernel) [ROW_##kernel].unattested = true,
#define ATT_TIMES(kernel, ...) [ROW_##kernel].times = {__VA_ARGS__},
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

uint32_t att_row_attested_targets(const att_kernel_row *row) {
    static const uint32_t attested = 0
#define ATT_ATTESTED(sm) | ATT_##sm
#include "kernels/kernels.def"
        ;
    if (!row->cuda || row->unattested)
        return 0;
    return row->cuda->role == ATT_ROLE_RUNG || row->scope ? row->cuda->targets
                                                          : row->cuda->targets & attested;
}

const char *att_row_role(const att_kernel_row *row) {
    static const char *const roles[] = {
        [ATT_ROLE_PLAIN] = "plain",   [ATT_ROLE_GENERAL] = "general",
        [ATT_ROLE_DECODE] = "decode", [ATT_ROLE_COMBINE] = "combine",
        [ATT_ROLE_RUNG] = "rung",     [ATT_ROLE_SMALL] = "small",
        [ATT_ROLE_MASK] = "mask",     [ATT_ROLE_SPLIT] = "split",
        [ATT_ROLE_STEP] = "step",
    };
    return row->cuda ? roles[row->cuda->role] : row->family->role;
}
