/* fwd_mask.cu: turns a boolean mask into lists of tiles of keys, and bits
 * COMPUTES for every tile of rows of fwd_sm90: the tiles of keys that some row sees; what the
 *          16 rows of each warp see of them (nothing, everything, a part); and for parts the
 *          bits, in the order of scores in wgmma results. Causal mask, window and lengths are
 *          included
 * THREADS  one warp per 16 rows of the tile; a cluster of ATT_MASK_CLUSTER blocks per list,
 *          which divide its keys
 * SMEM     one word per warp and tile of keys of a span
 * FLOW     the block starts while the previous kernel is finishing, and waits for it; fwd_sm90
 *          may launch while this one runs
 * LIMITS   tile_m <= 256, tile_n <= 128; any strides; one byte at a time if keys are not
 *          contiguous
 * WHY      the mask is read once for all heads that share it, at memory bandwidth. The key loop
 *          of the attention kernel then reads one bit per score, and only for partly visible
 *          tiles */
#include "kernels/cluster.cuh"
#include "kernels/fwd_mask_params.h"
#include "kernels/fwd_sequence.cuh"
#include "kernels/programmatic_launch.cuh"

#define CHUNK      16 /* columns that a lane reads at once */
#define HALF_TILE  64 /* columns that the four lanes of a row read together */
#define FULL_WARP  0xffffffffu
#define LIST_PARTS 4 /* groups of 32 list entries compacted at once */

/* A row of the mask, and the keys [lo, hi) that it may see by all other rules. */
typedef struct mask_row {
    const unsigned char *keys;
    int lo, hi;
    bool exists;
} mask_row;

typedef struct list_work {
    const att_fwd_mask_params *p;
    long long list;
    int warp, lane;
    mask_row rows[2];
    int some_lo, some_hi; /* no row of the warp sees a key outside these */
    int all_lo, all_hi;   /* only the mask hides keys inside these; empty if a row is missing */
} list_work;

DEVICE mask_row mask_row_of(const att_fwd_mask_params *p, const sequence *s, int unit_head, int row) {
    const att_fwd_params *f = &p->fwd;
    const int i = row >> p->pack, head = (unit_head << p->pack) + (row & ((1 << p->pack) - 1));
    const bool stands_for_all = p->mask.row_blocks < f->row_blocks;
    mask_row r = {(const unsigned char *)f->bias, 0, 0, stands_for_all || (row >= 0 && i < s->len_q)};
    if (r.exists) {
        r.keys += s->batch * f->bias_stride.batch + head * f->bias_stride.head + i * f->bias_stride.row;
        r.lo = visible_lo(f, s, i);
        r.hi = max(r.lo, visible_hi(f, s, i));
    }
    return r;
}

/* The union and the intersection of the ranges of the warp's rows. */
DEVICE void join_ranges(list_work *w) {
    const mask_row *a = &w->rows[0], *b = &w->rows[1];
    w->some_lo = __reduce_min_sync(FULL_WARP, min(a->exists ? a->lo : 0x7fffffff, b->exists ? b->lo : 0x7fffffff));
    w->some_hi = __reduce_max_sync(FULL_WARP, max(a->hi, b->hi));
    w->all_lo = __reduce_max_sync(FULL_WARP, max(a->lo, b->lo));
    w->all_hi = __reduce_min_sync(FULL_WARP, min(a->hi, b->hi));
}

/* Load columns from `key` on, one byte each; 0 past the mask's last. */
DEVICE uint4 load_single_bytes(const att_fwd_mask_params *p, const unsigned char *keys, int key) {
    const long long step = p->fwd.bias_stride.col;
    const int count = min(CHUNK, p->fwd.seq_k - key);
    unsigned words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int n = 0; n < CHUNK; n++)
        if (n < count)
            words[n / 4] |= (unsigned)keys[(key + n) * step] << (8 * (n % 4));
    return make_uint4(words[0], words[1], words[2], words[3]);
}

