/* fwd_sm90_load.cuh: the producer warpgroup: a warp that says which tile is next, and a thread that keeps the copy engine busy. */
#ifndef ATT_FWD_SM90_LOAD_CUH
#define ATT_FWD_SM90_LOAD_CUH

#include "kernels/fwd_sm90_shared.cuh"
#include "kernels/fwd_sm90_work.cuh"
#include "kernels/math.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"

/* A tile that sees no key: O is 0, LSE -inf, or what the sink makes of it. */
DEVICE void store_nothing(const att_fwd_sm90_params *p, const tile_work *w) {
    const att_fwd_params *f = &p->fwd;
#pragma unroll 1
    for (int r = (int)threadIdx.x % 32; r < min(TILE_M, w->rows - w->row0); r += 32) {
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

DEVICE void write_address(unsigned to, const void *address) {
    asm volatile("st.shared.b64 [%0], %1;" ::"r"(to), "l"(address) : "memory");
}

/* The n-th record, by one thread. */
DEVICE void announce(const att_fwd_sm90_params *p, unsigned shared, int n, int tile, const tile_work *w) {
    const att_fwd_params *f = &p->fwd;
    const unsigned to = record_place(shared, n, 0);
    /* Who took many tiles ahead would keep some that others could have; who took few would wait for loads. */
    if (n >= p->ahead)
        wait_full(shared, TILE_EMPTY, n - p->ahead, RECORDS);
    write_record(to, tile, w->row0, w->rows, w->first);
    write_record(to + 16, w->last, w->s.len_k, w->s.shift, w->head);
    write_record(to + 32, w->s.batch, (int)w->s.row_q, (int)w->s.row_k, 0);
    write_address(to + 4 * O_ROW, (half_bits *)f->o + first_row(p, w, &f->o_stride));
    write_address(to + 4 * LSE_ROW, f->lse ? f->lse + first_row(p, w, &f->lse_stride) : 0);
    mbarrier_arrive(barrier_of(shared, TILE_FULL + place_of(n, RECORDS)));
}

/* Say which tiles this block takes, one after the other: a warp, so that rows without keys are soon written. */
DEVICE void schedule(const att_fwd_sm90_params *p, unsigned shared) {
    const bool speaks = threadIdx.x % 32 == 0;
    int n = 0;
#pragma unroll 1
    for (int tile = (int)blockIdx.x; tile < p->tiles;) {
        const tile_work w = tile_of(p, tile);
        if (has_rows(&w) && has_keys(&w)) {
            if (speaks)
                announce(p, shared, n, tile, &w);
            n++;
        } else if (has_rows(&w)) {
            store_nothing(p, &w);
        }
        __syncwarp();
        if (p->next_tile) {
            unsigned next = 0;
            if (speaks)
                next = atomicAdd(p->next_tile, 1u);
            tile = (int)(__shfl_sync(0xffffffffu, next, 0) + gridDim.x);
        } else {
            tile += (int)gridDim.x;
        }
    }
    if (speaks) {
        wait_empty(shared, TILE_EMPTY, n, RECORDS);
        write_record(record_place(shared, n, TILE), -1, 0, 0, 0);
        mbarrier_arrive(barrier_of(shared, TILE_FULL + place_of(n, RECORDS)));
    }
}

typedef struct producer {
    const att_fwd_sm90_params *p;
    unsigned shared;
    int n;        /* the record */
    int key_head; /* of K and V */
} producer;

/* Tile j of K or V into a free place of its ring. A page that does not exist lies outside the tensor: it arrives as zeros. */
DEVICE void load_keys(const producer *a, const att_tensor_map *map, unsigned to, unsigned barrier, int panels, int j) {
    const att_fwd_params *f = &a->p->fwd;
    const int batch = record(a->shared, a->n, BATCH);
    mbarrier_expect(barrier, TILE_N * ROW_BYTES * panels);
    if (!f->page_table) {
        const int row = record(a->shared, a->n, ROW_K) + j * TILE_N;
#pragma unroll
        for (int c = 0; c < panels; c++)
            tma_load_4d(to + c * TILE_N * ROW_BYTES, map, barrier, 64 * c, row, a->key_head, f->cu_seqlens_k ? 0 : batch);
        return;
    }
#pragma unroll 1
    for (int r = 0; r < TILE_N; r += a->p->copy_rows) {
        const int key = j * TILE_N + r, index = key / f->page_size;
        const int page = key < record(a->shared, a->n, LEN_K) ? f->page_table[batch * f->page_table_stride + index] : -1;
#pragma unroll 1
        for (int c = 0; c < panels; c++)
            tma_load_4d(to + c * TILE_N * ROW_BYTES + r * ROW_BYTES, map, barrier, 64 * c, key - index * f->page_size,
                        a->key_head, page);
    }
}

/* The use-th tile of K, or of V, that this block loads: tile j of this one's keys. */
DEVICE void load_k(const producer *a, int use, int j) {
    const int place = place_of(use, STAGES);
    wait_empty(a->shared, K_EMPTY, use, STAGES);
    load_keys(a, &a->p->k, a->shared + K_AT + place * K_BYTES, barrier_of(a->shared, K_FULL + place), QK_PANELS, j);
}

DEVICE void load_v(const producer *a, int use, int j) {
    const int place = place_of(use, STAGES);
    wait_empty(a->shared, V_EMPTY, use, STAGES);
    load_keys(a, &a->p->v, a->shared + V_AT + place * V_BYTES, barrier_of(a->shared, V_FULL + place), V_PANELS, j);
}

/* The rows of warpgroup `group`. */
DEVICE void load_q(const producer *a, int group) {
    const att_fwd_params *f = &a->p->fwd;
    const int which = place_of(a->n, Q_STAGES) * GROUPS + group;
    const unsigned full = barrier_of(a->shared, Q_FULL + which);
    mbarrier_wait(barrier_of(a->shared, Q_EMPTY + which), parity_of(a->n, Q_STAGES) ^ 1);
    mbarrier_expect(full, Q_BYTES);
    const int position = record(a->shared, a->n, ROW_Q) + ((record(a->shared, a->n, ROW0) + 64 * group) >> a->p->pack);
#pragma unroll
    for (int c = 0; c < QK_PANELS; c++)
        tma_load_5d(a->shared + which * Q_PLACE + c * 64 * ROW_BYTES, &a->p->q, full, 64 * c, 0, position,
                    record(a->shared, a->n, HEAD), f->cu_seqlens_q ? 0 : record(a->shared, a->n, BATCH));
}

/* For every tile: Q, and the tiles of keys from the last to the first: K one ahead of V, as the scores are. */
DEVICE void produce(const att_fwd_sm90_params *p, unsigned shared) {
    producer a = {p, shared, 0, 0};
    int keys = 0;
    tma_prefetch_map(&p->q);
    tma_prefetch_map(&p->k);
    tma_prefetch_map(&p->v);
#pragma unroll 1
    for (;; a.n++) {
        wait_full(shared, TILE_FULL, a.n, RECORDS);
        if (record(shared, a.n, TILE) < 0)
            return;
        const int head = record(shared, a.n, HEAD);
        a.key_head = p->pack ? head : (int)divide(head, &p->fwd.by_group);
        int j = record(shared, a.n, LAST) - 1;
#pragma unroll 1
        for (int group = 0; group < GROUPS; group++) {
            load_q(&a, group);
            if (group == 0)
                load_k(&a, keys, j);
        }
#pragma unroll 1
        for (; j > record(shared, a.n, FIRST); j--) {
            load_k(&a, keys + 1, j - 1);
            load_v(&a, keys++, j);
        }
        load_v(&a, keys++, j);
        mbarrier_arrive(barrier_of(shared, TILE_EMPTY + place_of(a.n, RECORDS)));
    }
}

#endif
