/* fwd_decode_prefetch.cuh: a decode kernel prefetches Q and its first keys into L2 while the
 * previous kernel ends (sm_90). */
#ifndef ATT_FWD_DECODE_PREFETCH_CUH
#define ATT_FWD_DECODE_PREFETCH_CUH

#include "kernels/fwd_decode_walk.cuh"

/* Keys per block that are prefetched into L2 before they may be read: as many as memory
 * delivers while the previous kernel ends. Fewer if a block may run after others of its own
 * kernel, as with one part. */
#define PREFETCH_MOST  320
#define PREFETCH_LEAST 64

DEVICE void prefetch(const void *sector) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(sector) : "memory");
}

/* Prefetch Q into L2. The previous kernel may still be writing it, but L2 is coherent. */
DEVICE void prefetch_q(const feed *f) {
    if (threadIdx.x < 32 && threadIdx.x % 2 == 0)
#pragma unroll
        for (int i = 0; i < TILE_M / 4; i++)
#pragma unroll
            for (int panel = 0; panel < D_QK / 64; panel++)
                prefetch(f->q[i] + panel * 128);
}

/* Prefetch the first keys of this block. */
DEVICE void prefetch_rows(const att_fwd_params *p, const block_work *w, int most) {
    enum { SECTOR = 16 /* elements per 32-byte sector */, SECTORS = D_QK / SECTOR };
    const int first = w->first * TILE_N;
    const int keys = min(min(w->last * TILE_N, w->s.len_k) - first, most);
#pragma unroll 1
    for (int i = threadIdx.x; i < keys * SECTORS; i += 32 * WARPS) {
        const int key = first + i / SECTORS, column = i % SECTORS * SECTOR;
        prefetch((const half_bits *)p->k + key_offset(p, &w->s, &p->k_stride, w->head_kv, key) + column);
        prefetch((const half_bits *)p->v + key_offset(p, &w->s, &p->v_stride, w->head_kv, key) + column);
    }
}

/* The same from pages, each warp its own, using the page table as the previous kernel has left
 * it so far. A page that it still changes is prefetched in vain and never used. */
DEVICE void prefetch_pages(const att_fwd_params *p, const block_work *w, const feed *f, int most) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int last = min(w->first + most / TILE_N, w->last);
    page_list pages;
    list_tiles(&pages, p, look_up(p, w, w->first + warp, true));
#pragma unroll 1
    for (int tile = w->first + warp; tile < last; tile += WARPS, pages.turn++)
#pragma unroll
        for (int what = 0; what < 2; what++) {
            const int offset = page_list_offset(&pages, what), valid = offset >= 0 ? w->s.len_k - tile * TILE_N : 0;
#pragma unroll
            for (int i = 0; i < TILE_N / 4; i++)
#pragma unroll
                for (int panel = 0; panel < D_QK / 64; panel++)
                    if (lane % 2 == 0 && lane / 8 + 4 * i < valid)
                        prefetch(f->from[what] + 16ll * offset + i * f->four[what] + panel * 128);
        }
}

/* Prefetch Q and at most `most` of the first keys of this block; keys that are copied row by row
 * are not worth it. */
DEVICE void prefetch_first(const att_fwd_params *p, const block_work *w, const feed *f, int most) {
    if (IS_PAGED || f->straight)
        prefetch_q(f);
    if (IS_PAGED)
        prefetch_pages(p, w, f, most);
    else if (f->straight)
        prefetch_rows(p, w, most);
}

#endif
