/* fwd_decode_walk.cuh: a warp of a decode kernel walks its keys (sm_90).
 *
 * The keys are the rows of the products, so that 8 rows of Q fill them. Each warp has its own
 * ring of STAGES tiles in shared memory, K and V alternating, its own copies in flight and its
 * own running softmax. */
#ifndef ATT_FWD_DECODE_WALK_CUH
#define ATT_FWD_DECODE_WALK_CUH

#define TILE_BYTES (TILE_N * SWIZZLE_PITCH(D_QK)) /* of K or V */
#define RING_BYTES (STAGES * TILE_BYTES)

#include "kernels/fwd_decode_pages.cuh"
#include "kernels/fwd_decode_tile.cuh"
#include "kernels/fwd_softmax.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mma.cuh"
#include "kernels/programmatic_launch.cuh"

#define KEY_TILES (TILE_N / 16) /* of the keys of a step */
#define ROW_TILES (TILE_M / 8)
#define K_STEPS   ((D_QK + 15) / 16)
#define V_TILES   ((D_V + 15) / 16)
#define CHAINS    (4 / ROW_TILES) /* partial sums per product: short chains, not one long one */

static_assert(D_QK == D_V, "tiles of K and V take turns");

/* A warp's results for its keys, transposed: columns of O along lane / 4, rows of the tile
 * along 2 (lane % 4). */
typedef struct warp_rows {
    float o[V_TILES][ROW_TILES][4], top[ROW_TILES][2], sum[ROW_TILES][2];
} warp_rows;

/* Transpose an 8 x 8 matrix of 16-bit elements that the warp holds in the layout of mma
 * results. */
DEVICE unsigned transposed(unsigned x) {
    unsigned y;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

/* Products of one step, keys along lane / 4. */
DEVICE void score(float s[KEY_TILES][ROW_TILES][4], unsigned q[K_STEPS][ROW_TILES][2], unsigned k_row) {
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++) {
        float part[CHAINS][ROW_TILES][4];
#pragma unroll
        for (int c = 0; c < CHAINS; c++)
#pragma unroll
            for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    part[c][t][e] = 0.0f;
#pragma unroll
        for (int k = 0; k < K_STEPS; k++) {
            unsigned a[4];
            ldmatrix_x4(a, swizzle_step(k_row, k) + n * 16 * QK_PITCH);
#pragma unroll
            for (int t = 0; t < ROW_TILES; t++)
                mma_16x8x16(part[k % CHAINS][t], a, q[k][t][0], q[k][t][1]);
        }
#pragma unroll
        for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                s[n][t][e] = CHAINS == 4 ? (part[0][t][e] + part[1][t][e]) + (part[2][t][e] + part[CHAINS - 1][t][e])
                                         : part[0][t][e] + part[1][t][e];
    }
}

/* Apply features and mask in steps that need either. `at_once`: products are turned into
 * weights without becoming scores. */
DEVICE void adjust(const att_fwd_params *p, const block_work *w, float s[KEY_TILES][ROW_TILES][4], bool at_once, int j) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int r = min(8 * t + lane % 4 * 2 + e, w->rows - 1);
            const tile_row row = row_of(p, w, r);
            const int lo = visible_lo(p, &w->s, row.position), hi = visible_hi(p, &w->s, row.position);
            const float slope = slope_of(p, w->s.batch, row.head);
#pragma unroll
            for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int key = j * TILE_N + 16 * n + lane / 4 + 8 * half;
                    float *x = &s[n][t][2 * half + e];
                    if (key < lo || key >= hi)
                        *x = -INFINITE;
                    else if (!at_once)
                        *x = score_of(p, &w->s, row.head, row.position, key, slope, *x);
                }
        }
}

