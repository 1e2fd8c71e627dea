/* registry.h: the kernels of the library, CPU and GPU, as kernels.def lists them. */
#ifndef ATT_CORE_REGISTRY_H
#define ATT_CORE_REGISTRY_H

#include "core/family.h"

/* The registry, best kernel first. */
size_t att_registry_count(void);
const att_kernel_row *att_registry_row(size_t i);

/* Does `id` match `pattern`: equal, or with the same prefix if the pattern ends in *? */
bool att_kernel_matches(const char *id, const char *pattern);

/* Architectures for which the row's code is attested, as bits. For a rung and for a user's row
 * these are all of its targets: they serve only when requested. 0 for a CPU row. */
uint32_t att_row_attested_targets(const att_kernel_row *row);

/* "fwd", "decode"; GPU: "plain", "small", "split", "general", "decode", "combine", "mask",
 * "rung". */
const char *att_row_role(const att_kernel_row *row);

#endif