/* Load 16 columns of a row, some of which it may not see. */
DEVICE uint4 load_chunk(const att_fwd_mask_params *p, const mask_row *r, int key) {
    if (key >= r->hi || key + CHUNK <= r->lo)
        return make_uint4(0, 0, 0, 0);
    if (p->width == 16 && key + CHUNK <= p->fwd.seq_k)
        return __ldcs((const uint4 *)(r->keys + key));
    return load_single_bytes(p, r->keys, key);
}

/* Load 16 contiguous bytes at any alignment. Up to three bytes around them are read too. */
DEVICE uint4 load_neighbours(const unsigned char *at, int width) {
    if (width == 16)
        return __ldcs((const uint4 *)at);
    const unsigned *words = (const unsigned *)(at - (size_t)at % 4);
    const int shift = 8 * (int)((size_t)at % 4);
    unsigned x[5];
#pragma unroll
    for (int n = 0; n < 4; n++)
        x[n] = __ldcs(words + n);
    x[4] = shift ? __ldcs(words + 4) : 0;
    return make_uint4(__funnelshift_r(x[0], x[1], shift), __funnelshift_r(x[1], x[2], shift), __funnelshift_r(x[2], x[3], shift),
                      __funnelshift_r(x[3], x[4], shift));
}

/* The top bit of each byte that is not 0. */
DEVICE unsigned nonzero_bytes(unsigned word) {
    return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) & 0x80808080u;
}

/* The top bits of those bytes of a word whose columns are before `end`; `end` may be out of
 * range. */
DEVICE unsigned bytes_before(int end) {
    return end <= 0 ? 0u : end >= 4 ? 0x80808080u : 0x80808080u >> (8 * (4 - end));
}

/* One bit per column, for 16 columns: column 4 k + b is bit 8 b + k, so that the columns of
 * another lane fit in between. */
DEVICE unsigned bits_of_chunk(uint4 bytes) {
    return nonzero_bytes(bytes.x) >> 7 | nonzero_bytes(bytes.y) >> 6 | nonzero_bytes(bytes.z) >> 5 | nonzero_bytes(bytes.w) >> 4;
}

/* The bits of the columns before `end`; `end` may be out of range. */
DEVICE unsigned columns_before(int end) {
    unsigned bits = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
        bits |= bytes_before(end - 4 * k) >> (7 - k);
    return bits;
}

#define ALL_SEEN 0x0f0f0f0fu /* of 16 columns */

/* Of 32 columns, 16 as in bits_of_chunk() and 16 in between, those of lane `quad` of the four
 * that share a row: two of every 8. */
DEVICE unsigned own_columns(unsigned columns, int quad) {
    const unsigned own = columns >> (16 * (quad & 1) + (quad >> 1));
    return (own & 0x55u) | (own >> 7 & 0xaau);
}

/* Four lanes have 16 columns each of a row; each gets its own columns out of all 64. */
DEVICE unsigned share_columns(unsigned bits, int quad) {
    const unsigned beside = __shfl_xor_sync(FULL_WARP, bits, 1);
    const unsigned near = quad & 1 ? beside | bits << 4 : bits | beside << 4;
    const unsigned far = __shfl_xor_sync(FULL_WARP, near, 2);
    return quad & 2 ? own_columns(far, quad) | own_columns(near, quad) << 8 : own_columns(near, quad) | own_columns(far, quad) << 8;
}

/* What this lane reads of a tile of keys, as bits, for its two rows and both halves of the
 * tile. A lane whose columns are past the tile reads nothing. */
typedef struct lane_bits {
    unsigned of[2][2];
    bool any, all;
} lane_bits;

