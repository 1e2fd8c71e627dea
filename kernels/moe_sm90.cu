/* moe_sm90.cu: the first product of a layer of experts on Hopper, and the activation
 * COMPUTES h = act(W1 x + b1, W3 x + b3) for the slots of an expert; persistent blocks take
 *          (tile of TILE_M positions, columns of h) in turn
 * TILE     TILE_M positions x 2 TILE_N rows of weights: TILE_N columns of h with a gate, twice
 *          as many without
 * THREADS  one warpgroup that loads, TILE_M / 64 that multiply 64 positions each
 * SMEM     moe_sm90_tile.cuh
 * FLOW     weights are loaded by the copy engine; rows of x are gathered by the loading threads
 *          and published LAG slots of the ring later
 * NUMERICS float32 sums, h rounded to DTYPE. A row depends only on its token and the weights,
 *          not on its position
 * LIMITS   float16 and bfloat16; weights stored as (columns, depth); rows of x and of weights
 *          are whole vectors of 16 bytes
 * WHY      Hopper's copy engine reads boxes, not lists of rows. The few bytes of x that a tile
 *          needs are loaded with cp.async, so that no sorted copy of x is needed. A warpgroup
 *          whose 64 positions do not exist multiplies nothing */
/* 2 TILE_N as a literal, since it is pasted into names. */
#if TILE_N == 128
#define B_ROWS 256
#elif TILE_N == 64
#define B_ROWS 128
#else
#define B_ROWS 64
#endif
static_assert(B_ROWS == 2 * TILE_N, "tiles of 32, 64 or 128 columns");
#include "kernels/async_copy.cuh"
#include "kernels/moe_activation.cuh"
#include "kernels/moe_gate.cuh"
#include "kernels/moe_sm90_tile.cuh"
#include "kernels/programmatic_launch.cuh"

#define LAG         2
#define ROWS_LOADED (TILE_M * 8 / WARPGROUP) /* per thread: a chunk of 16 bytes of each */
static_assert(LAG <= STAGES - 2, "the place that is filled next was left before the one that is waited for");

/* --------------------------------------------------------------------------------- loading */

/* Load the two boxes of weights: gate and up, or the first and the second half of the rows. */
DEVICE void load_weights(const att_moe_sm90_params *h, const tile_work *w, unsigned to, unsigned barrier, int depth) {
    const att_moe_params *p = &h->moe;
    const int column = w->step * p->up_columns;
    const bool gated = p->flags & ATT_MOE_GATED, by_turns = gated && p->gate == ATT_MOE_GATE_BY_TURNS;
    const int first = by_turns ? 2 * column : column;
    const int second = !gated || by_turns ? first + TILE_N : p->gate == ATT_MOE_GATE_APART ? column : column + p->inner;
    mbarrier_expect(barrier, B_ROWS * ROW_BYTES);
    tma_load_4d(to, &h->w, barrier, depth, first, w->expert, 0);
    tma_load_4d(to + TILE_N * ROW_BYTES, &h->w3, barrier, depth, second, w->expert, 0);
}

/* The slots of this thread's rows; -1 if a row does not exist. */
DEVICE void find_slots(const att_moe_params *p, const tile_work *w, int slots[ROWS_LOADED]) {
#pragma unroll
    for (int i = 0; i < ROWS_LOADED; i++) {
        const int r = threadIdx.x % WARPGROUP / 8 + i * (WARPGROUP / 8);
        slots[i] = r < w->count ? p->slot_at[w->first + r] : -1;
    }
}

/* The addresses of those rows of x, at the thread's chunk; 0 if a row does not exist. */
DEVICE void point_rows(const att_moe_params *p, const int slots[ROWS_LOADED], const half_bits *rows[ROWS_LOADED]) {
#pragma unroll
    for (int i = 0; i < ROWS_LOADED; i++)
        rows[i] = slots[i] >= 0 ? (const half_bits *)p->x + slots[i] / p->k * p->x_row + threadIdx.x % 8 * 8 : 0;
}

DEVICE void load_rows(const att_moe_params *p, const half_bits *const rows[ROWS_LOADED], unsigned to, int depth) {
    const int thread = threadIdx.x % WARPGROUP;
    const bool within = depth + thread % 8 * 8 < p->hidden;
#pragma unroll
    for (int i = 0; i < ROWS_LOADED; i++) {
        const bool there = within && rows[i];
        async_copy_16(to + swizzled(thread / 8 + i * (WARPGROUP / 8), thread % 8, ROW_BYTES), there ? rows[i] + depth : p->x,
                      there ? 16 : 0);
    }
    async_commit();
}

/* Publish what this thread gathered LAG slots ago to the tensor cores. */
DEVICE void deliver(unsigned shared, ring *late) {
    tma_publish();
    mbarrier_arrive(full(shared, late->place));
    advance(late);
}

