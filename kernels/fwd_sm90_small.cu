/* fwd_sm90_small.cu: forward attention on Hopper for problems that would leave most of the GPU
 * idle
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per TILE_M rows, whose
 *          warpgroups divide the keys
 * TILE     TILE_M rows, 64 per warpgroup; TILE_N keys; STAGES tiles of K and of V per share. A
 *          share has every SHARES-th tile of keys
 * THREADS  32 * WARPS: for every 64 rows one warpgroup per share; one warp of each share's
 *          first 64 rows loads for all
 * SMEM     Q | per share: K x STAGES, V x STAGES | per warpgroup: O sent by the others | tops
 *          and sums, barriers
 * FLOW     copy    Q K0 V0 K1 V1 ...  all at once, up to STAGES: the problem is latency-bound
 *          tensor  S0 .. P0V0 | S1 .. P1V1 ...
 *          alu        softmax0 |    softmax1      | send O | one barrier | sum, store
 *                  each share sends its O to the warpgroups that own the columns
 *          with 128 rows
 *          tensor  S0 .. S1 P0V0 .. S2 P1V1 ..
 *          alu        softmax0 softmax1 ..
 * NUMERICS as fwd_sm90.cu; with 64 rows, weights are relative to the maxima
 * LIMITS   d_qk <= D_QK, d_v <= D_V, rows at multiples of 16 bytes, O of type DTYPE, no
 *          softcap, ALiBi, bias or pages; scale > 0
 * WHY      one block per SM with all its loads in flight beats persistent blocks:
 *          docs/hopper.md */
#include "kernels/fwd_sm90_softmax.cuh"
#include "kernels/fwd_sm90_tiles.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/mbarrier.cuh"
#include "kernels/packed.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/tma.cuh"
#include "kernels/vector.cuh"
#include "kernels/warpgroup.cuh"
#include "kernels/wgmma.cuh"

/* A function call makes the compiler wait for each product separately. */
#undef __noinline__
#define __noinline__ __forceinline__
#include "kernels/second_look.cuh"

#define THREADS    (32 * WARPS)
#define ROW_GROUPS (TILE_M / 64)
#define SHARES     (WARPS / 4 / ROW_GROUPS)
#define COLUMNS    (D_V / 8)          /* of O, in groups of eight */
#define OWNED      (COLUMNS / SHARES) /* of those, per warpgroup: it sums and stores them */

#define SHARE_BYTES (STAGES * (K_BYTES + V_BYTES))
#define EIGHT_BYTES (WARPGROUP * 16)        /* eight columns of 64 rows: 16 bytes per thread */
#define INBOX_BYTES (COLUMNS * EIGHT_BYTES) /* a warpgroup's columns from every share */
#define INBOX_AT    (ROW_GROUPS * Q_BYTES + SHARES * SHARE_BYTES)
#define SUMS_AT     (INBOX_AT + ROW_GROUPS * SHARES * INBOX_BYTES) /* top, sum; per warpgroup */
#define SUMS_BYTES  (TILE_M * SHARES * 8)
#define BARRIERS_AT (SUMS_AT + SUMS_BYTES)

/* Barriers: one for Q per row group; per share K full, V full and both empty, one per stage of
 * each. Then one bit per row. */
enum { SHARE_BARRIERS = 3 * STAGES, BAD_AT = BARRIERS_AT + (ROW_GROUPS + SHARES * SHARE_BARRIERS) * MBARRIER_BYTES };

CHECK_SHARED(BARRIERS_AT + 1024 + 1024); /* barriers; alignment to 1024 bytes */
static_assert(TILE_M == 64 || TILE_M == 128, "row groups of 64 rows");
static_assert(WARPS == 4 * ROW_GROUPS * SHARES, "a warpgroup for every share of the keys of 64 rows");
static_assert(BAD_AT + TILE_M / 8 - BARRIERS_AT <= 1024, "what is small has its place");
static_assert(COLUMNS % SHARES == 0 && SHARES <= COLUMNS, "every share owns columns");
static_assert(ROW_GROUPS == 1 || STAGES > 2, "a place is filled again two uses later");

