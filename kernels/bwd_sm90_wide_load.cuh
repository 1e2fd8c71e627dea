/* bwd_sm90_wide_load.cuh: the producer warp: it takes items of work, announces them to the
 * block, and keeps the copy engine busy. */
#ifndef ATT_BWD_SM90_WIDE_LOAD_CUH
#define ATT_BWD_SM90_WIDE_LOAD_CUH

#include "kernels/bulk_copy.cuh"
#include "kernels/bwd_sm90_wide_rows.cuh"
#include "kernels/bwd_sm90_wide_shared.cuh"
#include "kernels/bwd_sm90_work.cuh"
#include "kernels/programmatic_launch.cuh"

typedef struct producer {
    const att_bwd_sm90_params *p;
    unsigned shared;
    bool speaks;                  /* this lane does what must be done once per warp */
    ring records, keys, q, d_o; /* the slots to fill next */
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

/* Load the panels of a tile to `to`, signalling `barrier`. A loop, since there are few
 * registers. */
DEVICE void load_panels(const att_tensor_map *map, int panels, int bytes, unsigned to,
                        unsigned barrier, int row, int head, int entry) {
#pragma unroll 1
    for (int c = 0; c < panels; c++)
        tma_load_4d(to + c * bytes, map, barrier, 64 * c, row, head, entry);
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
        load_panels(&p->k, QK_PANELS, KEY_PANEL_BYTES, a->shared + K_AT, full, row, w->kv_head,
                    entry);
        load_panels(&p->v, V_PANELS, KEY_PANEL_BYTES, a->shared + V_AT, full, row, w->kv_head,
                    entry);
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

/* Load a row block of Q with the terms of its rows into the next slot of the ring. */
DEVICE void load_q(producer *a, const float *terms, int row, int head, int entry) {
    wait_empty(a->shared, BAR_Q_EMPTY, a->q);
    __syncwarp();
    if (a->speaks) {
        const unsigned full = barrier_of(a->shared, BAR_Q_FULL + a->q.place);
        mbarrier_expect(full, Q_BYTES + ROWS_BYTES);
        load_panels(&a->p->q, QK_PANELS, PANEL_BYTES, a->shared + Q_AT + a->q.place * Q_BYTES, full, row,
                    head, entry);
        bulk_load(a->shared + ROWS_AT + a->q.place * ROWS_BYTES, terms, ROWS_BYTES, full);
    }
    __syncwarp();
    a->q = ring_next(a->q, STAGES);
}

DEVICE void load_d_o(producer *a, int row, int head, int entry) {
    wait_empty(a->shared, BAR_DO_EMPTY, a->d_o);
    __syncwarp();
    if (a->speaks) {
        const unsigned full = barrier_of(a->shared, BAR_DO_FULL + a->d_o.place);
        mbarrier_expect(full, DO_BYTES);
        load_panels(&a->p->d_o, V_PANELS, PANEL_BYTES, a->shared + DO_AT + a->d_o.place * DO_BYTES, full,
                    row, head, entry);
    }
    __syncwarp();
    a->d_o = ring_next(a->d_o, DO_STAGES);
}

/* Load the tiles of an item. The loop keeps only a few 32-bit numbers, since there are few
 * registers. */
DEVICE void load_item(producer *a, const work_item *w) {
    const att_bwd_params *p = &a->p->bwd;
    const int entry = p->fwd.cu_seqlens_q ? 0 : w->s.batch, row0 = (int)w->s.row_q,
              number0 = (int)tile_number(p, &w->s, 0, 0);
    int head = w->kv_head * p->fwd.group, heads = p->fwd.group, block = w->end_block - 1;
    if (block < w->first_block) /* nobody reads them; this keeps the barrier phases in step */
        load_keys(a, w);
#pragma unroll 1
    while (block >= w->first_block) {
        const float *terms =
            p->terms + ((long long)head * p->tiles + number0 + block) * (TILE_M * ATT_BWD_TERMS);
        load_q(a, terms, row0 + block * TILE_M, head, entry);
        if (heads == p->fwd.group && block == w->end_block - 1)
            load_keys(a, w);
        load_d_o(a, row0 + block * TILE_M, head, entry);
        if (--heads > 0) {
            head++;
        } else {
            heads = p->fwd.group;
            head -= heads - 1;
            block--;
        }
    }
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
    producer a = {p, shared, does_speak(), {0, 0}, {0, 0}, {0, 0}, {0, 0}};
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
