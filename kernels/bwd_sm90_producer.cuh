/* bwd_sm90_producer.cuh: the state of the producer warp, and how it takes items of work,
 * announces them to the block, and loads their keys. */
#ifndef ATT_BWD_SM90_PRODUCER_CUH
#define ATT_BWD_SM90_PRODUCER_CUH

#include "kernels/bwd_sm90_barriers.cuh"
#include "kernels/bwd_sm90_work.cuh"
#include "kernels/tma.cuh"

typedef struct producer {
    const att_bwd_sm90_params *p;
    unsigned shared;
    bool speaks;        /* this lane does what must be done once per warp */
    ring records, keys; /* the slots to fill next */
    row_slots rows;
} producer;

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

/* Load the panels of a tile, `bytes` each, to `to`, signalling `barrier`. */
DEVICE void load_panels(const att_tensor_map *map, int panels, int bytes, unsigned to,
                        unsigned barrier, int row, int head, int entry) {
#pragma unroll PANELS_AT_ONCE
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

#endif