/* The item after the one being loaded. The lookup advances by one step every LOOK_EVERY
 * slots. */
typedef struct lookout {
    scout s;
    bool has_slots;
    int slots[ROWS_LOADED];
} lookout;

DEVICE void look_ahead(lookout *l, const att_moe_params *p) {
    if (l->s.known != SCOUT_ALL) {
        scout_ahead(&l->s, p, p->up_steps);
    } else if (!l->has_slots) {
        const tile_work w = scout_work(&l->s, p->up_steps);
        find_slots(p, &w, l->slots);
        l->has_slots = true;
    }
}

DEVICE bool take_item(lookout *l, const att_moe_params *p, tile_work *w, const half_bits *rows[ROWS_LOADED]) {
    if (!scout_take(&l->s, p, p->up_steps, w))
        return false;
    if (!l->has_slots)
        find_slots(p, w, l->slots);
    point_rows(p, l->slots, rows);
    l->has_slots = false;
    return true;
}

DEVICE void produce(const att_moe_sm90_params *h, char *base) {
    const att_moe_params *p = &h->moe;
    const unsigned shared = shared_address(base);
    const bool first_thread = threadIdx.x % WARPGROUP == 0;
    ring r = {0, 1}, late = {0, 0};
    int behind = 0;
    lookout ahead = {scout_begin(p), false};
    tile_work w;
    const half_bits *rows[ROWS_LOADED];
    for (int n = 0; take_item(&ahead, p, &w, rows); n++) {
        if (first_thread)
            *work_at(base, n) = w;
#pragma unroll 1
        for (int depth = 0; depth < p->hidden; depth += DEPTH) {
            const unsigned tile = shared + r.place * STAGE_BYTES;
            mbarrier_wait(empty(shared, r.place), r.parity);
            if (first_thread)
                load_weights(h, &w, tile + A_BYTES, full(shared, r.place), depth);
            load_rows(p, rows, tile, depth);
            advance(&r);
            if (behind == LAG) {
                ASYNC_WAIT(LAG);
                deliver(shared, &late);
            } else {
                behind++;
            }
            if (depth % (LOOK_EVERY * DEPTH) == 0)
                look_ahead(&ahead, p);
        }
    }
    ASYNC_WAIT(0);
    for (; behind > 0; behind--)
        deliver(shared, &late);
}

/* ---------------------------------------------------------------------------------- biases */

/* The bias of row i of the tile of weights: of gate or up, for a column of h. */
DEVICE float bias_at(const att_moe_params *p, const tile_work *w, int i) {
    const bool gated = p->flags & ATT_MOE_GATED, by_turns = gated && p->gate == ATT_MOE_GATE_BY_TURNS;
    const bool is_up = by_turns ? i % 2 : gated && i >= TILE_N;
    const int column = by_turns ? i / 2 : i - (is_up ? TILE_N : 0);
    return gate_bias(p, w->expert, w->step * p->up_columns + column, is_up);
}

/* ------------------------------------------------------------------------------ activation */

/* A warp's rows of h: 64 columns at a time are collected and stored. */
typedef struct rows_out {
    const att_moe_params *p;
    const tile_work *w;
    unsigned out;
    int lane, row0; /* the warp's first row in the tile */
} rows_out;

DEVICE void store_columns(const rows_out *o, int c0, int columns) {
    const att_moe_params *p = o->p;
    const int column = o->w->step * p->up_columns + c0 + o->lane % 8 * 8;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = o->row0 + chunk_row(i);
        if (o->lane % 8 * 8 < columns && r < o->w->count && column < p->h_pitch)
            store_16((half_bits *)p->h + (o->w->first + r) * p->h_pitch + column, take_chunk(o->out, i));
    }
    __syncwarp();
}

/* SwiGLU, with gate in the first half of the columns and up in the second. */
DEVICE void finish_swiglu(const rows_out *o, const float d[B_ROWS / 2]) {
    const int columns = min(TILE_N, 64);
#pragma unroll
    for (int c0 = 0; c0 < TILE_N; c0 += columns) {
#pragma unroll
        for (int i = 0; i < columns / 4; i++) {
            const float *g = d + c0 / 2 + i * 2, *u = g + TILE_N / 2;
            put_pair(o->out, o->lane / 4 + i % 2 * 8, i / 2 * 8 + o->lane % 4 * 2, pack_16(DTYPE, swiglu(g[0], u[0]), swiglu(g[1], u[1])));
        }
        store_columns(o, c0, columns);
    }
}

/* The clamped SwiGLU of gpt-oss, with gate and up in neighbouring columns. A lane has one
 * column of two rows, and its neighbour the next column of the same rows. They swap, so that
 * each has a pair of columns of one row. */
