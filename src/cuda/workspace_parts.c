/* workspace_parts.c: parts of a workspace, one after the other, aligned. */
#include "cuda/workspace_parts.h"

#include "base/checked.h"

enum { WORKSPACE_UNIT = 256 };

bool att_cuda_place(size_t *at, size_t *workspace, int64_t count, int64_t bytes) {
    int64_t size, end;
    if (!att_mul(count, bytes, &size) || size > INT64_MAX / 4 ||
        !att_add((int64_t)*workspace, att_round_up(size, WORKSPACE_UNIT), &end))
        return false;
    *at = *workspace;
    *workspace = (size_t)end;
    return true;
}