/* A warpgroup: 64 rows and a share of the keys, every SHARES-th tile. */
typedef struct share {
    const att_fwd_sm90_params *p;
    unsigned shared, tiles, barriers; /* shared addresses: the block's, the share's own */
    int index, row_group;             /* of the share; of the rows */
    int thread;                       /* within the warpgroup */
    bool loads;                       /* this warp loads tiles of K and V */
    int key_head, key_batch;
    int clear_from, clear_to;         /* every row sees all keys of the tiles in between */
} share;

DEVICE unsigned k_place(const share *a, int use) {
    return a->tiles + use % STAGES * K_BYTES;
}

DEVICE unsigned v_place(const share *a, int use) {
    return a->tiles + STAGES * K_BYTES + use % STAGES * V_BYTES;
}

DEVICE unsigned q_place(const share *a) {
    return a->shared + a->row_group * Q_BYTES;
}

DEVICE unsigned q_full(const share *a) {
    return a->shared + BARRIERS_AT + a->row_group * MBARRIER_BYTES;
}

DEVICE unsigned k_full(const share *a, int use) {
    return a->barriers + MBARRIER_BYTES * (use % STAGES);
}

DEVICE unsigned v_full(const share *a, int use) {
    return a->barriers + MBARRIER_BYTES * (STAGES + use % STAGES);
}

/* The barrier that says that K and V of this use are no longer read. */
DEVICE unsigned both_empty(const share *a, int use) {
    return a->barriers + MBARRIER_BYTES * (2 * STAGES + use % STAGES);
}

/* The number of tiles of keys of this share. */
DEVICE int uses_of(const share *a, const tile_work *w) {
    return max(0, w->last - w->first - a->index + SHARES - 1) / SHARES;
}

DEVICE int tile_of_use(const share *a, const tile_work *w, int use) {
    return w->first + a->index + use * SHARES;
}

/* Load the row group's rows. Called by one thread, like all loads. */
DEVICE void load_q(const share *a, const tile_work *w) {
    const int position = (int)w->s.row_q + (w->row0 >> a->p->pack);
    mbarrier_expect(q_full(a), Q_BYTES);
#pragma unroll
    for (int c = 0; c < QK_PANELS; c++)
        tma_load_5d(q_place(a) + c * 64 * ROW_BYTES, &a->p->q, q_full(a), 64 * c, 0, position, w->head,
                    a->p->fwd.cu_seqlens_q ? 0 : w->s.batch);
}

/* Load a tile of K or V, from row `row` on. */
DEVICE void load_keys(const share *a, const att_tensor_map *map, unsigned to, unsigned barrier, int panels, int row) {
    mbarrier_expect(barrier, panels * TILE_N * ROW_BYTES);
#pragma unroll
    for (int c = 0; c < panels; c++)
        tma_load_4d(to + c * TILE_N * ROW_BYTES, map, barrier, 64 * c, row, a->key_head, a->key_batch);
}

DEVICE int row_of_use(const share *a, const tile_work *w, int use) {
    return (int)w->s.row_k + tile_of_use(a, w, use) * TILE_N;
}

DEVICE void load_use(const share *a, int use, int row) {
    load_keys(a, &a->p->k, k_place(a, use), k_full(a, use), QK_PANELS, row);
    load_keys(a, &a->p->v, v_place(a, use), v_full(a, use), V_PANELS, row);
}

/* Start S = Q K^T. */
DEVICE void score(const share *a, float s[S_COUNT], int use) {
    const unsigned long long left = wgmma_operand(wgmma_address(q_place(a)), 16);
    const unsigned long long right = wgmma_operand(wgmma_address(k_place(a, use)), 16);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < K_STEPS; k++)
        WGMMA(TILE_N)(s, left + WGMMA_STEP(k / 4 * 64 * ROW_BYTES + k % 4 * 32),
                      right + WGMMA_STEP(k / 4 * TILE_N * ROW_BYTES + k % 4 * 32), k > 0);
    wgmma_commit();
}

/* Start O += P V. */
DEVICE void accumulate(const share *a, float o[O_COUNT], unsigned p[P_COUNT], int use) {
    const unsigned long long right = wgmma_operand(wgmma_address(v_place(a, use)), TILE_N * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < V_STEPS; k++)
        WGMMA_MN(D_V)(o, p + 4 * k, right + WGMMA_STEP(k * 16 * ROW_BYTES), use > 0 || k > 0);
    wgmma_commit();
}