DEVICE void accumulate(float o[V_TILES][ROW_TILES][4], float s[KEY_TILES][ROW_TILES][4], unsigned v_row) {
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++) {
        unsigned b[ROW_TILES][2];
#pragma unroll
        for (int t = 0; t < ROW_TILES; t++) {
            b[t][0] = transposed(pack_16(DTYPE, s[n][t][0], s[n][t][1]));
            b[t][1] = transposed(pack_16(DTYPE, s[n][t][2], s[n][t][3]));
        }
#pragma unroll
        for (int m = 0; m < V_TILES; m++) {
            unsigned a[4];
            ldmatrix_x4_trans(a, swizzle_step(v_row, m) + n * 16 * V_PITCH);
#pragma unroll
            for (int t = 0; t < ROW_TILES; t++)
                mma_16x8x16(o[m][t], a, b[t][0], b[t][1]);
        }
    }
}

/* Over the eight lanes that hold one row. */
DEVICE float column_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 8));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 16));
}

DEVICE float column_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 4);
    x += __shfl_xor_sync(0xffffffffu, x, 8);
    return x + __shfl_xor_sync(0xffffffffu, x, 16);
}

/* Turn scores into weights relative to the running maximum, which is updated when it grows by
 * more than `slack`. */
DEVICE void softmax_step(float s[KEY_TILES][ROW_TILES][4], warp_rows *m, float factor, float slack) {
    float high[ROW_TILES][2];
    bool raise = false;
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float x = fmaxf(s[0][t][e], s[0][t][2 + e]);
#pragma unroll
            for (int n = 1; n < KEY_TILES; n++)
                x = fmaxf(x, fmaxf(s[n][t][e], s[n][t][2 + e]));
            high[t][e] = column_max(x) * factor;
            raise = raise || high[t][e] > m->top[t][e] + slack;
        }
    if (__any_sync(0xffffffffu, raise)) {
#pragma unroll
        for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const bool up = high[t][e] > m->top[t][e] + slack;
                const float shrink = up ? exp2_fast(m->top[t][e] - high[t][e]) : 1.0f;
                m->top[t][e] = up ? high[t][e] : m->top[t][e];
                m->sum[t][e] *= shrink;
#pragma unroll
                for (int n = 0; n < V_TILES; n++) {
                    m->o[n][t][e] *= shrink;
                    m->o[n][t][2 + e] *= shrink;
                }
            }
    }
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float base = m->top[t][e] == -INFINITE ? 0.0f : m->top[t][e];
#pragma unroll
            for (int n = 0; n < KEY_TILES; n++) {
                s[n][t][e] = exp2_fast(fmaf(s[n][t][e], factor, -base));
                s[n][t][2 + e] = exp2_fast(fmaf(s[n][t][2 + e], factor, -base));
                m->sum[t][e] += s[n][t][e] + s[n][t][2 + e];
            }
        }
}

/* The sources of a warp's tiles: K (0) and V (1). */
typedef struct feed {
    const char *q[TILE_M / 4]; /* this lane's first 16 bytes of rows lane / 8, + 4, ... */
    bool straight;         /* rows evenly spaced and as wide as the tile */
    const char *from[2];   /* this lane's first 16 bytes of the next tile; pages: in page 0 */
    int offset[2];         /* pages: offset of the next tile; negative: it does not exist */
    long long four[2];     /* bytes from a row to the fourth after it */
    long long onwards[2];  /* bytes from a tile to this warp's next */
} feed;

/* Pages hold whole tiles, and their rows are as wide as the tile's; the host checks this. */
#define IS_PAGED (FEATURES & FEATURE_PAGES)

DEVICE feed feed_of(const att_fwd_params *p, const block_work *w) {
    const int lane = threadIdx.x % 32, first = w->first + threadIdx.x / 32;
    feed f;
#pragma unroll
    for (int i = 0; i < TILE_M / 4; i++) {
        const tile_row row = row_of(p, w, min(lane / 8 + 4 * i, max(w->rows, 1) - 1));
        f.q[i] = (const char *)((const half_bits *)p->q + query_offset(p, &w->s, &p->q_stride, row.head, row.position) + lane % 8 * 8);
    }
    f.straight = !p->page_table && p->d_qk == D_QK && p->d_v == D_V;
#pragma unroll
    for (int what = 0; what < 2; what++) {
        const att_fwd_strides *stride = what ? &p->v_stride : &p->k_stride;
        const long long at = f.straight            ? key_offset(p, &w->s, stride, w->head_kv, first * TILE_N + lane / 8) + lane % 8 * 8
                             : IS_PAGED             ? w->head_kv * stride->head + lane / 8 * stride->row + lane % 8 * 8
                                                    : 0;
        f.from[what] = (const char *)((const half_bits *)(what ? p->v : p->k) + at);
        f.four[what] = 8 * stride->row;
        f.onwards[what] = 2 * TILE_N * WARPS * stride->row;
    }
    return f;
}

