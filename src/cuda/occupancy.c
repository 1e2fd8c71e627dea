/* occupancy.c: blocks an SM holds, by each of its limits. */
#include "cuda/occupancy.h"

#include "base/checked.h"

enum { WARP = 32, REGISTER_UNIT = 256 /* a warp is given registers in units of this */ };

int att_cuda_blocks_per_sm(const att_cuda_limits *limits, const att_cuda_code *code,
                           const att_cuda_shape *shape) {
    const int64_t warps = att_ceil_div(shape->threads, WARP);
    const int64_t registers =
        warps * att_round_up((int64_t)WARP * code->registers, REGISTER_UNIT);
    const int64_t shared =
        (int64_t)shape->shared + code->shared_bytes + limits->shared_reserved;
    int64_t blocks = limits->blocks_per_sm;
    blocks = att_min(blocks, limits->warps_per_sm / warps);
    if (registers > 0)
        blocks = att_min(blocks, limits->registers_per_sm / registers);
    if (shared > 0)
        blocks = att_min(blocks, limits->shared_per_sm / shared);
    return (int)att_max(1, blocks);
}
