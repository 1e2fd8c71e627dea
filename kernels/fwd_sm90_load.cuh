/* fwd_sm90_load.cuh: the producer, a warp: it says which tile is next and keeps the copy engine busy. */
#ifndef ATT_FWD_SM90_LOAD_CUH
#define ATT_FWD_SM90_LOAD_CUH

#include "kernels/fwd_sm90_shared.cuh"
#include "kernels/fwd_sm90_work.cuh"
#include "kernels/math.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"

/* A tile that sees no key: O is 0, LSE -inf, or what the sink makes of it. */
DEVICE void store_nothing(const att_fwd_sm90_params *p, const tile_work *w) {
    const att_fwd_params *f = &p->fwd;
#pragma unroll 1
    for (int r = max(0, -w->row0) + (int)threadIdx.x % 32; r < min(TILE_M, w->rows - w->row0); r += 32) {
        half_bits *o = (half_bits *)f->o + first_row(p, w, &f->o_stride) + row_offset(p, &f->o_stride, r);
#pragma unroll 1
        for (int column = 0; column < f->d_v; column += 8)
            store_16(o + column, make_uint4(0, 0, 0, 0));
        if (f->lse)
            f->lse[first_row(p, w, &f->lse_stride) + row_offset(p, &f->lse_stride, r)] =
                f->sinks ? f->sinks[head_of(p, w->head, r)] : -INFINITE;
    }
}