/* async_copy_16 for data that is read once: L2 evicts it first. */
DEVICE void stream_copy_16(unsigned shared, const void *global, int bytes) {
    unsigned long long once;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(shared), "l"(global), "r"(bytes),
                 "l"(once)
                 : "memory");
}

/* The shared address of this lane's 16 bytes of rows 4 i .. 4 i + 3 of a tile; those of the
 * row's next 128 bytes are 128 further on. */
DEVICE unsigned place_of(unsigned tile, int i) {
    const int lane = threadIdx.x % 32;
    return (tile + swizzled(lane / 8, lane % 8, QK_PITCH) ^ i % 2 << 6) + i * 4 * QK_PITCH;
}

/* Load the rows of Q. Rows past the last are undefined. */
DEVICE void load_q(const att_fwd_params *p, const feed *f, unsigned to) {
#pragma unroll
    for (int i = 0; i < TILE_M / 4; i++)
#pragma unroll
        for (int panel = 0; panel < D_QK / 64; panel++)
            async_copy_16(place_of(to, i) + panel * 128, f->q[i] + panel * 128,
                          64 * panel + (int)threadIdx.x % 8 * 8 < p->d_qk ? 16 : 0);
}

/* Load K (`what` 0) or V (1) of step j, this warp's next one. */
DEVICE void load_tile(const att_fwd_params *p, const block_work *w, feed *f, page_list *pages, unsigned to, int what, int j) {
    const int valid = w->s.len_k - j * TILE_N, lane = threadIdx.x % 32;
    if (IS_PAGED || f->straight) {
        const char *from = IS_PAGED ? f->from[what] + 16ll * f->offset[what] : f->from[what];
        const int there = IS_PAGED && f->offset[what] < 0 ? 0 : valid;
#pragma unroll
        for (int i = 0; i < TILE_N / 4; i++)
#pragma unroll
            for (int panel = 0; panel < D_QK / 64; panel++)
                stream_copy_16(place_of(to, i) + panel * 128, from + i * f->four[what] + panel * 128, lane / 8 + 4 * i < there ? 16 : 0);
        if (IS_PAGED) {
            if (what == 0)
                page_list_advance(pages, p, w);
            f->offset[what] = page_list_offset(pages, what);
        } else {
            f->from[what] += f->onwards[what];
        }
        return;
    }
    const half_bits *base = (const half_bits *)(what ? p->v : p->k);
    const att_fwd_strides *stride = what ? &p->v_stride : &p->k_stride;
#pragma unroll 1
    for (int r = lane / 8; r < TILE_N; r += 4)
        load_row(to, D_QK, r, base, r < valid ? key_offset(p, &w->s, stride, w->head_kv, j * TILE_N + r) : -1,
                 what ? p->d_v : p->d_qk, true, lane % 8, 8);
}

/* Walk this warp's share of the block's keys. Tiles of K and V alternate in the ring: K of step
 * n is tile 2n, V is the next. */
DEVICE void walk_keys(const att_fwd_params *p, const block_work *w, feed f, const char *shared, warp_rows *m) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned ring = shared_address(shared) + warp * RING_BYTES;
    const unsigned q_tile = ring + (STAGES - 1) * TILE_BYTES; /* free until the first step */
    const int first = w->first + warp;

    page_list pages = {};
    if (IS_PAGED)
        pages = page_list_of(p, w);
    load_q(p, &f, q_tile);
