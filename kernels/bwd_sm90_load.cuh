/* bwd_sm90_load.cuh: the producer warp: it takes items of work, announces them to the block,
 * and keeps the copy engine busy. */
#ifndef ATT_BWD_SM90_LOAD_CUH
#define ATT_BWD_SM90_LOAD_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_rows.cuh"
#include "kernels/bwd_sm90_shared.cuh"
#include "kernels/bwd_sm90_work.cuh"
#include "kernels/programmatic_launch.cuh"

typedef struct producer {
    const att_bwd_sm90_params *p;
    unsigned shared;
    bool speaks;              /* this lane does what must be done once per warp */
    ring records, keys, rows; /* the slots to fill next */
} producer;

DEVICE void write_words(unsigned to, int a, int b, int c, int d) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}

/* Announce the item to the block. NO_ITEM as number means that there are no more. */
DEVICE void announce_item(producer *a, int number, const work_item *w) {
    wait_empty(a->shared, BAR_ITEM_EMPTY, a->records);
    __syncwarp();
    if (a->speaks) {
        const unsigned to = record_place(a->shared, a->records.place, 0);
        if (number == NO_ITEM) {
            write_words(to, NO_ITEM, 0, 0, 0);
        } else {
            const int held = stored_keys(&a->p->bwd.fwd, w->s.batch) - w->s.first_k;
            write_words(to, number, w->s.batch, w->kv_head, w->tile);
            write_words(to + 16, w->s.len_q, w->s.len_k, w->s.shift, w->first_block);
            write_words(to + 32, w->end_block, (int)w->s.row_q, (int)w->s.row_k,
                        (int)tile_number(&a->p->bwd, &w->s, 0, 0));
            write_words(to + 48, held, w->s.first_k, w->clear_first, w->clear_end);
        }
        mbarrier_arrive(barrier_of(a->shared, BAR_ITEM_FULL + a->records.place));
    }
    __syncwarp();
    a->records = ring_next(a->records, RECORDS);
}

/* The number of the next item; it may be past the last. */
DEVICE int claim_item(const producer *a) {
    int number = 0;
    if (a->speaks)
        number = (int)atomicAdd(a->p->bwd.next_work + NEXT_ITEM, 1u);
    return __reduce_max_sync(0xffffffffu, (unsigned)number);
}

/* Load K and V of the item, once dK and dV of the previous item have left their buffers. */
DEVICE void load_keys(producer *a, const work_item *w) {
    const att_bwd_sm90_params *p = a->p;
    const int row = (int)w->s.row_k + w->tile * TILE_N,
              entry = p->bwd.fwd.cu_seqlens_k ? 0 : w->s.batch;
    wait_empty(a->shared, BAR_KEYS_EMPTY, a->keys);
    __syncwarp();
    if (a->speaks) {
        const unsigned full = barrier_of(a->shared, BAR_KEYS_FULL);
        mbarrier_expect(full, K_BYTES + V_BYTES);
#pragma unroll
        for (int c = 0; c < QK_PANELS; c++)
            tma_load_4d(a->shared + K_AT + c * TILE_N * ROW_BYTES, &p->k, full, 64 * c, row,
                        w->kv_head, entry);
#pragma unroll
        for (int c = 0; c < V_PANELS; c++)
            tma_load_4d(a->shared + V_AT + c * TILE_N * ROW_BYTES, &p->v, full, 64 * c, row,
                        w->kv_head, entry);
    }
    __syncwarp();
    a->keys = ring_next(a->keys, 1);
}

/* Prefetch K and V of the item into L2 while their buffers are still in use. */
DEVICE void ask_l2_for_keys(const producer *a, const work_item *w) {
    const att_bwd_sm90_params *p = a->p;
    const int row = (int)w->s.row_k + w->tile * TILE_N,
              entry = p->bwd.fwd.cu_seqlens_k ? 0 : w->s.batch;
    if (USE_EARLY_L2 && a->speaks) {
#pragma unroll
        for (int c = 0; c < QK_PANELS; c++)
            tma_ask_l2_4d(&p->k, 64 * c, row, w->kv_head, entry);
#pragma unroll
        for (int c = 0; c < V_PANELS; c++)
            tma_ask_l2_4d(&p->v, 64 * c, row, w->kv_head, entry);
    }
    __syncwarp();
}