DEVICE void wait_k(const share *a, int use) {
    mbarrier_wait(k_full(a, use), use / STAGES & 1);
}

DEVICE void wait_v(const share *a, int use) {
    mbarrier_wait(v_full(a, use), use / STAGES & 1);
}

DEVICE bool is_clear(const share *a, int j) {
    return j >= a->clear_from && j < a->clear_to;
}

DEVICE void apply_mask(const share *a, const tile_work *w, float s[S_COUNT], int j) {
    if (!is_clear(a, j))
        hide_keys(a->p, &w->s, s, w->row0 + a->thread / 32 * 16 + a->thread % 32 / 4, j);
}

/* Turn the scores of a tile into weights; `shrink` gets the factors for O, one per row half. */
DEVICE void weigh_tile(const share *a, float s[S_COUNT], softmax_state *m, float shrink[2]) {
    const float factor = a->p->fwd.scale_log2;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float top = fmaxf(m->top[half], quad_max(lane_max(s, half)) * factor);
        shrink[half] = exp2_fast(m->top[half] - top);
        m->top[half] = top;
        m->sum[half] = m->sum[half] * shrink[half] + weigh_half(s, half, factor, top);
    }
}

/* Load another tile into the slot of `use`, once no warp of the share reads it any more. */
DEVICE void refill(const share *a, const tile_work *w, int use, int uses) {
    if (!a->loads || use < 0 || use + STAGES >= uses)
        return;
    const int row = row_of_use(a, w, use + STAGES);
    mbarrier_wait(both_empty(a, use), use / STAGES & 1);
    if (elect_lane())
        load_use(a, use + STAGES, row);
    __syncwarp();
}

/* This warp no longer reads K and V of the use. */
DEVICE void release(const share *a, int use, int uses) {
    __syncwarp();
    if (use + STAGES < uses && a->thread % 32 == 0)
        mbarrier_arrive(both_empty(a, use));
}

/* Process the share's keys tile by tile. A single row group is bound by memory, so overlapping
 * more gains nothing. */
DEVICE void attend(const share *a, const tile_work *w, float o[O_COUNT], softmax_state *m, int uses) {
    float s[S_COUNT];
    unsigned p[P_COUNT];
#pragma unroll 1
    for (int use = 0; use < uses; use++) {
        const int j = tile_of_use(a, w, use);
        wait_k(a, use);
        score(a, s, use);
        WGMMA_WAIT(0);
        wgmma_results(s, S_COUNT);
        apply_mask(a, w, s, j);
        float shrink[2];
        weigh_tile(a, s, m, shrink);
        round_weights(p, s);
        rescale(o, shrink);
        wait_v(a, use);
        accumulate(a, o, p, use);
        wait_o(o);
        release(a, use, uses);
        refill(a, w, use, uses);
    }
}

/* The same, computing the weights of a tile while the tensor cores add the previous one to O:
 * for several row groups, which fill the SM. They do not run in step: a slot is refilled while
 * products are in flight, when all warps have probably released it. */
DEVICE void attend_ahead(const share *a, const tile_work *w, float o[O_COUNT], softmax_state *m, int uses) {
    float s[S_COUNT];
    unsigned p[P_COUNT];
    wait_k(a, 0);
    score(a, s, 0);
    WGMMA_WAIT(0);
    wgmma_results(s, S_COUNT);
    apply_mask(a, w, s, tile_of_use(a, w, 0));
    start_softmax(s, a->p->fwd.scale_log2, m);
    round_weights(p, s);
#pragma unroll 1
    for (int use = 1; use < uses; use++) {
        const int j = tile_of_use(a, w, use);
        wait_k(a, use);
        score(a, s, use);
        wait_v(a, use - 1);
        accumulate(a, o, p, use - 1);
        refill(a, w, use - 2, uses);
        WGMMA_WAIT(1);
        wgmma_results(s, S_COUNT);
        apply_mask(a, w, s, j);
        follow_softmax(s, o, a->p->fwd.scale_log2, m, is_clear(a, j));
        round_weights(p, s);
        release(a, use - 1, uses);
    }
    wait_v(a, uses - 1);
    accumulate(a, o, p, uses - 1);
    wait_o(o);
}