DEVICE void finish_clamped_turns(const rows_out *o, const float d[B_ROWS / 2]) {
    const int columns = min(TILE_N, 64);
    const bool odd = o->lane % 2;
#pragma unroll
    for (int c0 = 0; c0 < TILE_N; c0 += columns) {
#pragma unroll
        for (int j = 0; j < columns / 4; j++) {
            const float *x = d + c0 + j * 4;
            const float upper = swiglu_clamped(x[0], x[1], o->p->alpha, o->p->limit);
            const float lower = swiglu_clamped(x[2], x[3], o->p->alpha, o->p->limit);
            const float other = __shfl_xor_sync(0xffffffffu, odd ? upper : lower, 1);
            put_pair(o->out, o->lane / 4 + (odd ? 8 : 0), j * 4 + (o->lane % 4 & 2),
                     odd ? pack_16(DTYPE, other, lower) : pack_16(DTYPE, upper, other));
        }
        store_columns(o, c0, columns);
    }
}

/* Everything else. The loop is not unrolled: results are shifted to the registers that it
 * reads, four at a time. */
DEVICE void finish_any(const rows_out *o, float d[B_ROWS / 2]) {
    const att_moe_params *p = o->p;
    const bool gated = p->flags & ATT_MOE_GATED, by_turns = gated && p->gate == ATT_MOE_GATE_BY_TURNS;
    const int all = gated ? TILE_N : B_ROWS, each = by_turns ? 4 : 8;
#pragma unroll 1
    for (int c0 = 0; c0 < all; c0 += each) {
        const int c = (c0 + o->lane % 4 * (by_turns ? 1 : 2)) % 64;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float *x = d + half * 2, *u = x + TILE_N / 2;
            const int row = o->lane / 4 + half * 8;
            const float first = activate(p, x[0], by_turns ? x[1] : u[0]);
            if (by_turns)
                put_one(o->out, row, c, first);
            else
                put_pair(o->out, row, c, pack_16(DTYPE, first, activate(p, x[1], u[1])));
        }
#pragma unroll
        for (int i = 0; i + 4 < B_ROWS / 2; i++)
            d[i] = d[i + 4];
        if ((c0 + each) % 64 == 0 || c0 + each == all)
            store_columns(o, c0 / 64 * 64, min(all, 64));
    }
}

DEVICE void finish(const rows_out *o, float d[B_ROWS / 2]) {
    const att_moe_params *p = o->p;
    const bool gated = p->flags & ATT_MOE_GATED, by_turns = p->gate == ATT_MOE_GATE_BY_TURNS;
    if (gated && !by_turns && p->activation == ATT_MOE_ACT_SWIGLU)
        finish_swiglu(o, d);
    else if (gated && by_turns && p->activation == ATT_MOE_ACT_CLAMPED)
        finish_clamped_turns(o, d);
    else
        finish_any(o, d);
}

#define BIAS(i) bias_at(p, &w, i)

DEVICE void consume(const att_moe_params *p, char *base) {
    const unsigned shared = shared_address(base);
    const int group = threadIdx.x / WARPGROUP, steps = (p->hidden + DEPTH - 1) / DEPTH;
    const int items = p->tile_starts[p->local_experts] * p->up_steps;
    const bool has_biases = p->b1 || p->b3;
    ring r = {0, 0};
    for (int n = 0, item = blockIdx.x; item < items; n++, item += gridDim.x) {
        mbarrier_wait(full(shared, r.place), r.parity);
        const tile_work w = *work_at(base, n);
        if (group * GROUP_ROWS >= w.count) {
            pass_by(shared, &r, steps);
            continue;
        }
        float d[B_ROWS / 2];
        if (has_biases)
            BRING_BIASES(base, BIAS);
        multiply(d, shared, &r, steps);
        if (has_biases)
            add_biases(d, base);
        const rows_out o = {p, &w, out_of_warp(shared), (int)threadIdx.x % 32, (int)threadIdx.x / 32 * OUT_ROWS};
        finish(&o, d);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) KERNEL(const __grid_constant__ att_moe_sm90_params params) {
    extern __shared__ __align__(1024) char shared_memory[];
    begin(&params, shared_address(shared_memory), WARPGROUP + 1);
    wait_for_previous_kernel();
    allow_next_kernel();
    if (threadIdx.x / WARPGROUP == CONSUMERS) {
        if (CONSUMERS > 1)
            REGISTERS_KEEP(KEEP_REGISTERS);
        produce(&params, shared_memory);
    } else {
        if (CONSUMERS > 1)
            REGISTERS_TAKE(TAKE_REGISTERS);
        consume(&params.moe, shared_memory);
    }
}
