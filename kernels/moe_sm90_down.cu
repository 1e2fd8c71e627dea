/* moe_sm90_down.cu: the second product of a layer of experts on Hopper
 * COMPUTES part = W2 h + b2 for the slots of an expert; persistent blocks take (tile of up to
 *          TILE_M positions, TILE_N columns of y) from a counter
 * TILE     as moe_sm90.cu, with TILE_N rows of weights
 * FLOW     both operands are loaded by the copy engine: rows of h are in the order of
 *          positions. Rows of a unit that belong to the next expert are multiplied but not
 *          stored
 * NUMERICS float32 sums, stored unrounded, or weighted and rounded to DTYPE (ATT_MOE_PARTS_16):
 *          moe_combine adds up a token's parts */
#define B_ROWS            TILE_N
#define COPIED_BY_THREADS 0
#include "kernels/convert.cuh"
#include "kernels/moe_sm90_tile.cuh"
#include "kernels/programmatic_launch.cuh"

/* One warp loads: its lanes look up items together, and the elected one starts copies. */

DEVICE void load_weights(const att_moe_sm90_params *h, const tile_work *w, unsigned shared, int place, int depth) {
    mbarrier_expect(full(shared, place), WEIGHTS_BYTES + units_of(w) * TILE_UNIT * ROW_BYTES);
    tma_load_4d(shared + place * STAGE_BYTES, &h->w, full(shared, place), depth, w->step * TILE_N, w->expert, 0);
}

DEVICE void load_h(const att_moe_sm90_params *h, const tile_work *w, unsigned shared, int place, int depth) {
    const unsigned to = shared + place * STAGE_BYTES + WEIGHTS_BYTES;
    for (int i = 0; i < units_of(w); i++)
        tma_load_4d(to + i * TILE_UNIT * ROW_BYTES, &h->h, full(shared, place), depth, w->first + i * TILE_UNIT, 0, 0);
}

DEVICE void look_ahead(scout *s, const att_moe_params *p) {
    switch (s->known) {
    case SCOUT_NOTHING:
        if (threadIdx.x % 32 == 0)
            scout_ask(s);
        s->known = SCOUT_NUMBER;
        break;
    case SCOUT_NUMBER:
        s->item = uniform(s->item);
        scout_expert(s, p);
        break;
    case SCOUT_EXPERT:
        scout_place(s, p);
        break;
    default:
        break;
    }
}

DEVICE bool take_item(scout *s, const att_moe_params *p, tile_work *w) {
    while (s->known != SCOUT_ALL)
        look_ahead(s, p);
    *w = scout_work(s);
    s->known = SCOUT_NOTHING;
    return w->count > 0;
}

/* The previous kernel has waited for the sorting kernel. The locations of tiles may therefore
 * be read, and items taken, before the previous kernel has ended; weights of the first item may
 * already be loaded. */
DEVICE void produce(const att_moe_sm90_params *h, char *base) {
    const att_moe_params *p = &h->moe;
    const unsigned shared = shared_address(base);
    const int early = min(STAGES, (p->inner + DEPTH - 1) / DEPTH) * DEPTH;
    ring r = {0, 1};
    scout ahead = scout_begin(p, p->counters + 1, p->down_steps);
    tile_work w;
    int n = 0;
    bool there = take_item(&ahead, p, &w);
    if (there && elect_lane())
        for (int depth = 0; depth < early; depth += DEPTH)
            load_weights(h, &w, shared, depth / DEPTH, depth);
    wait_for_previous_kernel();
    for (; there; n++) {
        if (threadIdx.x % 32 == 0)
            *work_at(base, n) = w;
        __syncwarp();
#pragma unroll 1
        for (int depth = 0; depth < p->inner; depth += DEPTH) {
            mbarrier_wait(empty(shared, r.place), r.parity);
            if (elect_lane()) {
                if (n > 0 || depth >= early)
                    load_weights(h, &w, shared, r.place, depth);
                load_h(h, &w, shared, r.place, depth);
            }
            advance(&r);
            if (depth % (LOOK_EVERY * DEPTH) == 0)
                look_ahead(&ahead, p);
        }
        there = take_item(&ahead, p, &w);
    }
    mbarrier_wait(empty(shared, r.place), r.parity);
    if (threadIdx.x % 32 == 0) {
        *work_at(base, n) = w;
        mbarrier_arrive(full(shared, r.place));
    }
}

/* ------------------------------------------------------------------------- results' way out */

/* A position's slot, -1 if the position does not exist, and its weight. */
typedef struct slot_weight {
    int slot;
    float weight;
} slot_weight;

/* Where a warp's columns go. */
typedef struct rows_out {
    const att_moe_params *p;
    const tile_work *w;
    unsigned out;
    int column; /* of the first half of the weights' tile */
    slot_weight *slots;
} rows_out;

