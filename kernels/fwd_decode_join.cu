/* fwd_decode_join.cu: joins the parts of tiles of rows that fwd_decode_shares cut
 * COMPUTES O = sum_s 2^(top_s - top) O_s / sum, sum = sum_s 2^(top_s - top) sum_s, and LSE; one
 *          warp per share and row of a tile. A warp whose share leaves no tile unfinished ends at
 *          once
 * THREADS  32: most blocks end at once, and so small ones are all resident at once
 * SMEM     none
 * FLOW     the block starts while the shares are being finished, and waits for them; the next
 *          kernel may start while this one runs
 * NUMERICS float32 in a fixed order: the same bits on every run; a row that is not finite is
 *          recomputed in float64
 * LIMITS   d_v <= D_V, a multiple of 4 */
#include "kernels/fwd_parts.cuh"
#include "kernels/fwd_shares_params.h"
#include "kernels/programmatic_launch.cuh"
#include "kernels/reduce.cuh"

enum { BATCH = 8 /* parts whose loads are in flight at once */ };

/* A row of the tile that a share opens. */
typedef struct joined_row {
    int share, parts, row;
} joined_row;

/* The index of the row in a part of its tile. The first part is at the end of the share that
 * opens the tile, the others are at the beginning of theirs. */
DEVICE long long index_of(const att_fwd_shares_params *params, const joined_row *j, int part) {
    const long long of_share = 2ll * (j->share + part) + (part == 0);
    return of_share * params->tile_rows + j->row;
}

/* Top and sum of a part; of one that does not exist, those of no keys. */
DEVICE float2 load_weight(const att_fwd_shares_params *params, const joined_row *j, int part) {
    return part < j->parts ? __ldcg((const float2 *)params->fwd.partial_lse + index_of(params, j, part))
                           : make_float2(-INFINITE, 0.0f);
}

DEVICE float4 load_quad(const att_fwd_shares_params *params, const joined_row *j, int part, int column) {
    const int d_v = params->fwd.d_v;
    return part < j->parts && column < d_v
               ? __ldcg((const float4 *)(params->fwd.partial_o + index_of(params, j, part) * d_v + column))
               : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

/* Top and sum of the whole row; `own` is the weight of the part whose number is the lane's. */
DEVICE void weigh_row(const att_fwd_shares_params *params, const joined_row *j, float2 own, merged_row *m) {
    const int lane = threadIdx.x % 32;
    float top = own.x;
#pragma unroll 1
    for (int part = lane + 32; part < j->parts; part += 32)
        top = fmaxf(top, load_weight(params, j, part).x);
    m->top = warp_max(top);
    const float base = m->top == -INFINITE ? 0.0f : m->top;
    m->sum = exp2_fast(own.x - base) * own.y;
#pragma unroll 1
    for (int part = lane + 32; part < j->parts; part += 32) {
        const float2 weight = load_weight(params, j, part);
        m->sum += exp2_fast(weight.x - base) * weight.y;
    }
    m->sum = warp_sum(m->sum);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 16)
    KERNEL(const __grid_constant__ att_fwd_shares_params params) {
    const att_fwd_params *p = &params.fwd;
    const int lane = threadIdx.x;
    allow_next_kernel(); /* it waits for this one before it writes anything */
    wait_for_previous_kernel();
    const int4 opened = __ldcg((const int4 *)(params.opened + blockIdx.x));
    const int batch = opened.x, head_kv = opened.y, r = opened.z + blockIdx.y;
    const joined_row j = {(int)blockIdx.x, opened.w, (int)blockIdx.y};
    if (j.parts == 0)
        return;
    /* Rows past the tile's last are undefined and not written. */
    const float2 own = load_weight(&params, &j, lane);
    const sequence s = sequence_of(p, batch);
    merged_row m = {0.0f, 0.0f, {}};
    float weight = 0.0f; /* of the part whose number is the lane's, modulo 32 */
#pragma unroll 1
    for (int first = 0; first < j.parts; first += BATCH) {
        float4 x[BATCH][QUADS];
#pragma unroll
        for (int n = 0; n < BATCH; n++)
#pragma unroll
            for (int g = 0; g < QUADS; g++)
                x[n][g] = load_quad(&params, &j, first + n, 4 * lane + 128 * g);
        if (first == 0)
            weigh_row(&params, &j, own, &m);
        if (first % 32 == 0)
            weight = exp2_fast((first == 0 ? own : load_weight(&params, &j, first + lane)).x -
                               (m.top == -INFINITE ? 0.0f : m.top));
#pragma unroll
        for (int n = 0; n < BATCH; n++)
#pragma unroll
            for (int g = 0; g < QUADS; g++)
                add_weighed(&m.o[g], __shfl_sync(0xffffffffu, weight, (first + n) % 32), x[n][g]);
    }
    const int position = divide(r, &p->by_group);
    if (position < s.len_q)
        finish_row(p, &s, head_kv * p->group + r - position * p->group, position, &m, p->d_v);
}