/* The address where share `from` leaves the i-th group of eight columns that share `owner` of
 * the same rows owns: this thread's part. */
DEVICE unsigned inbox(const share *a, int owner, int from, int i) {
    return a->shared + INBOX_AT + (a->row_group * SHARES + owner) * INBOX_BYTES + (from * OWNED + i) * EIGHT_BYTES + a->thread * 16;
}

DEVICE float2 *sums_of(const share *a, int from, int r) {
    return (float2 *)__cvta_shared_to_generic(a->shared + SUMS_AT + (64 * (a->row_group * SHARES + from) + r) * 8);
}

/* Send tops and sums to all, and columns of O to the share that owns them. */
DEVICE void send(const share *a, const float o[O_COUNT], const softmax_state *m, bool has_keys) {
    const int lane = a->thread % 32, r = a->thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const float total = quad_sum(m->sum[half]);
        if (lane % 4 == 0)
            *sums_of(a, a->index, r + 8 * half) = make_float2(m->top[half], total);
    }
    if (!has_keys)
        return;
#pragma unroll
    for (int n = 0; n < COLUMNS; n++)
        if (n / OWNED != a->index)
            *(float4 *)__cvta_shared_to_generic(inbox(a, n / OWNED, a->index, n % OWNED)) =
                make_float4(o[4 * n], o[4 * n + 1], o[4 * n + 2], o[4 * n + 3]);
}

/* Top and sum of a row over all shares; weight[from] is the factor for a share's O, before
 * division by the sum. */
DEVICE float2 join_sums(const share *a, int r, float weight[SHARES]) {
    float2 each[SHARES];
    float2 all = make_float2(-1e30f, 0.0f);
#pragma unroll
    for (int from = 0; from < SHARES; from++) {
        each[from] = *sums_of(a, from, r);
        all.x = fmaxf(all.x, each[from].x);
    }
#pragma unroll
    for (int from = 0; from < SHARES; from++) {
        weight[from] = exp2_fast(each[from].x - all.x);
        all.y += each[from].y * weight[from];
    }
    return all;
}

/* Transpose four words per lane over a quad: lane q gets the q-th word of all four. */
DEVICE void transpose_quad(unsigned x[4]) {
    const bool odd = threadIdx.x % 2, high = threadIdx.x / 2 % 2;
    const unsigned a = __shfl_xor_sync(0xffffffffu, odd ? x[0] : x[1], 1), b = __shfl_xor_sync(0xffffffffu, odd ? x[2] : x[3], 1);
    const unsigned lo[2] = {odd ? a : x[0], odd ? x[1] : a}, hi[2] = {odd ? b : x[2], odd ? x[3] : b};
    const unsigned c = __shfl_xor_sync(0xffffffffu, high ? lo[0] : hi[0], 2), d = __shfl_xor_sync(0xffffffffu, high ? lo[1] : hi[1], 2);
    x[0] = high ? c : lo[0];
    x[1] = high ? d : lo[1];
    x[2] = high ? hi[0] : c;
    x[3] = high ? hi[1] : d;
}

/* Rows are stored in parts of 16 bytes. Part 4 * n + quad belongs to lane `quad` of a quad:
 * eight columns of row half part / OWNED. */
#define PARTS ((2 * OWNED + 3) / 4) /* per thread */

typedef struct part {
    half_bits *to; /* NULL: outside the tensor */
    int r;         /* its row of the tile */
} part;

DEVICE void find_parts(const share *a, const tile_work *w, part parts[PARTS]) {
    const att_fwd_params *f = &a->p->fwd;
#pragma unroll
    for (int n = 0; n < PARTS; n++) {
        const int which = 4 * n + a->thread % 4, r = a->thread / 32 * 16 + a->thread % 32 / 4 + 8 * (which / OWNED);
        const int column = 8 * (a->index * OWNED + which % OWNED);
        const bool inside = which < 2 * OWNED && w->row0 + r < w->rows && column < f->d_v;
        parts[n].r = r;
        parts[n].to = inside ? (half_bits *)f->o + first_row(a->p, w, &f->o_stride) + row_offset(a->p, &f->o_stride, r) + column : 0;
    }
}

