/* occupancy.c: the blocks that an SM holds, by each of its limits. */
#include "cuda/occupancy.h"

#include "base/checked.h"

enum {
    WARP = 32,
    SCHEDULERS = 4,      /* per SM, each with a quarter of its registers */
    REGISTER_UNIT = 256, /* unit of register allocation per warp */
    SHARED_UNIT = 128    /* unit of shared memory allocation per block */
};

static void lower(int64_t *blocks, att_cuda_resource *limited, int64_t to,
                  att_cuda_resource by) {
    if (to < *blocks) {
        *blocks = to;
        *limited = by;
    }
}

/* A warp's registers come from the file of one scheduler. The limit of a whole block is
 * computed as if its warps filled all schedulers evenly. */
static int64_t by_registers(const att_cuda_limits *l, int64_t warps, int registers) {
    const int64_t a_warp = att_round_up((int64_t)WARP * registers, REGISTER_UNIT);
    if (a_warp == 0)
        return l->blocks_per_sm;
    if (a_warp * att_round_up(warps, SCHEDULERS) > l->registers_per_block)
        return 0;
    return l->registers_per_sm / SCHEDULERS / a_warp * SCHEDULERS / warps;
}

int att_cuda_resident_blocks(const att_cuda_limits *l, int threads, int registers,
                             uint32_t shared, att_cuda_resource *limited) {
    const int64_t warps = att_ceil_div(threads, WARP);
    const int64_t bytes = att_round_up((int64_t)shared + l->shared_reserved, SHARED_UNIT);
    int64_t blocks = l->blocks_per_sm;
    *limited = ATT_RESOURCE_BLOCKS;
    lower(&blocks, limited, l->warps_per_sm / warps, ATT_RESOURCE_WARPS);
    lower(&blocks, limited, by_registers(l, warps, registers), ATT_RESOURCE_REGISTERS);
    if (bytes > 0)
        lower(&blocks, limited, l->shared_per_sm / bytes, ATT_RESOURCE_SHARED);
    return (int)blocks;
}

int att_cuda_blocks_per_sm(const att_cuda_limits *limits, const att_cuda_code *code,
                           const att_cuda_shape *shape) {
    att_cuda_resource limited;
    const int blocks =
        att_cuda_resident_blocks(limits, (int)shape->threads, code->registers,
                                 shape->shared + (uint32_t)code->shared_bytes, &limited);
    return blocks > 1 ? blocks : 1;
}
