/* moe_sm90.cu: the first product of a layer of experts on Hopper, and the activation
 * COMPUTES h = act(W1 x + b1, W3 x + b3) for the slots of an expert; persistent blocks take
 *          (tile of up to TILE_M positions, columns of h) from a counter
 * TILE     2 TILE_N rows of weights x up to TILE_M positions: TILE_N columns of h with a gate,
 *          twice as many without
 * THREADS  one warpgroup that loads, TILE_N / 64 that multiply 64 rows of gate and of up each
 * SMEM     moe_sm90_tile.cuh
 * FLOW     weights are loaded by the copy engine; rows of x are gathered by the loading threads,
 *          whose copies arrive at the slot's barrier when they have landed
 * NUMERICS float32 sums, h rounded to DTYPE. A row depends only on its token and the weights,
 *          not on its position
 * LIMITS   float16 and bfloat16; weights stored as (columns, depth); rows of x and of weights
 *          are whole vectors of 16 bytes
 * WHY      Hopper's copy engine reads boxes, not lists of rows. The few bytes of x that a tile
 *          needs are loaded with cp.async, so that no sorted copy of x is needed. With weights
 *          as the left operand, a product costs what its positions cost, in multiples of 16; as
 *          the right one, in multiples of 64, and experts of 130 tokens paid for 192 or read
 *          their weights twice */
/* Rows of weights per tile. */
#if TILE_N == 128
#define B_ROWS 256
#else
#define B_ROWS 128
#endif
#define COPIED_BY_THREADS 1
static_assert(B_ROWS == 2 * TILE_N, "tiles of 64 or 128 columns");
#include "kernels/async_copy.cuh"
#include "kernels/moe_activation.cuh"
#include "kernels/moe_gate.cuh"
#include "kernels/moe_sm90_tile.cuh"
#include "kernels/programmatic_launch.cuh"

#define ROWS_LOADED (TILE_M / TILE_UNIT) /* per thread: a chunk of 16 bytes of each */
#define CHUNK       8                    /* elements of 16 bytes */
static_assert(WARPGROUP / CHUNK == TILE_UNIT, "the loading threads load a unit of positions at a time");

/* --------------------------------------------------------------------------------- loading */

/* Load the two halves of a tile of weights: gate and up, or twice as many rows. Gate and up by
 * turns have a map each, of every other row. */
DEVICE void load_weights(const att_moe_sm90_params *h, const tile_work *w, unsigned to, unsigned barrier, int depth) {
    const att_moe_params *p = &h->moe;
    const int column = w->step * p->up_columns;
    const bool gated = p->flags & ATT_MOE_GATED;
    const int second = !gated ? column + TILE_N : p->gate == ATT_MOE_GATE_THEN_UP ? column + p->inner : column;
    mbarrier_expect(barrier, WEIGHTS_BYTES);
    tma_load_4d(to, &h->w, barrier, depth, column, w->expert, 0);
    tma_load_4d(to + HALF_ROWS * ROW_BYTES, &h->w3, barrier, depth, second, w->expert, 0);
}

/* The slots of this thread's rows. A row that does not exist repeats the tile's first: its
 * results are not stored. */
DEVICE void find_slots(const att_moe_params *p, const tile_work *w, int slots[ROWS_LOADED]) {
#pragma unroll
    for (int i = 0; i < ROWS_LOADED; i++) {
        const int r = threadIdx.x % WARPGROUP / CHUNK + i * TILE_UNIT;
        slots[i] = w->count > 0 ? p->slot_at[w->first + (r < w->count ? r : 0)] : 0;
    }
}

/* Where those rows of x begin, in chunks. */
DEVICE void find_rows(const att_moe_params *p, const int slots[ROWS_LOADED], int rows[ROWS_LOADED]) {
    const int pitch = (int)(p->x_row / CHUNK);
#pragma unroll
    for (int i = 0; i < ROWS_LOADED; i++)
        rows[i] = slots[i] / p->k * pitch;
}

/* Gather `units` units of rows of x, of which this thread has a chunk each. */
DEVICE void load_rows(const att_moe_params *p, const int rows[ROWS_LOADED], int units, unsigned to, unsigned barrier, int depth) {
    const int thread = threadIdx.x % WARPGROUP, chunk = thread % CHUNK;
    const int bytes = depth + chunk * CHUNK < p->hidden ? 16 : 0;
    const uint4 *x = (const uint4 *)p->x + (bytes ? depth / CHUNK + chunk : 0);
    to += swizzled(thread / CHUNK, chunk, ROW_BYTES);
#pragma unroll
    for (int i = ROWS_LOADED - 1; i >= 0; i--)
        if (i < units)
            async_copy_16(to + i * TILE_UNIT * ROW_BYTES, x + rows[i], bytes);
    async_arrive(barrier);
}