DEVICE void write_record(unsigned to, int a, int b, int c, int d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

DEVICE void write_pair(unsigned to, int a, int b) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

DEVICE void write_address(unsigned to, const void *address) {
    asm volatile("st.shared.b64 [%0], %1;" ::"r"(to), "l"(address) : "memory");
}

enum { CLAIM_KEYS = 256 /* left to load when the next tile is asked for: the answer takes a microsecond */ };

/* Where rows lie: coordinates of their tensor. Sequences that are packed have no batch entries. */
typedef struct source {
    int row, head, batch;
} source;

DEVICE source query_source(const att_fwd_sm90_params *p, const tile_work *w) {
    return {(int)w->s.row_q + (w->row0 >> p->pack), w->head, p->fwd.cu_seqlens_q ? 0 : w->s.batch};
}

/* The sequence's first key; with pages, the batch entry's. */
DEVICE source key_source(const att_fwd_sm90_params *p, const tile_work *w) {
    return {(int)w->s.row_k, key_head_of(p, w->head), p->fwd.cu_seqlens_k && !p->fwd.page_table ? 0 : w->s.batch};
}

/* The tile of keys to load next of K, or of V. */
typedef struct key_tile {
    source from; /* key_source */
    int len_k;
    int j; /* a step of the walk */
#if FEATURES /* without a use the fields would move instructions of the other rows about */
    int first, last, turned, list; /* of tile_work */
#endif
} key_tile;

DEVICE int first_key(const att_fwd_sm90_params *p, const key_tile *keys) {
#if FEATURES
    if (HAS_MASK)
        return listed_tile(p, keys->list, keys->j).tile * TILE_N;
    return key_tile_at(keys->j, keys->first, keys->last, keys->turned) * TILE_N;
#else
    return keys->j * TILE_N;
#endif
}

typedef struct producer {
    const att_fwd_sm90_params *p;
    unsigned shared;
    bool speaks;      /* one lane does what is done once */
    int n;            /* the record written last */
    int tile;         /* the tile that it is of */
    unsigned claimed; /* from the counter; in the lane that speaks */
    source q;         /* its first row */
    key_tile keys;    /* and what of its keys is next, from the last to the first */
    int first, last;
    ring k, v;        /* the places to fill next */
} producer;

/* What the next record says: the tile's work; no `tile`: there are no more. */
DEVICE void announce(producer *a, int tile, const tile_work *w) {
    const att_fwd_sm90_params *p = a->p;
    const att_fwd_params *f = &p->fwd;
    a->n++;
    const unsigned to = record_place(a->shared, a->n, 0);
    wait_empty(a->shared, TILE_EMPTY, a->n, RECORDS);
    if (a->speaks && tile == NO_TILE) {
        write_record(to, NO_TILE, 0, 0, 0);
        mbarrier_arrive(barrier_of(a->shared, TILE_FULL + place_of(a->n, RECORDS)));
    } else if (a->speaks) {
        write_record(to, tile, w->row0, w->rows, w->first);
        write_record(to + 16, w->last, w->s.len_k, w->s.shift, w->head);
        write_pair(to + 4 * BATCH, w->s.batch, (int)w->s.row_q);
        if (HAS_MASK) {
            const att_fwd_mask_tile last = listed_tile(p, w->list, w->last - 1);
            write_record(to + 4 * LIST, w->list, last.tile, (int)last.kinds, 0);
        }
        write_address(to + 4 * O_ROW, (half_bits *)f->o + first_row(p, w, &f->o_stride));
        write_address(to + 4 * LSE_ROW, f->lse ? f->lse + first_row(p, w, &f->lse_stride) : 0);
        if (HAS_ALIBI)
            write_pair(to + 4 * SLOPE, __float_as_int(f->alibi[w->s.batch * f->alibi_batch + w->head] * LOG2_E), w->turned);
        if (!IS_PLAIN)
            write_pair(to + 4 * FIRST_K, w->s.first_k, 0);
        mbarrier_arrive(barrier_of(a->shared, TILE_FULL + place_of(a->n, RECORDS)));
    }
    __syncwarp();
}

/* Where blocks ask for their tiles: ask, and go on; the answer is waited for where it is used. */
DEVICE void claim(producer *a) {
    if (a->p->next_tile && a->speaks)
        a->claimed = atomicAdd(a->p->next_tile, 1u);
}

DEVICE int claimed(const producer *a) {
    return (int)gridDim.x + (a->p->next_tile ? (int)__reduce_max_sync(0xffffffffu, a->claimed) : a->tile);
}

/* Announce the first tile that has keys, from a->tile on; rows without keys are written at once. False where there are no more. */
DEVICE bool next_tile(producer *a) {
#pragma unroll 1
    for (; a->tile < a->p->tiles; claim(a), a->tile = claimed(a)) {
        const tile_work w = tile_of(a->p, a->tile);
        if (has_rows(&w) && has_keys(&w)) {
            a->first = w.first;
            a->last = w.last;
            a->q = query_source(a->p, &w);
            a->keys = {key_source(a->p, &w), w.s.len_k, w.last - 1};
#if FEATURES
            a->keys.first = w.first;
            a->keys.last = w.last;
            a->keys.turned = w.turned;
            a->keys.list = w.list;
#endif
            announce(a, a->tile, &w);
            return true;
        }
        if (has_rows(&w))
            store_nothing(a->p, &w);
    }
    announce(a, NO_TILE, 0);
    return false;
}

/* A page that does not exist lies outside the tensor: it arrives as zeros. */
DEVICE void load_pages(const producer *a, const key_tile *keys, const att_tensor_map *map, unsigned to, unsigned full, int panels) {
    const att_fwd_params *f = &a->p->fwd;
#pragma unroll 1
    for (int r = 0; r < TILE_N; r += a->p->copy_rows) {
        const int key = first_key(a->p, keys) + r, index = key / f->page_size;
        const int page = key < keys->len_k ? f->page_table[keys->from.batch * f->page_table_stride + index] : -1;
#pragma unroll 1
        for (int c = 0; c < panels; c++)
            tma_load_4d(to + c * TILE_N * ROW_BYTES + r * ROW_BYTES, map, full, 64 * c, key - index * f->page_size, keys->from.head, page);
    }
}

/* A tile of K or V, once its place is free. Consumers wait for what comes after that: all else is known before. */
DEVICE void load_keys(const producer *a, const key_tile *keys, const att_tensor_map *map, unsigned to, int full, int empty, ring at,
                      int panels) {
    const unsigned barrier = barrier_of(a->shared, full + at.place);
    const int row = keys->from.row + first_key(a->p, keys);
    mbarrier_wait(barrier_of(a->shared, empty + at.place), at.parity ^ 1);
    __syncwarp();
    if (!a->speaks)
        return;
    mbarrier_expect(barrier, TILE_N * ROW_BYTES * panels);
    if (a->p->fwd.page_table) {
        load_pages(a, keys, map, to, barrier, panels);
        return;
    }
#pragma unroll
    for (int c = 0; c < panels; c++)
        tma_load_4d(to + c * TILE_N * ROW_BYTES, map, barrier, 64 * c, row, keys->from.head, keys->from.batch);
}

DEVICE void load_k(producer *a, const key_tile *keys) {
    load_keys(a, keys, &a->p->k, a->shared + K_AT + a->k.place * K_BYTES, K_FULL, K_EMPTY, a->k, QK_PANELS);
    a->k = ring_next(a->k, STAGES);
}

DEVICE void load_v(producer *a, const key_tile *keys) {
    load_keys(a, keys, &a->p->v, a->shared + V_AT + a->v.place * V_BYTES, V_FULL, V_EMPTY, a->v, V_PANELS);
    a->v = ring_next(a->v, V_STAGES);
}

/* The rows of warpgroup `group`. */
DEVICE void load_q(const producer *a, int group) {
    const int which = place_of(a->n, Q_STAGES) * GROUPS + group;
    const unsigned full = barrier_of(a->shared, Q_FULL + which);
    mbarrier_wait(barrier_of(a->shared, Q_EMPTY + which), parity_of(a->n, Q_STAGES) ^ 1);
    __syncwarp();
    if (!a->speaks)
        return;
    mbarrier_expect(full, Q_BYTES);
#pragma unroll
    for (int c = 0; c < QK_PANELS; c++)
        tma_load_5d(a->shared + which * Q_PLACE + c * 64 * ROW_BYTES, &a->p->q, full, 64 * c, 0, a->q.row + (64 * group >> a->p->pack),
                    a->q.head, a->q.batch);
}

/* The n-th record is not needed here any more. */
DEVICE void leave(const producer *a, int n) {
    if (a->speaks)
        mbarrier_arrive(barrier_of(a->shared, TILE_EMPTY + place_of(n, RECORDS)));
}

/* Before the kernel ahead on the stream has ended: ask L2 for what the first tile begins with. That kernel may still write it, but
 * L2 is where all agree. Lengths and pages may be what it writes, too. With one tile a block, or none, there is nothing to gain. One lane
 * writes nothing that the others keep: the compiler would take it for different in every lane, and move it before every copy. */
DEVICE void ask_early(const producer *a) {
    const att_fwd_sm90_params *p = a->p;
    const att_fwd_params *f = &p->fwd;
    if (!USE_EARLY_L2 || HAS_MASK || p->tiles <= (int)gridDim.x || !a->speaks || f->page_table || reads_lengths(f))
        return;
    const tile_work w = tile_of(p, a->tile);
    if (!has_rows(&w) || !has_keys(&w))
        return;
    const source rows = query_source(p, &w), keys = key_source(p, &w);
    const int key = (w.last - 1 - w.turned) * TILE_N;
#pragma unroll 1
    for (int c = 0; c < QK_PANELS; c++) {
#pragma unroll 1
        for (int group = 0; group < GROUPS; group++)
            tma_ask_l2_5d(&p->q, 64 * c, 0, rows.row + (64 * group >> p->pack), rows.head, rows.batch);
        tma_ask_l2_4d(&p->k, 64 * c, key, keys.head, keys.batch);
    }
#pragma unroll 1
    for (int c = 0; c < V_PANELS; c++)
        tma_ask_l2_4d(&p->v, 64 * c, key, keys.head, keys.batch);
}

/* For every tile: Q, and the tiles of keys from the last to the first. K is one ahead of V, as the scores are, into the next tile
 * too where that needs no room that waits for V. */
DEVICE void produce(const att_fwd_sm90_params *p, unsigned shared) {
    producer a = {p, shared, does_speak(), -1, (int)blockIdx.x, 0, {0, 0, 0}, {{0, 0, 0}, 0, -1}, 0, 0, {0, 0}, {0, 0}};
    key_tile due = a.keys; /* of V; none yet */
    if (a.speaks) {
        tma_prefetch_map(&p->q);
        tma_prefetch_map(&p->k);
        tma_prefetch_map(&p->v);
    }
    ask_early(&a);
    __syncwarp();
    wait_for_previous_kernel();
#pragma unroll 1
    while (next_tile(&a)) {
        const int begin = a.last - 1, claim_at = USE_LATE_CLAIM ? min(begin, a.first + CLAIM_KEYS / TILE_N) : begin;
#pragma unroll 1
        for (; a.keys.j >= a.first; a.keys.j--) {
            const bool begins = a.keys.j == begin;
            if (begins)
                load_q(&a, 0);
            load_k(&a, &a.keys);
            if (begins)
#pragma unroll 1
                for (int group = 1; group < GROUPS; group++)
                    load_q(&a, group);
            if (a.keys.j == claim_at)
                claim(&a);
            if (due.j >= 0 && (TWO_Q || !begins))
                load_v(&a, &due);
            if (begins && a.n > 0)
                leave(&a, a.n - 1);
            due = a.keys;
        }
        if (!TWO_Q)
            load_v(&a, &due);
        a.tile = claimed(&a);
    }
    if (TWO_Q && due.j >= 0)
        load_v(&a, &due);
    if (a.n > 0)
        leave(&a, a.n - 1);
}

#endif