/* A barrier for all warps that have these rows. */
DEVICE void meet(const share *a) {
    if (ROW_GROUPS == 1)
        __syncthreads();
    else
        named_barrier_wait(1 + a->row_group, SHARES * WARPGROUP);
}

/* Add up this warpgroup's columns of the rows and store them. */
DEVICE void store_rows(const share *a, const tile_work *w, const float o[O_COUNT], const part parts[PARTS], int senders, unsigned *bad) {
    const att_fwd_params *f = &a->p->fwd;
    const int lane = a->thread % 32, r = a->thread / 32 * 16 + lane / 4;
    float weight[2][SHARES];
    float2 all[2];
    unsigned packed[4 * PARTS] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        all[half] = join_sums(a, r + 8 * half, weight[half]);
        float scale = all[half].y > 0.0f ? reciprocal_fast(all[half].y) : all[half].y;
        if (f->sinks && w->row0 + r + 8 * half < w->rows) {
            float lse = all[half].y > 0.0f ? all[half].x + log2_fast(all[half].y) : -INFINITE;
            scale *= add_sink(f, head_of(a->p, w->head, w->row0 + r + 8 * half), &lse);
        }
#pragma unroll
        for (int from = 0; from < SHARES; from++)
            weight[half][from] *= scale;
    }
#pragma unroll
    for (int i = 0; i < OWNED; i++) {
        float y[4] = {};
#pragma unroll
        for (int from = 0; from < SHARES; from++) {
            float x[4];
            if (from == a->index) {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    x[e] = o[4 * (from * OWNED + i) + e];
            } else {
                const float4 sent = *(const float4 *)__cvta_shared_to_generic(inbox(a, a->index, from, i));
                x[0] = sent.x, x[1] = sent.y, x[2] = sent.z, x[3] = sent.w;
            }
            if (from < senders)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    y[e] += x[e] * weight[e / 2][from];
        }
        packed[i] = pack_16(DTYPE, y[0], y[1]);
        packed[OWNED + i] = pack_16(DTYPE, y[2], y[3]);
    }
#pragma unroll
    for (int n = 0; n < PARTS; n++) {
        unsigned *x = packed + 4 * n;
        transpose_quad(x);
        if (parts[n].to)
            store_16(parts[n].to, make_uint4(x[0], x[1], x[2], x[3]));
    }
