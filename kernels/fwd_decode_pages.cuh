/* fwd_decode_pages.cuh: the locations of a warp's tiles of keys when pages hold whole tiles.
 *
 * A warp takes every WARPS-th tile of its block. Its lanes read the page table for 32 of its
 * tiles at once, and for the next 32 long before they are needed. The address of a tile is
 * computed during the tile before it, so copies start as early as with contiguous keys. */
#ifndef ATT_FWD_DECODE_PAGES_CUH
#define ATT_FWD_DECODE_PAGES_CUH

#include "kernels/fwd_decode_tile.cuh"

enum {
    PAGE_BATCH = 32, /* tiles whose pages are read at once, one per lane */
    NO_PAGE = -1,
    OFFSET_UNIT = 8 /* elements per unit of page offsets: 16 bytes, the alignment of rows */
};

/* The page and the row in it at which a tile begins. */
typedef struct tile_place {
    int page, row;
} tile_place;

typedef struct page_list {
    int turn;        /* which of the 32 tiles is next, for K */
    int offset[2];   /* of this lane's tile, in K and in V, in units; negative: no such page */
    tile_place next; /* this lane's tile among the next 32 */
    int next_from;   /* the first of those 32 */
} page_list;

/* An entry of the page table. `early` reads it from L2 before the previous kernel has ended,
 * and leaves it in no cache that is read afterwards. */
DEVICE int table_entry(const int *entry, bool early) {
    int page;
    if (early)
        asm volatile("ld.global.cg.b32 %0, [%1];" : "=r"(page) : "l"(entry) : "memory");
    else
        page = *entry;
    return page;
}

/* This lane's tile among 32 tiles of the warp starting at `tile`. Tiles past the block's last
 * are not looked up. */
DEVICE tile_place look_up(const att_fwd_params *p, const block_work *w, int tile, bool early) {
    const int own = tile + (int)threadIdx.x % 32 * WARPS, key = own * TILE_N;
    if (own >= w->last)
        return {NO_PAGE, 0};
    const int index = (unsigned)key / (unsigned)p->page_size;
    const int page = table_entry(p->page_table + w->s.batch * p->page_table_stride + index, early);
    return {page, key - index * p->page_size};
}

/* The offset from the start of page 0, in units; negative if the page is not in the cache. */
DEVICE int offset_of(const att_fwd_params *p, tile_place at, const att_fwd_strides *stride) {
    const unsigned long long elements = at.page * stride->batch + at.row * stride->row;
    return (unsigned)at.page < (unsigned)p->num_pages ? (int)(elements / OFFSET_UNIT) : NO_PAGE;
}

/* Make the 32 tiles of `at` the next ones. */
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

/* K of the tile is in flight: advance to the next tile. */
DEVICE void page_list_advance(page_list *list, const att_fwd_params *p, const block_work *w) {
    list->turn++;
    if (list->turn < PAGE_BATCH)
        return;
    list_tiles(list, p, list->next);
    list->next_from += PAGE_BATCH * WARPS;
    list->next = look_up(p, w, list->next_from, false);
}

/* The offset in K (`what` 0) or V (1) of the current tile. */
DEVICE int page_list_offset(const page_list *list, int what) {
    return __shfl_sync(0xffffffffu, list->offset[what], list->turn);
}

#endif