/* The item after the one being loaded. The lookup advances by one step every LOOK_EVERY
 * slots. */
typedef struct lookout {
    scout s;
    int parity; /* of the item */
    bool has_slots;
    int slots[ROWS_LOADED];
} lookout;

/* One thread takes a number, and some slots later tells it to the others. There are two places
 * for it: a thread reads one before it comes to the barrier of the other. */
DEVICE void share_number(lookout *l, char *base) {
    int *number = (int *)(base + NUMBERS_AT) + l->parity;
    if (threadIdx.x % WARPGROUP == 0)
        *number = l->s.item;
    named_barrier_wait(BARRIER_LOAD, WARPGROUP);
    l->s.item = *number;
    l->parity ^= 1;
}

DEVICE void look_ahead(lookout *l, const att_moe_params *p, char *base) {
    switch (l->s.known) {
    case SCOUT_NOTHING:
        if (threadIdx.x % WARPGROUP == 0)
            scout_ask(&l->s);
        l->s.known = SCOUT_NUMBER;
        break;
    case SCOUT_NUMBER:
        share_number(l, base);
        scout_expert(&l->s, p);
        break;
    case SCOUT_EXPERT:
        scout_place(&l->s, p);
        break;
    default:
        if (!l->has_slots) {
            const tile_work w = scout_work(&l->s);
            find_slots(p, &w, l->slots);
            l->has_slots = true;
        }
    }
}

/* The next item, its rows, and whether it exists. */
DEVICE bool take_item(lookout *l, const att_moe_params *p, char *base, tile_work *w, int rows[ROWS_LOADED]) {
    while (!l->has_slots)
        look_ahead(l, p, base);
    *w = scout_work(&l->s);
    find_rows(p, l->slots, rows);
    l->has_slots = false;
    l->s.known = SCOUT_NOTHING;
    return w->count > 0;
}

DEVICE void produce(const att_moe_sm90_params *h, char *base) {
    const att_moe_params *p = &h->moe;
    const unsigned shared = shared_address(base);
    const bool first_thread = threadIdx.x % WARPGROUP == 0;
    const int warp = uniform(threadIdx.x % WARPGROUP / 32);
    ring r = {0, 1};
    int n = 0;
    lookout ahead = {scout_begin(p, p->counters, p->up_steps), 0, false};
    tile_work w;
    int rows[ROWS_LOADED];
    for (; take_item(&ahead, p, base, &w, rows); n++) {
        const int units = units_of(&w);
        if (first_thread)
            *work_at(base, n) = w;
#pragma unroll 1
        for (int depth = 0; depth < p->hidden; depth += DEPTH) {
            const unsigned tile = shared + r.place * STAGE_BYTES;
            mbarrier_wait(empty(shared, r.place), r.parity);
            if (warp == 0 && elect_lane())
                load_weights(h, &w, tile, full(shared, r.place), depth);
            load_rows(p, rows, units, tile + WEIGHTS_BYTES, full(shared, r.place), depth);
            advance(&r);
            if (depth % (LOOK_EVERY * DEPTH) == 0)
                look_ahead(&ahead, p, base);
        }
    }
    /* The end takes a slot of the ring as well. */
    mbarrier_wait(empty(shared, r.place), r.parity);
    if (first_thread) {
        *work_at(base, n) = w;
        mbarrier_arrive(full(shared, r.place));
    }
    mbarrier_arrive(full(shared, r.place));
    async_commit();
    ASYNC_WAIT(0); /* a thread stays until its copies have landed */
}

/* ------------------------------------------------------------------------------ activation */

/* Where a warp's columns of h go: those of the first half of the weights' tile and, without a
 * gate, of the second. */
typedef struct rows_out {
    const att_moe_params *p;
    const tile_work *w;
    unsigned out;
    int column;
} rows_out;

/* Store 16 columns from `column` on of the i-th unit of positions. */
DEVICE void store_unit(const rows_out *o, int i, int column, const unsigned pairs[4]) {
    const att_moe_params *p = o->p;
    const int position = i * TILE_UNIT + threadIdx.x % 32 / 2, c = column + threadIdx.x % 2 * CHUNK;
    put_unit(o->out, pairs);
    if (position < o->w->count && c < p->h_pitch)
        store_16((half_bits *)p->h + (o->w->first + position) * p->h_pitch + c, take_chunk(o->out));
}