#pragma unroll
    for (int n = 0; n < PARTS; n++) {
        const unsigned *x = packed + 4 * n;
        const unsigned check = times_zero_plus(DTYPE, x[0], times_zero_plus(DTYPE, x[1], times_zero_plus(DTYPE, x[2], times_zero_plus(DTYPE, x[3], 0))));
        if (parts[n].to && (check & 0x7fff7fff) != 0) /* infinity and NaN times 0 are NaN */
            atomicOr(&bad[parts[n].r / 32], 1u << parts[n].r % 32);
    }
    /* LSE, written by one lane per quad of the first share, after everything that others wait
     * for. */
    if (a->index != 0 || lane % 4 != 0)
        return;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = w->row0 + r + 8 * half, i = row >> a->p->pack;
        const float total = all[half].y;
        float lse = total > 0.0f ? all[half].x + log2_fast(total) : total == 0.0f ? -INFINITE : total;
        if (row >= w->rows)
            continue;
        /* NaN, overflow of float32, or no weight; the latter is correct if the row sees no
         * key. */
        if (!(lse < INFINITE) || (lse == -INFINITE && visible_hi(f, &w->s, i) > visible_lo(f, &w->s, i)))
            atomicOr(&bad[(r + 8 * half) / 32], 1u << (r + 8 * half) % 32);
        if (f->sinks)
            add_sink(f, head_of(a->p, w->head, row), &lse);
        if (f->lse)
            f->lse[first_row(a->p, w, &f->lse_stride) + row_offset(a->p, &f->lse_stride, r + 8 * half)] = lse * LN_2;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) KERNEL(const __grid_constant__ att_fwd_sm90_params params) {
    extern __shared__ char shared_memory[];
    const att_fwd_sm90_params *p = &params;
    const att_fwd_params *f = &p->fwd;
    const unsigned shared = (shared_address(shared_memory) + 1023) & ~1023u;
    const int group = uniform((int)threadIdx.x / WARPGROUP), thread = (int)threadIdx.x % WARPGROUP;
    const int index = group % SHARES, row_group = group / SHARES, warp = uniform(thread / 32);
    share a = {p,
               shared,
               shared + ROW_GROUPS * Q_BYTES + index * SHARE_BYTES,
               shared + BARRIERS_AT + (ROW_GROUPS + index * SHARE_BARRIERS) * MBARRIER_BYTES,
               index,
               row_group,
               thread,
               warp == 0 && row_group == 0,
               0,
               0,
               0,
               0};
    unsigned *const bad = (unsigned *)__cvta_shared_to_generic(shared + BAD_AT + row_group * 8);
    if (USE_EARLY_LAUNCH)
        allow_next_kernel();
    if (thread == 0) {
        if (row_group == 0)
            for (int n = 0; n < STAGES; n++) {
                mbarrier_init(k_full(&a, n), 1);
                mbarrier_init(v_full(&a, n), 1);
                mbarrier_init(both_empty(&a, n), 4 * ROW_GROUPS);
            }
        if (index == 0) {
            mbarrier_init(q_full(&a), 1);
            bad[0] = bad[1] = 0;
        }
        if (group == 0) {
            tma_prefetch_map(&p->q);
            tma_prefetch_map(&p->k);
            tma_prefetch_map(&p->v);
        }
        mbarrier_init_done();
    }
    __syncthreads();
    /* The tile is known before the previous kernel has ended, unless that kernel may have
     * written the lengths. */
    if (reads_lengths(f))
        wait_for_previous_kernel();
    tile_work w = tile_of(p, (int)blockIdx.x);
    a.key_head = key_head_of(p, w.head);
    a.key_batch = f->cu_seqlens_k ? 0 : w.s.batch;
    if (!reads_lengths(f))
        wait_for_previous_kernel();
    if (!has_rows(&w))
        return;
    /* From here on the row group's own rows, possibly none. The keys remain those of all rows
     * of the block. */
    w.row0 += 64 * row_group;
    const int uses = uses_of(&a, &w);
    if (warp == 0 && elect_lane()) {
        if (index == 0 && uses > 0)
            load_q(&a, &w);
        if (row_group == 0)
            for (int use = 0; use < min(uses, STAGES); use++)
                load_use(&a, use, row_of_use(&a, &w, use));
    }
    __syncwarp();
    a.clear_from = (visible_lo(f, &w.s, (min(w.row0 + 64, w.rows) - 1) >> p->pack) + TILE_N - 1) / TILE_N;
    a.clear_to = max(visible_hi(f, &w.s, w.row0 >> p->pack), 0) / TILE_N;
    if (!USE_CLEAR_TILES)
        a.clear_to = min(a.clear_to, a.clear_from);
    part parts[PARTS];
    find_parts(&a, &w, parts);
    float o[O_COUNT];
#pragma unroll
    for (int n = 0; n < O_COUNT; n++)
        o[n] = 0.0f;
    softmax_state m = {{NO_TOP, NO_TOP}, {0.0f, 0.0f}, 0};
    if (uses > 0) {
        mbarrier_wait(q_full(&a), 0);
        if (ROW_GROUPS > 1 && USE_SCORES_AHEAD)
            attend_ahead(&a, &w, o, &m, uses);
        else
            attend(&a, &w, o, &m, uses);
    }

    const int senders = min(SHARES, max(0, w.last - w.first));
    send(&a, o, &m, index < senders);
    meet(&a);
    store_rows(&a, &w, o, parts, senders, bad);
    meet(&a);
    for (int r = index * 4 + warp; r < 64; r += 4 * SHARES)
        if (bad[r / 32] >> r % 32 & 1)
            second_look(f, w.s.batch, head_of(p, w.head, w.row0 + r), (w.row0 + r) >> p->pack);
}
