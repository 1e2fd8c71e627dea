/* fwd_decode_pages.cuh: where a warp's tiles of keys lie in pages that hold whole tiles.
 *
 * A warp takes every WARPS-th tile of its block. The lanes read the page table for 32 of its tiles at once, and for the 32 after those long before
 * they are needed. Where a tile begins is found while the one before it is computed: copies start as early as those of contiguous keys. */
#ifndef ATT_FWD_DECODE_PAGES_CUH
#define ATT_FWD_DECODE_PAGES_CUH

#include "kernels/fwd_decode_tile.cuh"

enum {
    PAGE_BATCH = 32, /* tiles whose pages are read at once, one a lane */
    NO_PAGE = -1,
    OFFSET_UNIT = 8 /* elements that offsets in pages count: 16 bytes, at which every row begins */
};

/* Where a tile begins, as the page table has it. */
typedef struct tile_place {
    int page, row;
} tile_place;

typedef struct page_list {
    int turn;        /* which of the 32 tiles comes next, of K */
    int offset[2];   /* of this lane's tile among the 32, in K and in V, in units; below 0: its page does not exist */
    tile_place next; /* this lane's among the 32 that come after */
    int next_from;   /* the first of those */
} page_list;

/* An entry of the page table; `early`: as L2 has it before the kernel ahead has ended, kept in no cache that is read after that. */
DEVICE int table_entry(const int *entry, bool early) {
    int page;
    if (early)
        asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(page) : "l"(entry) : "memory");
    else
        page = *entry;
    return page;
}

/* This lane's of 32 tiles of the warp, the first of them `tile`; those past the block's last are not looked up. */
DEVICE tile_place look_up(const att_fwd_params *p, const block_work *w, int tile, bool early) {
    const int own = tile + (int)threadIdx.x % 32 * WARPS, key = own * TILE_N;
    if (own >= w->last)
        return {NO_PAGE, 0};
    const int index = (unsigned)key / (unsigned)p->page_size;
    const int page = table_entry(p->page_table + w->s.batch * p->page_table_stride + index, early);
    return {page, key - index * p->page_size};
}

/* From the top of page 0 to there, in units; below 0 where the page is none of the cache's. */
DEVICE int offset_of(const att_fwd_params *p, tile_place at, const att_fwd_strides *stride) {
    const unsigned long long elements = at.page * stride->batch + at.row * stride->row;
    return (unsigned)at.page < (unsigned)p->num_pages ? (int)(elements / OFFSET_UNIT) : NO_PAGE;
}

/* The 32 tiles of `at` are those that come next. */
DEVICE void list_tiles(page_list *list, const att_fwd_params *p, tile_place at) {
    list->turn = 0;
    list->offset[0] = offset_of(p, at, &p->k_stride);
    list->offset[1] = offset_of(p, at, &p->v_stride);
}

/* The warp's first tiles. */
DEVICE page_list page_list_of(const att_fwd_params *p, const block_work *w) {
    const int first = w->first + (int)threadIdx.x / 32;
    page_list list;
    const tile_place now = look_up(p, w, first, false);
    list.next_from = first + PAGE_BATCH * WARPS;
    list.next = look_up(p, w, list.next_from, false);
    list_tiles(&list, p, now);
    return list;
}

/* K of the tile is under way: the next one's turn. */
DEVICE void page_list_advance(page_list *list, const att_fwd_params *p, const block_work *w) {
    list->turn++;
    if (list->turn < PAGE_BATCH)
        return;
    list_tiles(list, p, list->next);
    list->next_from += PAGE_BATCH * WARPS;
    list->next = look_up(p, w, list->next_from, false);
}

/* The offset in K (`what` 0) or V (1) of the tile whose turn it is. */
DEVICE int page_list_offset(const page_list *list, int what) {
    return __shfl_sync(0xffffffffu, list->offset[what], list->turn);
}

#endif
