/* fwd_sm90_load.cuh: the producer warp: it announces the next tile and keeps the copy engine
 * busy. */
#ifndef ATT_FWD_SM90_LOAD_CUH
#define ATT_FWD_SM90_LOAD_CUH

#include "kernels/fwd_sm90_parts.cuh"
#include "kernels/fwd_sm90_shared.cuh"
#include "kernels/fwd_sm90_work.cuh"
#include "kernels/math.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"

/* A tile that sees no key: O is 0; LSE is -inf, or the sink's. */
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

DEVICE void write_pair(unsigned to, int a, int b) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(a), "r"(b) : "memory");
}

DEVICE void write_address(unsigned to, const void *address) {
    asm volatile("st.shared.b64 [%0], %1;" ::"r"(to), "l"(address) : "memory");
}

/* With pages, a tile of keys is loaded in copies of `copy_rows` keys. Lane l looks up the
 * source of the l-th copy, one tile ahead. Lanes past the last copy have none. */
typedef struct page_rows {
    int page, row; /* no such page: zeros are loaded */
} page_rows;

enum { CLAIM_KEYS = 256 /* keys left when the next tile is claimed: that takes a microsecond */ };

/* The coordinates of rows in their tensor. Packed sequences have no batch entries. */
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

/* The tile of K or V to load next. */
typedef struct key_tile {
    source from; /* key_source */
    int len_k;
    int j;           /* a step of the walk */
    page_rows pages; /* if keys are in pages */
#if FEATURES /* unused fields would shift instructions of the other rows */
    int first, last, turned, list; /* as in tile_work */
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
    bool speaks;      /* one lane does what must be done once */
    int n;            /* the last record written */
    int tile;         /* the tile it describes */
    unsigned claimed; /* from the counter; valid in the lane that speaks */
    source q;         /* first row of Q */
    key_tile keys;    /* the next tile of its keys, from the last to the first */
    int first, last;
    ring k, v;        /* the slots to fill next */
} producer;

/* Write the next record: the tile's work, or NO_TILE if there are no more. */
DEVICE void announce(producer *a, int tile, const tile_work *w) {
    const att_fwd_sm90_params *p = a->p;
    const att_fwd_params *f = &p->fwd;
    a->n++;
    const unsigned to = record_place(a->shared, a->n, 0);
    wait_empty(a->shared, TILE_EMPTY, a->n, RECORDS);
    if (a->speaks && tile == NO_TILE) {
        write_words(to, NO_TILE, 0, 0, 0);
        mbarrier_arrive(barrier_of(a->shared, TILE_FULL + place_of(a->n, RECORDS)));
    } else if (a->speaks) {
        write_words(to, tile, w->row0, w->rows, w->first);
        write_words(to + 16, w->last, w->s.len_k, w->s.shift, w->head);
        write_pair(to + 4 * REC_BATCH, w->s.batch, (int)w->s.row_q);
        if (HAS_MASK) {
            const att_fwd_mask_tile last = listed_tile(p, w->list, w->last - 1);
            write_words(to + 4 * REC_LIST, w->list, last.tile, (int)last.kinds, 0);
        }
        if (SPLITS_KEYS) {
            write_address(to + 4 * REC_O_ROW, f->partial_o + first_part_row(p, w) * f->d_v);
            write_address(to + 4 * REC_LSE_ROW, f->partial_sums + 2 * first_part_row(p, w));
        } else {
            write_address(to + 4 * REC_O_ROW, (half_bits *)f->o + first_row(p, w, &f->o_stride));
            write_address(to + 4 * REC_LSE_ROW, f->lse ? f->lse + first_row(p, w, &f->lse_stride) : 0);
        }
        if (HAS_ALIBI)
            write_pair(to + 4 * REC_SLOPE, __float_as_int(f->alibi[w->s.batch * f->alibi_batch + w->head] * LOG2_E), w->turned);
        if (!IS_PLAIN)
            write_pair(to + 4 * REC_FIRST_K, w->s.first_k, 0);
        mbarrier_arrive(barrier_of(a->shared, TILE_FULL + place_of(a->n, RECORDS)));
    }
    __syncwarp();
}

/* If blocks claim their tiles: send the request and continue. The answer is waited for where it
 * is used. */
DEVICE void claim(producer *a) {
    if (a->p->next_tile && a->speaks)
        a->claimed = atomicAdd(a->p->next_tile, 1u);
}

DEVICE int claimed(const producer *a) {
    return (int)gridDim.x + (a->p->next_tile ? (int)__reduce_max_sync(0xffffffffu, a->claimed) : a->tile);
}

