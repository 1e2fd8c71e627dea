/* fwd_join_parts.cuh: weighs and adds the parts of a row whose keys were split:
 * sum = sum_n 2^(top_n - top) sum_n, O = sum_n 2^(top_n - top) O_n, where top is the largest of
 * the tops.
 *
 * A warp works on a row, or several of them do, each on every so many parts. Loads bypass L1:
 * another SM wrote the parts. */
#ifndef ATT_FWD_JOIN_PARTS_CUH
#define ATT_FWD_JOIN_PARTS_CUH

#include "kernels/fwd_parts.cuh"
#include "kernels/reduce.cuh"

/* The parts of a row. */
typedef struct row_parts {
    const float *o;     /* of the first part */
    const float2 *sums; /* its top and sum */
    long long step;     /* rows from a part to the next; */
    int back;           /* from the first to the second, this many less */
    int count, d_v;
    bool quads; /* d_v % 4 == 0: four columns at a time */
} row_parts;

/* A row while its parts are added. */
typedef struct joined_row {
    float2 own;   /* top and sum of the part whose number is the lane's */
    float weight; /* of the part whose number is the lane's, modulo 32 */
    merged_row m;
} joined_row;

/* Rows from the first part to another. */
DEVICE long long part_offset(const row_parts *r, int part) {
    return part * r->step - (part > 0 ? r->back : 0);
}

/* Top and sum of a part; of one that does not exist, those of no keys. */
DEVICE float2 load_sums(const row_parts *r, int part) {
    return part < r->count ? __ldcg(r->sums + part_offset(r, part)) : make_float2(-INFINITE, 0.0f);
}

DEVICE float4 load_quad(const row_parts *r, const float *part, int column) {
    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (r->quads)
        return column < r->d_v ? __ldcg((const float4 *)(part + column)) : make_float4(x[0], x[1], x[2], x[3]);
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (column + e < r->d_v)
            x[e] = __ldcg(part + column + e);
    return make_float4(x[0], x[1], x[2], x[3]);
}

DEVICE joined_row begin_row(const row_parts *r) {
    return {load_sums(r, threadIdx.x % 32), 0.0f, {0.0f, 0.0f, {}}};
}

/* Top and sum of the whole row. */
DEVICE void weigh_row(const row_parts *r, joined_row *j) {
    const int lane = threadIdx.x % 32;
    float top = j->own.x;
#pragma unroll 1
    for (int part = lane + 32; part < r->count; part += 32)
        top = fmaxf(top, load_sums(r, part).x);
    top = warp_max(top);
    j->m.top = top == -INFINITE ? 0.0f : top;
    j->m.sum = exp2_fast(j->own.x - j->m.top) * j->own.y;
#pragma unroll 1
    for (int part = lane + 32; part < r->count; part += 32) {
        const float2 sums = load_sums(r, part);
        j->m.sum += exp2_fast(sums.x - j->m.top) * sums.y;
    }
    j->m.sum = warp_sum(j->m.sum);
}

/* Load O of `batch` parts: `first` + `member`, and then every `team`-th. */
DEVICE void load_parts(const row_parts *r, float4 x[][QUADS], int batch, int first, int member, int team) {
#pragma unroll
    for (int n = 0; n < batch; n++) {
        const int part = first + member + n * team;
        const float *from = r->o + part_offset(r, part) * r->d_v;
#pragma unroll
        for (int g = 0; g < QUADS; g++)
            x[n][g] = part < r->count ? load_quad(r, from, 4 * (threadIdx.x % 32) + 128 * g)
                                      : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

/* Add them, from `first` 0 on: the first call weighs the row while the loads are in flight. */
DEVICE void add_parts(const row_parts *r, joined_row *j, float4 x[][QUADS], int batch, int first, int member, int team) {
    if (first == 0)
        weigh_row(r, j);
    if (first % 32 == 0) {
        const float top = (first == 0 ? j->own : load_sums(r, first + (int)threadIdx.x % 32)).x;
        j->weight = top == -INFINITE ? -1.0f : exp2_fast(top - j->m.top);
    }
#pragma unroll
    for (int n = 0; n < batch; n++) {
        const float weight = __shfl_sync(0xffffffffu, j->weight, (first + member + n * team) % 32);
#pragma unroll
        for (int g = 0; g < QUADS; g++)
            if (!(weight < 0.0f)) /* O of a part without keys is undefined */
                add_weighed(&j->m.o[g], weight, x[n][g]);
    }
}

#endif
