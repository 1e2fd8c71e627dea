/* moe_sm90_down.cu: the second product of a layer of experts on Hopper
 * COMPUTES part = W2 h + b2 for the slots of an expert; persistent blocks take (tile of TILE_M
 *          positions, TILE_N columns of y) in turn
 * TILE     as moe_sm90.cu, with TILE_N rows of weights
 * FLOW     both operands are loaded by the copy engine: rows of h are in the order of
 *          positions. Rows of a tile that belong to the next expert are multiplied but not
 *          stored
 * NUMERICS float32 sums, stored unrounded, or weighted and rounded to DTYPE (ATT_MOE_PARTS_16):
 *          moe_combine adds up a token's parts */
#define B_ROWS TILE_N
#include "kernels/convert.cuh"
#include "kernels/moe_sm90_tile.cuh"
#include "kernels/programmatic_launch.cuh"

DEVICE void load_weights(const att_moe_sm90_params *h, const tile_work *w, unsigned shared, int place, int depth) {
    mbarrier_expect(full(shared, place), STAGE_BYTES);
    tma_load_4d(shared + place * STAGE_BYTES + A_BYTES, &h->w, full(shared, place), depth, w->step * TILE_N, w->expert, 0);
}

DEVICE void load_h(const att_moe_sm90_params *h, const tile_work *w, unsigned shared, int place, int depth) {
    tma_load_4d(shared + place * STAGE_BYTES, &h->h, full(shared, place), depth, w->first, 0, 0);
}

/* The previous kernel has waited for the sorting kernel. The locations of tiles may therefore
 * be read before the previous kernel has ended, and weights of the first item may already be
 * loaded. */
DEVICE void produce(const att_moe_sm90_params *h, char *base) {
    const att_moe_params *p = &h->moe;
    const unsigned shared = shared_address(base);
    const int early = min(STAGES, (p->inner + DEPTH - 1) / DEPTH) * DEPTH;
    ring r = {0, 1};
    scout ahead = scout_begin(p);
    tile_work w;
    if (!scout_take(&ahead, p, p->down_steps, &w))
        return;
    for (int depth = 0; depth < early; depth += DEPTH)
        load_weights(h, &w, shared, depth / DEPTH, depth);
    wait_for_previous_kernel();
    int n = 0;
    do {
        *work_at(base, n) = w;
#pragma unroll 1
        for (int depth = 0; depth < p->inner; depth += DEPTH) {
            mbarrier_wait(empty(shared, r.place), r.parity);
            if (n > 0 || depth >= early)
                load_weights(h, &w, shared, r.place, depth);
            load_h(h, &w, shared, r.place, depth);
            advance(&r);
            if (depth % (LOOK_EVERY * DEPTH) == 0)
                scout_ahead(&ahead, p, p->down_steps);
        }
        n++;
    } while (scout_take(&ahead, p, p->down_steps, &w));
}

/* A warp's rows of the tile. */
typedef struct rows_out {
    const att_moe_params *p;
    const tile_work *w;
    unsigned out;
    int lane, row0;
    float weight[2];      /* of the two rows whose results the lane has */
    half_bits *parts[4];  /* the rows of which the lane stores a chunk; 0: none */
} rows_out;

/* Looked up before the product. */
DEVICE void find_rows(rows_out *o) {
    const att_moe_params *p = o->p;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = o->row0 + half * 8 + o->lane / 4;
        o->weight[half] = r < o->w->count ? p->slot_weights[p->slot_at[o->w->first + r]] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = o->row0 + chunk_row(i);
        o->parts[i] = r < o->w->count ? (half_bits *)p->parts + p->slot_at[o->w->first + r] * p->part_pitch : 0;
    }
}

DEVICE float bias_at(const att_moe_params *p, const tile_work *w, int c) {
    return c < p->hidden ? load_as_float(p->b2, w->expert * p->b2_expert + c, p->dtype_bias) : 0.0f;
}

/* Store in float32, directly from registers. Rows of parts are padded to whole pairs. */
DEVICE void store_wide(const rows_out *o, const float d[B_ROWS / 2]) {
    const int column0 = o->w->step * TILE_N + o->lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = o->row0 + half * 8 + o->lane / 4;
        if (r >= o->w->count)
            continue;
        float *part = (float *)o->p->parts + o->p->slot_at[o->w->first + r] * o->p->part_pitch;
#pragma unroll
        for (int j = 0; j < B_ROWS / 8; j++) {
            const int c = column0 + j * 8;
            const float *x = d + j * 4 + half * 2;
            if (c < o->p->hidden)
                *(float2 *)(part + c) = make_float2(x[0], x[1]);
        }
    }
}

#define COLUMNS (B_ROWS < 64 ? B_ROWS : 64)

/* Store weighted, in 16 bits: 64 columns at a time are collected and stored 16 bytes at a
 * time. */
DEVICE void store_narrow(const rows_out *o, const float d[B_ROWS / 2]) {
#pragma unroll
    for (int c0 = 0; c0 < B_ROWS; c0 += COLUMNS) {
        const int column = o->w->step * TILE_N + c0 + o->lane % 8 * 8;
#pragma unroll
        for (int i = 0; i < COLUMNS / 4; i++) {
            const float *x = d + c0 / 2 + i * 2, weight = o->weight[i % 2];
            put_pair(o->out, o->lane / 4 + i % 2 * 8, i / 2 * 8 + o->lane % 4 * 2, pack_16(DTYPE, x[0] * weight, x[1] * weight));
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (o->parts[i] && o->lane % 8 * 8 < COLUMNS && column < o->p->hidden)
                store_16(o->parts[i] + column, take_chunk(o->out, i));
        __syncwarp();
    }
}

#define BIAS(i) bias_at(p, &w, w.step * TILE_N + (i))

DEVICE void consume(const att_moe_params *p, char *base) {
    const unsigned shared = shared_address(base);
    const int group = threadIdx.x / WARPGROUP, steps = (p->inner + DEPTH - 1) / DEPTH;
    const int items = p->tile_starts[p->local_experts] * p->down_steps;
    ring r = {0, 0};
    for (int n = 0, item = blockIdx.x; item < items; n++, item += gridDim.x) {
        mbarrier_wait(full(shared, r.place), r.parity);
        const tile_work w = *work_at(base, n);
        if (group * GROUP_ROWS >= w.count) {
            pass_by(shared, &r, steps);
            continue;
        }
        rows_out o = {p, &w, out_of_warp(shared), (int)threadIdx.x % 32, (int)threadIdx.x / 32 * OUT_ROWS};
        const bool narrow = p->flags & ATT_MOE_PARTS_16;
        if (narrow)
            find_rows(&o);
        float d[B_ROWS / 2];
        if (p->b2)
            BRING_BIASES(base, BIAS);
        multiply(d, shared, &r, steps);
        if (p->b2)
            add_biases(d, base);
        if (narrow)
            store_narrow(&o, d);
        else
            store_wide(&o, d);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) KERNEL(const __grid_constant__ att_moe_sm90_params params) {
    extern __shared__ __align__(1024) char shared_memory[];
    begin(&params, shared_address(shared_memory), 1);
    allow_next_kernel();
    if (threadIdx.x / WARPGROUP == CONSUMERS) {
        if (CONSUMERS > 1)
            REGISTERS_KEEP(KEEP_REGISTERS);
        if (threadIdx.x % WARPGROUP == 0)
            produce(&params, shared_memory);
    } else {
        if (CONSUMERS > 1)
            REGISTERS_TAKE(TAKE_REGISTERS);
        wait_for_previous_kernel();
        consume(&params.moe, shared_memory);
    }
}