/* Looked up before the product, by a warpgroup for itself. */
DEVICE void find_slots(const rows_out *o) {
    const att_moe_params *p = o->p;
    named_barrier_wait(1 + threadIdx.x / WARPGROUP, WARPGROUP); /* the previous item's have been read */
    for (int i = threadIdx.x % WARPGROUP; i < TILE_M; i += WARPGROUP) {
        slot_weight s = {-1, 0.0f};
        if (i < o->w->count) {
            s.slot = p->slot_at[o->w->first + i];
            s.weight = p->flags & ATT_MOE_PARTS_16 ? p->slot_weights[s.slot] : 1.0f;
        }
        o->slots[i] = s;
    }
    named_barrier_wait(1 + threadIdx.x / WARPGROUP, WARPGROUP);
}

/* Store in float32, directly from registers: eight lanes store 32 bytes of a row. */
DEVICE void store_wide(const rows_out *o, const float x[8], int i, int column) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const int slot = o->slots[i * TILE_UNIT + e / 4 * 8 + lane % 4 * 2 + e % 2].slot, c = column + e / 2 % 2 * 8 + lane / 4;
        if (slot >= 0 && c < o->p->hidden)
            ((float *)o->p->parts)[slot * o->p->part_pitch + c] = x[e];
    }
}

/* Store weighted, in 16 bits, 16 bytes at a time. */
DEVICE void store_narrow(const rows_out *o, const float x[8], int i, int column) {
    const int lane = threadIdx.x % 32, c = column + lane % 2 * 8;
    const slot_weight *own = o->slots + i * TILE_UNIT + lane % 4 * 2;
    const float w0 = own[0].weight, w1 = own[1].weight, w2 = own[8].weight, w3 = own[9].weight;
    const unsigned pairs[4] = {pack_16(DTYPE, x[0] * w0, x[1] * w1), pack_16(DTYPE, x[2] * w0, x[3] * w1),
                               pack_16(DTYPE, x[4] * w2, x[5] * w3), pack_16(DTYPE, x[6] * w2, x[7] * w3)};
    put_unit(o->out, pairs);
    const int slot = o->slots[i * TILE_UNIT + lane / 2].slot;
    if (slot >= 0 && c < o->p->hidden)
        store_16((half_bits *)o->p->parts + slot * o->p->part_pitch + c, take_chunk(o->out));
}

DEVICE void store_parts(const rows_out *o, const results *d, int units) {
    const bool narrow = o->p->flags & ATT_MOE_PARTS_16;
#pragma unroll
    for (int i = 0; i < TILE_M / TILE_UNIT; i++) {
        if (i >= units)
            break;
        if (narrow) {
            store_narrow(o, d->first + i * 8, i, o->column);
            store_narrow(o, d->second + i * 8, i, o->column + HALF_ROWS);
        } else {
            store_wide(o, d->first + i * 8, i, o->column);
            store_wide(o, d->second + i * 8, i, o->column + HALF_ROWS);
        }
    }
}

/* Add the biases of the lane's two rows of each half. */
DEVICE void add_biases(results *d, const rows_out *o) {
    const att_moe_params *p = o->p;
    float bias[2][2];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const int c = o->column + threadIdx.x % 32 / 4 + j % 2 * 8 + j / 2 * HALF_ROWS;
        bias[j / 2][j % 2] = c < p->hidden ? load_as_float(p->b2, o->w->expert * p->b2_expert + c, p->dtype_bias) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < TILE_M / 2; i++) {
        d->first[i] += bias[0][i / 2 % 2];
        d->second[i] += bias[1][i / 2 % 2];
    }
}

DEVICE void consume(const att_moe_params *p, char *base) {
    const unsigned shared = shared_address(base);
    const int steps = (p->inner + DEPTH - 1) / DEPTH;
    slot_weight *slots = (slot_weight *)(base + SLOTS_AT) + threadIdx.x / WARPGROUP * TILE_M;
    ring r = {0, 0};
    for (int n = 0;; n++) {
        mbarrier_wait(full(shared, r.place), r.parity);
        const tile_work w = *work_at(base, n);
        if (w.count == 0)
            return;
        const int units = uniform(units_of(&w));
        const rows_out o = {p, &w, out_of_warp(shared), w.step * TILE_N + warp_row(), slots};
        find_slots(&o);
        results d;
        multiply(&d, shared, &r, steps, units);
        if (p->b2)
            add_biases(&d, &o);
        store_parts(&o, &d, units);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) KERNEL(const __grid_constant__ att_moe_sm90_params params) {
    extern __shared__ __align__(1024) char shared_memory[];
    begin(&params, shared_address(shared_memory), 1);
    allow_next_kernel();
    if (threadIdx.x / WARPGROUP == CONSUMERS) {
        if (CONSUMERS > 1)
            REGISTERS_KEEP(KEEP_REGISTERS);
        if (threadIdx.x % WARPGROUP / 32 == 0)
            produce(&params, shared_memory);
    } else {
        if (CONSUMERS > 1)
            REGISTERS_TAKE(TAKE_REGISTERS);
        wait_for_previous_kernel();
        consume(&params.moe, shared_memory);
    }
}