/* Read a tile in which all rows exist and only the mask hides keys. */
DEVICE lane_bits read_inside(const list_work *w, int first) {
    const int column = w->lane % 4 * CHUNK;
    const bool has_second = column + HALF_TILE < w->p->tile_n;
    uint4 bytes[2][2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const unsigned char *at = w->rows[half].keys + first + column;
        bytes[half][0] = bytes[half][1] = make_uint4(0, 0, 0, 0);
        if (column < w->p->tile_n)
            bytes[half][0] = load_neighbours(at, w->p->width);
        if (has_second)
            bytes[half][1] = load_neighbours(at + HALF_TILE, w->p->width);
    }
    lane_bits lane;
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int side = 0; side < 2; side++)
            lane.of[half][side] = bits_of_chunk(bytes[half][side]);
    lane.any = (lane.of[0][0] | lane.of[0][1] | lane.of[1][0] | lane.of[1][1]) != 0;
    lane.all = (column >= w->p->tile_n || (lane.of[0][0] & lane.of[1][0]) == ALL_SEEN) &&
               (!has_second || (lane.of[0][1] & lane.of[1][1]) == ALL_SEEN);
    return lane;
}

/* Read any other tile. */
DEVICE lane_bits read_border(const list_work *w, int first) {
    lane_bits lane = {{{0, 0}, {0, 0}}, false, true};
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int side = 0; side < 2; side++) {
            const mask_row *r = &w->rows[half];
            const int column = w->lane % 4 * CHUNK + side * HALF_TILE, key = first + column;
            if (column < w->p->tile_n) {
                const unsigned seen = columns_before(r->hi - key) & ~columns_before(r->lo - key);
                lane.of[half][side] = bits_of_chunk(load_chunk(w->p, r, key)) & seen;
                lane.any = lane.any || lane.of[half][side] != 0;
                lane.all = lane.all && (lane.of[half][side] == ALL_SEEN || !r->exists);
            }
        }
    return lane;
}

/* May the tile be read with read_inside()? If it is not aligned, the bytes around it must be
 * readable too. */
DEVICE bool is_inside(const list_work *w, int first, int end) {
    const int margin = w->p->width == 16 ? 0 : 4;
    return w->p->width > 1 && first >= w->all_lo && end <= w->all_hi && first >= margin && end + margin <= w->p->fwd.seq_k;
}

/* What the warp sees of the tile, ATT_MASK_PART ...; for a part, the bits are stored. */
DEVICE int classify(const list_work *w, int tile) {
    const att_fwd_mask_params *p = w->p;
    const int first = tile * p->tile_n, end = first + p->tile_n, quad = w->lane % 4;
    if (first >= w->some_hi || end <= w->some_lo)
        return ATT_MASK_NONE;
    const lane_bits lane = is_inside(w, first, end) ? read_inside(w, first) : read_border(w, first);
    if (!__any_sync(FULL_WARP, lane.any))
        return ATT_MASK_NONE;
    if (__all_sync(FULL_WARP, lane.all))
        return ATT_MASK_ALL;
    unsigned seen[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        seen[half] = share_columns(lane.of[half][0], quad);
        if (p->tile_n > HALF_TILE)
            seen[half] |= share_columns(lane.of[half][1], quad) << 16;
    }
    const long long at = (w->list * p->mask.key_tiles + tile) * (p->tile_m / ATT_MASK_WARP_ROWS) + w->warp;
    *(uint2 *)(p->mask.bits + at * 32 + w->lane) = make_uint2(seen[0], seen[1]);
    return ATT_MASK_PART;
}

/* Classify tiles `begin` to `end`, at most a span. The warps' results go to `kinds`, a row of
 * ATT_MASK_WARPS_MOST per tile. */
DEVICE void classify_span(const list_work *w, unsigned *kinds, int begin, int end) {
#pragma unroll 1
    for (int tile = begin; tile < end; tile++) {
        const int kind = classify(w, tile);
        if (w->lane == 0)
            kinds[(tile - begin) * ATT_MASK_WARPS_MOST + w->warp] = (unsigned)kind;
    }
}

