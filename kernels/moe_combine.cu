/* moe_combine.cu: adds up the parts of a token's experts into its row of y
 * COMPUTES y[t] = sum_j weight[t, j] part[t, j] in the order of j; one block per (token, 8 * 32
 *          * WARPS columns)
 * NUMERICS float32, rounded once; 16-bit parts are already weighted. Experts whose weights are
 *          on other devices add nothing
 * WHY      bound by memory: parts are read once, 16 bytes and several parts at a time */
#include "kernels/convert.cuh"
#include "kernels/moe_params.h"
#include "kernels/programmatic_launch.cuh"

#define COLUMNS 8 /* per thread */
#define BATCH   4 /* parts loaded at once */

/* The products have waited for moe_route. Where they run, ids and weights may be read before the
 * previous kernel has ended, past L1. */
DEVICE bool has_products(const att_moe_params *p) {
    return p->local_experts > 0 && p->inner > 0;
}

DEVICE bool is_here(const att_moe_params *p, int id) {
    return id >= p->first_expert && id - p->first_expert < p->local_experts;
}

/* A thread's columns of a part, as they are stored: 16 bytes of 16-bit elements, or 32 of
 * float32. Rows of parts are padded to whole vectors. */
typedef struct part_bits {
    uint4 first, second;
} part_bits;

DEVICE part_bits load_part(const att_moe_params *p, long long at) {
    part_bits bits;
    if (p->flags & ATT_MOE_PARTS_16) {
        bits.first = __ldcs((const uint4 *)((const half_bits *)p->parts + at));
        bits.second = make_uint4(0, 0, 0, 0);
    } else {
        bits.first = __ldcs((const uint4 *)((const float *)p->parts + at));
        bits.second = __ldcs((const uint4 *)((const float *)p->parts + at) + 1);
    }
    return bits;
}

DEVICE void add_part(const att_moe_params *p, float x[COLUMNS], float weight, const part_bits *bits) {
    const unsigned words[COLUMNS] = {bits->first.x,  bits->first.y,  bits->first.z,  bits->first.w,
                                     bits->second.x, bits->second.y, bits->second.z, bits->second.w};
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        float part = __uint_as_float(words[i]);
        if (p->flags & ATT_MOE_PARTS_16) {
            const half_bits half = (half_bits)(words[i / 2] >> i % 2 * 16);
            part = p->dtype_y == BF16 ? bf16_to_float(half) : f16_to_float(half);
        }
        x[i] = fmaf(weight, part, x[i]);
    }
}

DEVICE void store_row(const att_moe_params *p, int token, int c, const float x[COLUMNS]) {
    const long long at = token * p->y_row + c;
#pragma unroll
    for (int i = 0; i < COLUMNS; i += 4) {
        if (p->flags & ATT_MOE_VECTOR_Y && c + i + 4 <= p->hidden) {
            if (p->dtype_y == F32)
                *(float4 *)((float *)p->y + at + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
            else if (p->dtype_y == BF16)
                *(uint2 *)((half_bits *)p->y + at + i) = make_uint2(pack_16(BF16, x[i], x[i + 1]), pack_16(BF16, x[i + 2], x[i + 3]));
            else
                *(uint2 *)((half_bits *)p->y + at + i) = make_uint2(pack_16(F16, x[i], x[i + 1]), pack_16(F16, x[i + 2], x[i + 3]));
            continue;
        }
#pragma unroll
        for (int j = i; j < i + 4; j++)
            if (c + j < p->hidden)
                store_from_float(p->y, at + j, p->dtype_y, x[j]);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) KERNEL(const __grid_constant__ att_moe_params params) {
    const att_moe_params *p = &params;
    allow_next_kernel();
    const int steps = (p->hidden + 32 * WARPS * COLUMNS - 1) / (32 * WARPS * COLUMNS);
    const int token = blockIdx.x / steps, c = (blockIdx.x % steps * 32 * WARPS + threadIdx.x) * COLUMNS;
    if (c >= p->hidden)
        return;
    if (!has_products(p))
        wait_for_previous_kernel();
    const long long slot0 = (long long)token * p->k;
    float x[COLUMNS] = {};
    for (int first = 0; first < p->k; first += BATCH) {
        part_bits parts[BATCH];
        float weights[BATCH];
        bool here[BATCH];
#pragma unroll
        for (int n = 0; n < BATCH; n++) {
            here[n] = first + n < p->k && is_here(p, __ldcg(p->slot_ids + slot0 + first + n));
            weights[n] = here[n] && !(p->flags & ATT_MOE_PARTS_16) ? __ldcg(p->slot_weights + slot0 + first + n) : 1.0f;
        }
        if (first == 0)
            wait_for_previous_kernel();
#pragma unroll
        for (int n = 0; n < BATCH; n++)
            if (here[n])
                parts[n] = load_part(p, (slot0 + first + n) * p->part_pitch + c);
#pragma unroll
        for (int n = 0; n < BATCH; n++)
            if (here[n])
                add_part(p, x, weights[n], &parts[n]);
    }
    store_row(p, token, c, x);
}