#pragma unroll
    for (int what = 0; what < 2 && IS_PAGED; what++)
        f.offset[what] = page_list_offset(&pages, what);
#pragma unroll 1
    for (int n = 0; n < STAGES - 1; n += 2) {
        const int j = first + n / 2 * WARPS;
        if (j < w->last)
            load_tile(p, w, &f, &pages, ring + n * TILE_BYTES, 0, j);
        async_commit();
        if (n + 1 == STAGES - 1)
            break;
        if (j < w->last)
            load_tile(p, w, &f, &pages, ring + (n + 1) * TILE_BYTES, 1, j);
        async_commit();
    }
    unsigned q[K_STEPS][ROW_TILES][2];
    const unsigned q_row = q_tile + (ROW_TILES == 1 ? swizzled(lane % 8, lane / 8, QK_PITCH)
                                                    : swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2, QK_PITCH));
    ASYNC_WAIT(STAGES - 2);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < K_STEPS; k += 2 / ROW_TILES) {
        unsigned b[4];
        ldmatrix_x4(b, swizzle_step(q_row, k));
#pragma unroll
        for (int i = 0; i < 4; i++)
            (&q[k][0][0])[i] = b[i];
    }
    __syncwarp();

    const bool at_once = weighs_at_once(p);
    const float factor = at_once ? p->scale_log2 : 1.0f;
    const float slack = p->dtype_o == F32 ? 0.0f : RAISE_ABOVE;
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++) {
        m->top[t][0] = m->top[t][1] = -INFINITE;
        m->sum[t][0] = m->sum[t][1] = 0.0f;
#pragma unroll
        for (int n = 0; n < V_TILES; n++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                m->o[n][t][e] = 0.0f;
    }
    const unsigned k_row = swizzled(lane % 16, lane / 16, QK_PITCH);
    const unsigned v_row = swizzled(lane % 8 + lane / 16 * 8, lane / 8 % 2, V_PITCH);

    unsigned tile = ring, free = q_tile;
    for (int j = first; j < w->last; j += WARPS) {
        float s[KEY_TILES][ROW_TILES][4];
        if (j + WARPS >= w->last && !p->partial_o)
            allow_next_kernel(); /* the last copies are in flight */
#pragma unroll
        for (int what = 0; what < 2; what++) {
            ASYNC_WAIT(STAGES - 2);
            __syncwarp();
            const int ahead = j + (STAGES - 1 + what) / 2 * WARPS;
            if (ahead < w->last)
                load_tile(p, w, &f, &pages, free, (STAGES - 1 + what) % 2, ahead);
            async_commit();
            if (what == 0) {
                score(s, q, tile + k_row);
                if (!at_once || j * TILE_N < w->clear_from || (j + 1) * TILE_N > w->clear_to)
                    adjust(p, w, s, at_once, j);
                softmax_step(s, m, factor, slack);
            } else {
                accumulate(m->o, s, tile + v_row);
            }
            free = tile;
            tile = tile == q_tile ? ring : tile + TILE_BYTES;
        }
    }
    ASYNC_WAIT(0);
    __syncwarp();
}

/* Write this warp's rows to shared memory for the others. */
DEVICE void publish(float *results, int rows, const warp_rows *m) {
    const int lane = threadIdx.x % 32;
    float *own = results + threadIdx.x / 32 * RESULT_STEP;
#pragma unroll
    for (int t = 0; t < ROW_TILES; t++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float *row = own + (8 * t + lane % 4 * 2 + e) * RESULT_PITCH;
#pragma unroll
            for (int n = 0; n < V_TILES; n++) {
                row[16 * n + lane / 4] = m->o[n][t][e];
                row[16 * n + lane / 4 + 8] = m->o[n][t][2 + e];
            }
            const float total = column_sum(m->sum[t][e]);
            if (lane < 4) {
                row[RESULT_COLS] = m->top[t][e];
                row[RESULT_COLS + 1] = total;
            }
        }
}

#endif