/* The activations that are compiled for themselves; everything else goes through a loop that is
 * not unrolled. */
DEVICE void finish_swiglu(const rows_out *o, const results *d, int units) {
#pragma unroll
    for (int i = 0; i < ROWS_LOADED; i++) {
        if (i >= units)
            break;
        unsigned pairs[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *g = d->first + i * 8 + j * 2, *u = d->second + i * 8 + j * 2;
            pairs[j] = pack_16(DTYPE, swiglu(g[0], u[0]), swiglu(g[1], u[1]));
        }
        store_unit(o, i, o->column, pairs);
    }
}

DEVICE void finish_clamped(const rows_out *o, const results *d, int units) {
    const float alpha = o->p->alpha, limit = o->p->limit;
#pragma unroll
    for (int i = 0; i < ROWS_LOADED; i++) {
        if (i >= units)
            break;
        unsigned pairs[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *g = d->first + i * 8 + j * 2, *u = d->second + i * 8 + j * 2;
            pairs[j] = pack_16(DTYPE, swiglu_clamped(g[0], u[0], alpha, limit), swiglu_clamped(g[1], u[1], alpha, limit));
        }
        store_unit(o, i, o->column, pairs);
    }
}

/* Results are shifted to the registers that the loop reads, a unit at a time. */
DEVICE void finish_any(const rows_out *o, results *d, int units) {
    const att_moe_params *p = o->p;
    const bool gated = p->flags & ATT_MOE_GATED;
#pragma unroll 1
    for (int i = 0; i < units; i++) {
        unsigned pairs[4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            pairs[j] = pack_16(DTYPE, activate(p, d->first[2 * j], d->second[2 * j]), activate(p, d->first[2 * j + 1], d->second[2 * j + 1]));
        store_unit(o, i, o->column, pairs);
        if (!gated) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                pairs[j] = pack_16(DTYPE, activate(p, d->second[2 * j], 0.0f), activate(p, d->second[2 * j + 1], 0.0f));
            store_unit(o, i, o->column + TILE_N, pairs);
        }
#pragma unroll
        for (int j = 0; j + 8 < TILE_M / 2; j++) {
            d->first[j] = d->first[j + 8];
            d->second[j] = d->second[j + 8];
        }
    }
}

DEVICE void finish(const rows_out *o, results *d, int units) {
    const att_moe_params *p = o->p;
    const bool gated = p->flags & ATT_MOE_GATED;
    if (gated && p->activation == ATT_MOE_ACT_SWIGLU)
        finish_swiglu(o, d, units);
    else if (gated && p->activation == ATT_MOE_ACT_CLAMPED)
        finish_clamped(o, d, units);
    else
        finish_any(o, d, units);
}

/* The biases of the lane's two rows of each half: [half][row]. */
typedef struct lane_biases {
    float of[2][2];
} lane_biases;

DEVICE lane_biases find_biases(const rows_out *o) {
    const bool gated = o->p->flags & ATT_MOE_GATED;
    lane_biases b;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int row = 0; row < 2; row++)
            b.of[half][row] = gate_bias(o->p, o->w->expert, o->column + threadIdx.x % 32 / 4 + row * 8 + (gated ? 0 : half * TILE_N),
                                        gated && half);
    return b;
}

DEVICE void add_biases(results *d, const lane_biases *b) {
#pragma unroll
    for (int i = 0; i < TILE_M / 2; i++) {
        d->first[i] += b->of[0][i / 2 % 2];
        d->second[i] += b->of[1][i / 2 % 2];
    }
}

DEVICE void consume(const att_moe_params *p, char *base) {
    const unsigned shared = shared_address(base);
    const int steps = (p->hidden + DEPTH - 1) / DEPTH;
    const bool has_biases = p->b1 || p->b3;
    ring r = {0, 0};
    for (int n = 0;; n++) {
        mbarrier_wait(full(shared, r.place), r.parity);
        const tile_work w = *work_at(base, n);
        if (w.count == 0)
            return;
        const int units = uniform(units_of(&w));
        const rows_out o = {p, &w, out_of_warp(shared), w.step * p->up_columns + warp_row()};
        lane_biases biases;
        if (has_biases)
            biases = find_biases(&o);
        results d;
        multiply(&d, shared, &r, steps, units);
        if (has_biases)
            add_biases(&d, &biases);
        finish(&o, &d, units);
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
