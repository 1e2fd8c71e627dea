/* workspace_parts.h: where the parts of a kernel's workspace lie. */
#ifndef ATT_CUDA_WORKSPACE_PARTS_H
#define ATT_CUDA_WORKSPACE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Append `count` elements of `bytes` to the workspace; *at becomes their offset. Returns false if
 * it would be too large. */
bool att_cuda_place(size_t *at, size_t *workspace, int64_t count, int64_t bytes);

#endif