/* Load a row block of Q with the terms of its rows, or of dO (terms: NULL), into the next slot
 * of its ring. */
DEVICE void load_rows(const producer *a, const att_tensor_map *map, int panels, int at,
                      const float *terms, int full, int empty, int row, int head, int entry) {
    wait_empty(a->shared, empty, a->rows);
    __syncwarp();
    if (a->speaks) {
        const unsigned barrier = barrier_of(a->shared, full + a->rows.place),
                       bytes = panels * TILE_M * ROW_BYTES;
        mbarrier_expect(barrier, bytes + (terms ? ROWS_BYTES : 0));
#pragma unroll
        for (int c = 0; c < panels; c++)
            tma_load_4d(a->shared + at + a->rows.place * bytes + c * TILE_M * ROW_BYTES, map,
                        barrier, 64 * c, row, head, entry);
        if (terms)
            bulk_load(a->shared + ROWS_AT + a->rows.place * ROWS_BYTES, terms, ROWS_BYTES,
                      barrier);
    }
    __syncwarp();
}

DEVICE void load_item(producer *a, const work_item *w) {
    const att_bwd_sm90_params *p = a->p;
    const att_fwd_params *f = &p->bwd.fwd;
    const int entry = f->cu_seqlens_q ? 0 : w->s.batch;
    bool has_keys = false;
#pragma unroll 1
    for (int block = w->end_block - 1; block >= w->first_block; block--) {
        const int row = (int)w->s.row_q + block * TILE_M;
#pragma unroll 1
        for (int i = 0; i < f->group; i++) {
            const int head = w->kv_head * f->group + i;
            load_rows(a, &p->q, QK_PANELS, Q_AT, terms_of_tile(&p->bwd, &w->s, head, block),
                      BAR_Q_FULL, BAR_Q_EMPTY, row, head, entry);
            if (!has_keys)
                load_keys(a, w);
            has_keys = true;
            load_rows(a, &p->d_o, V_PANELS, DO_AT, 0, BAR_DO_FULL, BAR_DO_EMPTY, row, head,
                      entry);
            a->rows = ring_next(a->rows, STAGES);
        }
    }
    if (!has_keys) /* nobody reads them; this keeps the barrier phases in step */
        load_keys(a, w);
}

/* Run by one lane once no key tile is left to take: all are done, or in progress in running
 * blocks. While others work, this block turns complete sums into d_q. */
DEVICE void announce_rows(const att_bwd_sm90_params *params, unsigned shared) {
    const att_bwd_params *p = &params->bwd;
    ring at = {0, 0};
    int number;
    do {
        number = (int)atomicAdd(p->next_work + NEXT_ROWS, 1u);
        if (number < row_tile_count(p)) {
            const row_tile t = row_tile_of(p, number);
            if (t.rows <= 0)
                continue;
            wait_for_sums(p, &t);
        } else {
            number = NO_ITEM;
        }
        wait_empty(shared, BAR_ROWS_EMPTY, at);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared + ROWS_NUMBER_AT), "r"(number)
                     : "memory");
        mbarrier_arrive(barrier_of(shared, BAR_ROWS_FULL));
        at = ring_next(at, 1);
    } while (number != NO_ITEM);
}

DEVICE void produce(const att_bwd_sm90_params *p, unsigned shared) {
    producer a = {p, shared, does_speak(), {0, 0}, {0, 0}, {0, 0}};
    if (a.speaks) {
        tma_prefetch_map(&p->q);
        tma_prefetch_map(&p->d_o);
        tma_prefetch_map(&p->k);
        tma_prefetch_map(&p->v);
    }
    __syncwarp();
    wait_for_previous_kernel();
#pragma unroll 1
    for (int number = claim_item(&a); number < p->items; number = claim_item(&a)) {
        const work_item w = item_of(p, number);
        announce_item(&a, number, &w);
        ask_l2_for_keys(&a, &w);
        load_item(&a, &w);
    }
    announce_item(&a, NO_ITEM, 0);
    if (USE_FINISH_INSIDE && p->finishes_inside && a.speaks)
        announce_rows(p, shared);
}

#endif
