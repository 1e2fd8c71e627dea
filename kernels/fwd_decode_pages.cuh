/* fwd_decode_pages.cuh: where a warp's tiles of keys lie in pages that hold whole tiles.
 *
 * A warp takes every WARPS-th tile of its block. The lanes read the page table for 32 of its tiles at once, and for the 32 after those long before
 * they are needed: the address of a tile is then a shuffle away, and its copies start as early as those of contiguous keys. */
#ifndef ATT_FWD_DECODE_PAGES_CUH
#define ATT_FWD_DECODE_PAGES_CUH

#include "kernels/fwd_decode_tile.cuh"

enum { PAGE_BATCH = 32 /* tiles whose pages are read at once, one a lane */, NO_PAGE = -1 };

/* Where a tile begins: a page, NO_PAGE where it is none of the cache's, and a row of it. */
typedef struct tile_place {
    int page, row;
} tile_place;

/* Of this lane's tile among the 32 that the warp walks, and among the 32 that come next. */
typedef struct page_list {
    tile_place now, next;
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

/* The warp's first tiles. */
DEVICE page_list page_list_of(const att_fwd_params *p, const block_work *w) {
    const int first = w->first + (int)threadIdx.x / 32;
    return {look_up(p, w, first, false), look_up(p, w, first + PAGE_BATCH * WARPS, false)};
}

/* Before the first copy from tile `tile` of the block: the list moves on once its 32 tiles are used up. Tiles are asked for in their order. */
DEVICE void page_list_reach(page_list *list, const att_fwd_params *p, const block_work *w, int tile) {
    const int walked = (tile - w->first) / WARPS;
    if (walked % PAGE_BATCH != 0 || walked == 0)
        return;
    list->now = list->next;
    list->next = look_up(p, w, tile + PAGE_BATCH * WARPS, false);
}

/* Where tile `tile`, one of the list's 32, begins. */
DEVICE tile_place place_in_pages(const att_fwd_params *p, const block_work *w, tile_place own, int tile) {
    const int lane = (tile - w->first) / WARPS % PAGE_BATCH;
    const int page = __shfl_sync(0xffffffffu, own.page, lane), row = __shfl_sync(0xffffffffu, own.row, lane);
    return {(unsigned)page < (unsigned)p->num_pages ? page : NO_PAGE, row};
}

/* Bytes from the top of page 0 to there. */
DEVICE long long bytes_to(tile_place at, const att_fwd_strides *stride) {
    return 2 * (at.page * stride->batch + at.row * stride->row);
}

#endif
