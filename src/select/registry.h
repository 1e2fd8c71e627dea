/* registry.h: the kernels of the library, CPU and GPU, as kernels.def lists them. */
#ifndef ATT_SELECT_REGISTRY_H
#define ATT_SELECT_REGISTRY_H

#include <stdbool.h>

#include "attest.h"
#include "cpu/kernel.h"
#include "cuda/device.h"
#include "cuda/row.h"

typedef enum att_family {
    ATT_FAMILY_FWD,   /* blocked tiles, any number of rows */
    ATT_FAMILY_DECODE /* a few rows, K/V streamed */
} att_family;

/* One row of the registry. */
typedef struct att_kernel_row {
    const char *id;
    const char *summary;
    att_device device;
    att_isa isa;                 /* CPU */
    att_family family;           /* CPU */
    const att_cpu_kernel *cpu;   /* NULL for a GPU kernel */
    const att_cuda_kernel *cuda; /* NULL for a CPU kernel */
    bool unattested; /* ships without evidence, and serves only where that is allowed */
    const struct att_row_scope *scope; /* what a user's row is kept to; NULL: a built-in one */
} att_kernel_row;

enum { ATT_CPU_D_MAX = 256 }; /* the largest head dimension of the CPU kernels */

/* The registry, best kernel first. */
size_t att_registry_count(void);
const att_kernel_row *att_registry_row(size_t i);

/* Does `id` match `pattern`: equal, or beginning as it does where it ends in *? */
bool att_kernel_matches(const char *id, const char *pattern);

/* "fwd", "decode"; GPU: "plain", "general", "decode", "combine", "rung", "small". */
const char *att_row_role(const att_kernel_row *row);

/* The architecture whose rows a GPU takes, ATT_SM80 ...: its own, or for one newer than all of them the one
 * whose limit of shared memory it keeps to. */
uint32_t att_cuda_target_of(const att_cuda_limits *gpu);

/* The kernel that merges what the splits of `kernel` leave, or NULL; one without evidence only where that is allowed. */
const att_cuda_kernel *att_registry_combine(const att_cuda_kernel *kernel,
                                            bool allow_unattested);

#endif
