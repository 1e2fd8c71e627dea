/* moe_combine.cu: adds up the parts of a token's experts into its row of y
 * COMPUTES y[t] = sum_j weight[t, j] part[t, j] in the order of j; one block per (token, 4 * 32
 *          * WARPS columns)
 * NUMERICS float32, rounded once; 16-bit parts are already weighted. Experts whose weights are
 *          on other devices add nothing
 * WHY      bound by memory: parts are read once, four columns per thread */
#include "kernels/convert.cuh"
#include "kernels/moe_params.h"
#include "kernels/programmatic_launch.cuh"

#define COLUMNS 4 /* per thread */
#define BATCH   4 /* parts loaded at once */

/* The products have waited for moe_route. Where they run, ids and weights may be read before the
 * previous kernel has ended, past L1. */
DEVICE bool has_products(const att_moe_params *p) {
    return p->local_experts > 0 && p->inner > 0;
}

DEVICE bool is_here(const att_moe_params *p, int id) {
    return id >= p->first_expert && id - p->first_expert < p->local_experts;
}

DEVICE float4 load_part(const att_moe_params *p, long long at) {
    if (!(p->flags & ATT_MOE_PARTS_16))
        return __ldcs((const float4 *)((const float *)p->parts + at));
    const uint2 two = __ldcs((const uint2 *)((const half_bits *)p->parts + at));
    if (p->dtype_y == BF16)
        return make_float4(bf16_to_float(two.x & 0xffffu), bf16_to_float(two.x >> 16), bf16_to_float(two.y & 0xffffu),
                           bf16_to_float(two.y >> 16));
    return make_float4(f16_to_float(two.x & 0xffffu), f16_to_float(two.x >> 16), f16_to_float(two.y & 0xffffu),
                       f16_to_float(two.y >> 16));
}

DEVICE void add_part(float x[COLUMNS], float weight, float4 part) {
    x[0] = fmaf(weight, part.x, x[0]);
    x[1] = fmaf(weight, part.y, x[1]);
    x[2] = fmaf(weight, part.z, x[2]);
    x[3] = fmaf(weight, part.w, x[3]);
}

DEVICE void store_row(const att_moe_params *p, int token, int c, const float x[COLUMNS]) {
    const long long at = token * p->y_row + c;
    if (p->flags & ATT_MOE_VECTOR_Y && c + COLUMNS <= p->hidden) {
        if (p->dtype_y == F32)
            *(float4 *)((float *)p->y + at) = make_float4(x[0], x[1], x[2], x[3]);
        else if (p->dtype_y == BF16)
            *(uint2 *)((half_bits *)p->y + at) = make_uint2(pack_16(BF16, x[0], x[1]), pack_16(BF16, x[2], x[3]));
        else
            *(uint2 *)((half_bits *)p->y + at) = make_uint2(pack_16(F16, x[0], x[1]), pack_16(F16, x[2], x[3]));
        return;
    }
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        if (c + i < p->hidden)
            store_from_float(p->y, at + i, p->dtype_y, x[i]);
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
        float4 parts[BATCH];
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
                add_part(x, weights[n], parts[n]);
    }
    store_row(p, token, c, x);
}