/* Start with the last tile of keys of a tile of rows. */
DEVICE void take_keys(producer *a, const tile_work *w) {
    a->keys = {key_source(a->p, w), w->s.len_k, w->last - 1};
#if FEATURES
    a->keys.first = w->first;
    a->keys.last = w->last;
    a->keys.turned = w->turned;
    a->keys.list = w->list;
#endif
}

/* Announce the first tile that has keys, from a->tile on. Rows without keys are written
 * immediately. Returns false if there are no more. */
DEVICE bool next_tile(producer *a) {
#pragma unroll 1
    for (; a->tile < a->p->tiles; claim(a), a->tile = claimed(a)) {
        const tile_work w = tile_of(a->p, a->tile);
        if (has_rows(&w) && has_keys(&w)) {
            a->first = w.first;
            a->last = w.last;
            a->q = query_source(a->p, &w);
            take_keys(a, &w);
            announce(a, a->tile, &w);
            return true;
        }
        if (has_rows(&w) && SPLITS_KEYS)
            store_empty_part(a->p, &w);
        else if (has_rows(&w))
            store_nothing(a->p, &w);
    }
    announce(a, NO_TILE, 0);
    return false;
}

/* This lane's rows of tile `j` of the same keys. The load of the table entry is not waited for
 * here, but where the copies start. */
DEVICE page_rows look_up(const producer *a, const key_tile *keys, int j) {
    const att_fwd_params *f = &a->p->fwd;
    key_tile at = *keys;
    at.j = j;
    const int r = (int)threadIdx.x % 32 * a->p->copy_rows, key = first_key(a->p, &at) + r;
    if (r >= TILE_N || key >= keys->len_k)
        return {-1, 0};
    const int index = (unsigned)key / (unsigned)f->page_size;
    return {f->page_table[keys->from.batch * f->page_table_stride + index], key - index * f->page_size};
}

/* One lane starts the copies, four at a time, with the pages shuffled from the other lanes. If
 * every lane started its own, the compiler would elect one lane after the other. A page that
 * does not exist is outside the tensor: zeros are loaded. */
DEVICE void load_pages(const producer *a, const key_tile *keys, const att_tensor_map *map, unsigned to, unsigned full, int panels) {
    enum { AT_ONCE = 4 };
    const int rows = a->p->copy_rows;
#pragma unroll 1
    for (int first = 0; first * rows < TILE_N; first += AT_ONCE) {
        page_rows from[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            from[i].page = __shfl_sync(0xffffffffu, keys->pages.page, first + i);
            from[i].row = __shfl_sync(0xffffffffu, keys->pages.row, first + i);
        }
        if (a->speaks)
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if ((first + i) * rows < TILE_N)
#pragma unroll
                    for (int c = 0; c < panels; c++)
                        tma_load_4d(to + (c * TILE_N + (first + i) * rows) * ROW_BYTES, map, full, 64 * c, from[i].row, keys->from.head,
                                    from[i].page);
        __syncwarp();
    }
}

/* Load a tile of K or V once its slot is free. Consumers wait for everything after that, so all
 * else is computed before. `paged` is a constant: there is a page table. */
DEVICE void load_keys(const producer *a, const key_tile *keys, const att_tensor_map *map, unsigned to, int full, int empty, ring at,
                      int panels, bool paged) {
    const unsigned barrier = barrier_of(a->shared, full + at.place);
    const int row = keys->from.row + first_key(a->p, keys);
    mbarrier_wait(barrier_of(a->shared, empty + at.place), at.parity ^ 1);
    __syncwarp();
    if (paged) {
        if (a->speaks)
            mbarrier_expect(barrier, TILE_N * ROW_BYTES * panels);
        __syncwarp();
        load_pages(a, keys, map, to, barrier, panels);
        return;
    }
    if (!a->speaks)
        return;
    mbarrier_expect(barrier, TILE_N * ROW_BYTES * panels);
#pragma unroll
    for (int c = 0; c < panels; c++)
        tma_load_4d(to + c * TILE_N * ROW_BYTES, map, barrier, 64 * c, row, keys->from.head, keys->from.batch);
}

DEVICE void load_k(producer *a, const key_tile *keys, bool paged) {
    load_keys(a, keys, &a->p->k, a->shared + K_AT + a->k.place * K_BYTES, K_FULL, K_EMPTY, a->k, QK_PANELS, paged);
    a->k = ring_next(a->k, STAGES);
}

DEVICE void load_v(producer *a, const key_tile *keys, bool paged) {
    load_keys(a, keys, &a->p->v, a->shared + V_AT + a->v.place * V_BYTES, V_FULL, V_EMPTY, a->v, V_PANELS, paged);
    a->v = ring_next(a->v, V_STAGES);
}