/* Write one entry per tile of the span. A tile that no row sees gets number -1. */
DEVICE void note_span(const list_work *w, const unsigned *kinds, int begin, int end) {
    const int tile = begin + w->lane, warps = w->p->tile_m / ATT_MASK_WARP_ROWS;
    if (tile >= end)
        return;
    att_fwd_mask_tile note = {-1, 0};
#pragma unroll 1
    for (int warp = 0; warp < warps; warp++) {
        const unsigned kind = kinds[w->lane * ATT_MASK_WARPS_MOST + warp];
        note.kinds |= kind << (2 * warp);
        if (kind != ATT_MASK_NONE)
            note.tile = tile;
    }
    *(int2 *)(w->p->mask.tiles + w->list * w->p->mask.key_tiles + tile) = make_int2(note.tile, (int)note.kinds);
}

/* Move the visible tiles to the front, in order. One warp does this: it reads before it writes,
 * and never writes ahead of its reads. */
DEVICE void compact_list(const list_work *w) {
    const int key_tiles = w->p->mask.key_tiles;
    int2 *list = (int2 *)(w->p->mask.tiles + w->list * key_tiles);
    int count = 0;
#pragma unroll 1
    for (int first = 0; first < key_tiles; first += 32 * LIST_PARTS) {
        int2 note[LIST_PARTS];
#pragma unroll
        for (int n = 0; n < LIST_PARTS; n++) {
            const int at = first + 32 * n + w->lane;
            note[n] = at < key_tiles ? __ldcg(list + at) : make_int2(-1, 0);
        }
        __syncwarp();
#pragma unroll
        for (int n = 0; n < LIST_PARTS; n++) {
            const unsigned votes = __ballot_sync(FULL_WARP, note[n].x >= 0);
            if (note[n].x >= 0)
                list[count + __popc(votes & ((1u << w->lane) - 1))] = note[n];
            count += __popc(votes);
        }
    }
    if (w->lane == 0)
        w->p->mask.counts[w->list] = count;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS) KERNEL(const __grid_constant__ att_fwd_mask_params params) {
    extern __shared__ unsigned kinds[];
    CHECK_SHARED(4 * ATT_MASK_SPAN * ATT_MASK_WARPS_MOST);
    const att_fwd_mask_params *p = &params;
    const int list = (int)blockIdx.x, mask = list / p->mask.row_blocks, block = list - mask * p->mask.row_blocks;
    const int batch = mask / p->mask.heads, unit_head = mask - batch * p->mask.heads;
    list_work w = {p, list, (int)threadIdx.x / 32, (int)threadIdx.x % 32, {}, 0, 0, 0, 0};
    allow_next_kernel();
    wait_for_previous_kernel();
    const sequence s = sequence_of(&p->fwd, batch);
    const int row = block * p->tile_m - p->top_rows + ATT_MASK_WARP_ROWS * w.warp + w.lane / 4;
    w.rows[0] = mask_row_of(p, &s, unit_head, row);
    w.rows[1] = mask_row_of(p, &s, unit_head, row + 8);
    join_ranges(&w);
    const int begin = (int)((long long)p->mask.key_tiles * blockIdx.y / ATT_MASK_CLUSTER);
    const int end = (int)((long long)p->mask.key_tiles * (blockIdx.y + 1) / ATT_MASK_CLUSTER);
#pragma unroll 1
    for (int from = begin; from < end; from += ATT_MASK_SPAN) {
        const int to = min(end, from + ATT_MASK_SPAN);
        classify_span(&w, kinds, from, to);
        __syncthreads();
        if (w.warp == 0)
            note_span(&w, kinds, from, to);
        __syncthreads();
    }
    cluster_publish();
    cluster_wait();
    if (blockIdx.y == 0 && w.warp == 0)
        compact_list(&w);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        *p->next_tile = 0;
}