/* Load the rows of warpgroup `group`. */
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

/* Release the n-th record. */
DEVICE void leave(const producer *a, int n) {
    if (a->speaks)
        mbarrier_arrive(barrier_of(a->shared, TILE_EMPTY + place_of(n, RECORDS)));
}

/* Before the previous kernel on the stream has ended: prefetch the start of the first tile into
 * L2. That kernel may still write it, but L2 is coherent. It may be writing the lengths, too.
 * With at most one tile per block there is nothing to gain. One lane must not write anything
 * that the others keep: the compiler would treat it as different in every lane and move it to
 * uniform registers before every copy. */
DEVICE void ask_early(const producer *a) {
    const att_fwd_sm90_params *p = a->p;
    const att_fwd_params *f = &p->fwd;
    if (!USE_EARLY_L2 || HAS_MASK || p->tiles <= (int)gridDim.x || !a->speaks || reads_lengths(f))
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

/* For every tile: load Q, and the tiles of keys from the last to the first. K is one tile ahead
 * of V, as the scores are, even into the next tile of rows if that needs no slot that waits for
 * V. `paged` is a constant: there is a page table, which is read one tile of keys ahead. */
DEVICE void produce(const att_fwd_sm90_params *p, unsigned shared, bool paged) {
    producer a = {p, shared, does_speak(), -1, (int)blockIdx.x, 0, {0, 0, 0}, {{0, 0, 0}, 0, -1, {0, 0}}, 0, 0, {0, 0}, {0, 0}};
    key_tile due = a.keys; /* the next V; none yet */
    if (a.speaks) {
        tma_prefetch_map(&p->q);
        tma_prefetch_map(&p->k);
        tma_prefetch_map(&p->v);
    }
    if (!paged)
        ask_early(&a);
    __syncwarp();
    wait_for_previous_kernel();
#pragma unroll 1
    while (next_tile(&a)) {
        if (paged)
            a.keys.pages = look_up(&a, &a.keys, a.keys.j);
        const int begin = a.last - 1, claim_at = USE_LATE_CLAIM ? min(begin, a.first + CLAIM_KEYS / TILE_N) : begin;
#pragma unroll 1
        for (; a.keys.j >= a.first; a.keys.j--) {
            const bool begins = a.keys.j == begin;
            if (begins)
                load_q(&a, 0);
            load_k(&a, &a.keys, paged);
            page_rows next = {};
            if (paged && a.keys.j > a.first)
                next = look_up(&a, &a.keys, a.keys.j - 1);
            if (begins)
#pragma unroll 1
                for (int group = 1; group < GROUPS; group++)
                    load_q(&a, group);
            if (a.keys.j == claim_at)
                claim(&a);
            if (due.j >= 0 && (TWO_Q || !begins) && !(paged && HAS_V_WARP))
                load_v(&a, &due, paged);
            if (begins && a.n > 0)
                leave(&a, a.n - 1);
            due = a.keys;
            a.keys.pages = next;
        }
        if (!TWO_Q && !(paged && HAS_V_WARP))
            load_v(&a, &due, paged);
        a.tile = claimed(&a);
    }
    if (TWO_Q && due.j >= 0 && !(paged && HAS_V_WARP))
        load_v(&a, &due, paged);
    if (a.n > 0)
        leave(&a, a.n - 1);
}

/* With pages, V is loaded by a separate warp, following the producer's announcements: small
 * pages need many copies, and two warps start twice as many. If a bias takes the other warps,
 * the producer loads V too. */
DEVICE void produce_values(const att_fwd_sm90_params *p, unsigned shared) {
    producer a = {p, shared, does_speak(), -1, 0, 0, {0, 0, 0}, {{0, 0, 0}, 0, -1, {0, 0}}, 0, 0, {0, 0}, {0, 0}};
    wait_for_previous_kernel();
#pragma unroll 1
    for (int n = 0;; n++) {
        wait_full(shared, TILE_FULL, n, RECORDS);
        const int tile = record_word(shared, n, REC_TILE);
        if (tile == NO_TILE)
            break;
        const tile_work w = tile_of(p, tile);
        take_keys(&a, &w);
        a.keys.pages = look_up(&a, &a.keys, a.keys.j);
#pragma unroll 1
        for (; a.keys.j >= w.first; a.keys.j--) {
            const page_rows next = a.keys.j > w.first ? look_up(&a, &a.keys, a.keys.j - 1) : a.keys.pages;
            load_v(&a, &a.keys, true);
            a.keys.pages = next;
        }
        leave(&a, n);
        __syncwarp();
    }
}

#endif
