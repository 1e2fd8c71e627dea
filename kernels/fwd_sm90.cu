/* fwd_sm90.cu: forward attention on Hopper, warp-specialised
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE; one block per SM, each takes tiles of
 *          TILE_M rows until none is left
 * TILE     TILE_M rows x TILE_N keys, D_QK and D_V in panels of 64 columns, STAGES tiles of K,
 *          and as many of V or one more
 * THREADS  one warpgroup in which one warp loads and one stores, and TILE_M / 64 consumer
 *          warpgroups of 64 rows each
 * SMEM     fwd_sm90_shared.cuh
 * REGS     handed from the producer to the consumers (KEEP_REGISTERS, TAKE_REGISTERS); zero
 *          spills, checked by the build
 * FLOW     copy    Q K3 K2 V3 K1 V2 K0 V1 | Q' K3' V0 ...       from the last keys to the first
 *          tensor  S3 S2 P3V3 S1 P2V2 S0 P1V1 | S3' P0V0 ...    pipelined across tiles of rows
 *          alu        softmax3 softmax2 ...   | softmax3' O ...
 *          copy                                            O out
 * NUMERICS float32 S, top, sum, O; weights are relative to a top that need not be the maximum,
 *          and rounded to DTYPE before PV; rows that are not finite are recomputed in float64
 * LIMITS   d_qk <= D_QK, d_v <= D_V, rows at multiples of 16 bytes, O of type DTYPE. FEATURES
 *          adds one score modification at full speed; ROLE GENERAL has all of them, and scale
 *          <= 0. ROLE SPLIT takes the keys of each tile of rows in `splits` parts, which
 *          fwd_combine merges; O may then be float32, also from one part
 * WHY      docs/hopper.md: the gain of each step, and what was tried and lost
 * SWITCHES switches.def */
#include "kernels/fwd_sm90_load.cuh"
#include "kernels/fwd_sm90_scores.cuh"
#include "kernels/fwd_sm90_softmax.cuh"
#include "kernels/fwd_sm90_store.cuh"
#include "kernels/ldmatrix.cuh"
#include "kernels/packed.cuh"
#include "kernels/programmatic_launch.cuh"
#include "kernels/stmatrix.cuh"
#include "kernels/wgmma.cuh"

/* A function call makes the compiler wait for each product separately. */
#undef __noinline__
#define __noinline__ __forceinline__
#include "kernels/second_look.cuh"

#define THREADS (32 * WARPS)

/* All warpgroups together use at most what the launch gives the block: floor(65536 / THREADS /
 * 8) * 8 per thread. */
#define KEEP_REGISTERS (GROUPS == 2 ? 40 : 32)
#define TAKE_REGISTERS (GROUPS == 2 ? 232 : GROUPS == 3 ? 160 : 112)

/* Compute the next tile's first scores before this one's last PV. Not if keys are split: blocks
 * then have few tiles, and O is stored from registers that the scores would need. */
#define CARRIES        (USE_CARRY && TWO_Q && !SPLITS_KEYS)
/* A warpgroup that has no rows in the tile computes nothing. */
#define SKIPS_IDLE     (USE_TILE_SKIP && TWO_Q && USE_CARRY)
/* Two or three warpgroups take turns on the tensor cores. With four that costs more than it
 * gains. */
#define TAKES_TURNS    (USE_TURNS && GROUPS <= 3)

/* The state of one thread of a consumer warpgroup. */
typedef struct consumer {
    const att_fwd_sm90_params *p;
    unsigned shared;
    int group, warp, lane;
    int n;     /* the record: how many tiles were taken before */
    ring k, v; /* the slots to read next */
    unsigned base, q; /* shared memory and this tile's Q, as wgmma addresses */
    ring b;    /* of the bias */
} consumer;

/* The tiles of keys that a warpgroup walks. */
typedef struct key_range {
    int first, now;           /* from the last to the first */
    int behind;               /* later tiles that only other warpgroups see */
    int clear_from, clear_to; /* every row sees all keys of the tiles in between */
    int tile;                 /* key_tile_at(now), if the walk does not go straight down */
    /* Boolean masks: `first` and `now` index the tiles of a list; `kind` is what this warp sees
     * of the tile, `seen` this thread's columns of it. */
    int kind;
    unsigned seen[2];
} key_range;

/* The current tile of keys. */
DEVICE int tile_now(const key_range *v) {
    return HAS_ALIBI ? v->tile : v->now;
}

/* The same consumer, its position recomputed from the thread number, so that addresses needed
 * once per tile are not kept in registers throughout. */
DEVICE consumer thread_position(const consumer *c) {
    consumer same = *c;
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    same.lane = (int)thread % 32;
    same.warp = (int)thread / 32 % 4;
    same.group = (int)thread / WARPGROUP - 1;
    return same;
}

/* Word `what` of the tile's record. */
DEVICE int record_of(const consumer *c, int what) {
    return record_word(c->shared, c->n, what);
}

/* One word per warp: the head of a list of rows to recompute. */
DEVICE int *redo_note(const consumer *c) {
    return (int *)__cvta_shared_to_generic(barrier_of(c->shared, NOTES_AT) + 4 * (4 * c->group + c->warp));
}

/* This thread's first row of the unit; its other one is 8 further down. */
DEVICE int row_of(const consumer *c) {
    return record_of(c, REC_ROW0) + 64 * c->group + 16 * c->warp + c->lane / 4;
}

DEVICE void release(const consumer *c, int which) {
    __syncwarp();
    if (c->lane == 0)
        mbarrier_arrive(barrier_of(c->shared, which));
}

DEVICE void wait_k(const consumer *c) {
    mbarrier_wait(barrier_of(c->shared, K_FULL + c->k.place), c->k.parity);
}

DEVICE void release_k(consumer *c) {
    release(c, K_EMPTY + c->k.place);
    c->k = ring_next(c->k, STAGES);
}

DEVICE void wait_v(const consumer *c) {
    mbarrier_wait(barrier_of(c->shared, V_FULL + c->v.place), c->v.parity);
}

DEVICE void release_v(consumer *c) {
    release(c, V_EMPTY + c->v.place);
    c->v = ring_next(c->v, V_STAGES);
}

DEVICE void wait_bias(const consumer *c) {
    if (HAS_BIAS)
        mbarrier_wait(barrier_of(c->shared, BIAS_FULL + c->group * BIAS_STAGES + c->b.place), c->b.parity);
}

DEVICE void release_bias(consumer *c) {
    if (HAS_BIAS) {
        release(c, BIAS_EMPTY + c->group * BIAS_STAGES + c->b.place);
        c->b = ring_next(c->b, BIAS_STAGES);
    }
}

/* Skip tiles of keys that this warpgroup does not need. */
DEVICE void skip_v(consumer *c, int count) {
#pragma unroll 1
    for (; count > 0; count--) {
        wait_v(c);
        release_v(c);
    }
}

DEVICE void wait_turn(const consumer *c) {
    if (TAKES_TURNS)
        named_barrier_wait(TURN + c->group, 2 * WARPGROUP);
}

DEVICE void pass_turn(const consumer *c) {
    if (TAKES_TURNS)
        named_barrier_arrive(TURN + (c->group == GROUPS - 1 ? 0 : c->group + 1), 2 * WARPGROUP);
}

/* The same for K; the warpgroup passes its turns on. */
DEVICE void skip_k(consumer *c, int count) {
#pragma unroll 1
    for (; count > 0; count--) {
        wait_k(c);
        wait_turn(c);
        pass_turn(c);
        release_k(c);
        wait_bias(c);
        release_bias(c);
    }
}

DEVICE int q_place(const consumer *c) {
    return place_of(c->n, Q_STAGES) * GROUPS + c->group;
}

/* Start S = Q K^T. */
DEVICE void score(const consumer *c, float s[S_COUNT], unsigned q[K_STEPS][4]) {
    const unsigned long long right = wgmma_operand(c->base + (K_AT >> 4) + c->k.place * (K_BYTES >> 4), 16);
    const unsigned long long left = wgmma_operand(c->q, 16);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < K_STEPS; k++) {
        const unsigned long long b = right + WGMMA_STEP(k / 4 * TILE_N * ROW_BYTES + k % 4 * 32);
        if (Q_IN_REGISTERS)
            WGMMA_K(TILE_N)(s, q[k], b, k > 0);
        else
            WGMMA(TILE_N)(s, left + WGMMA_STEP(k / 4 * 64 * ROW_BYTES + k % 4 * 32), b, k > 0);
    }
    wgmma_commit();
}

/* Start O = P V, or O += P V if `more` is not 0. */
DEVICE void accumulate(const consumer *c, float o[O_COUNT], unsigned p[P_COUNT], int more) {
    const unsigned long long right = wgmma_operand(c->base + (V_AT >> 4) + c->v.place * (V_BYTES >> 4), TILE_N * ROW_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < V_STEPS; k++)
        WGMMA_MN(D_V)(o, p + 4 * k, right + WGMMA_STEP(k * 16 * ROW_BYTES), k > 0 ? 1 : more);
    wgmma_commit();
}

/* The lengths and the shift that the masks of this tile of rows need. */
DEVICE sequence mask_of(const consumer *c) {
    sequence own;
    own.len_k = record_of(c, REC_LEN_K);
    own.shift = record_of(c, REC_SHIFT);
    return own;
}

/* Turn products into scores in units of log2 (ROLE GENERAL). */
DEVICE void adjust(const consumer *c, float s[S_COUNT], int j) {
    sequence own = mask_of(c);
    own.batch = record_of(c, REC_BATCH);
    own.first_k = record_of(c, REC_FIRST_K);
    const int rows = record_of(c, REC_ROWS);
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        const int row = row_of(c) + 8 * half, i = row >> c->p->pack, head = head_of(c->p, record_of(c, REC_HEAD), row);
        const float slope = slope_of(&c->p->fwd, own.batch, head);
#pragma unroll
        for (int n = 0; n < TILE_N / 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int key = j * TILE_N + 8 * n + c->lane % 4 * 2 + e;
                float *x = &s[4 * n + e];
                const float product = half ? x[2] : x[0];
                const float y = is_there(row, rows) && key < own.len_k
                                    ? score_of(&c->p->fwd, &own, head, i, key, slope, product)
                                    : product;
                if (half)
                    x[2] = y;
                else
                    x[0] = y;
            }
    }
}

/* Start loading what the rows of this warp see of a listed tile (HAS_MASK). */
DEVICE void look_up(const consumer *c, key_range *v, att_fwd_mask_tile listed) {
    const att_fwd_mask *m = &features_of(c->p)->mask;
    const consumer same = thread_position(c);
    const int warp = 4 * same.group + same.warp;
    v->kind = (int)(listed.kinds >> (2 * warp) & 3u);
    v->seen[0] = v->seen[1] = !USE_CLEAR_TILES && v->kind == ATT_MASK_ALL ? ~0u : 0u;
    if (v->kind == ATT_MASK_PART) {
        const long long tile = (long long)record_of(c, REC_LIST) * m->key_tiles + listed.tile;
        const uint2 bits = *(const uint2 *)(m->bits + (tile * (TILE_M / 16) + warp) * 32 + same.lane);
        v->seen[0] = bits.x;
        v->seen[1] = bits.y;
    }
}

/* The tile that the warpgroup begins with. The record has the list's last one. */
DEVICE att_fwd_mask_tile first_listed(const consumer *c, const key_range *v) {
    if (v->behind > 0)
        return listed_tile(c->p, record_of(c, REC_LIST), v->now);
    return {record_of(c, REC_LIST_TILE), (unsigned)record_of(c, REC_LIST_KINDS)};
}

/* The same for tile `now`. */
DEVICE void look_up_next(const consumer *c, key_range *v) {
    if (HAS_MASK)
        look_up(c, v, listed_tile(c->p, record_of(c, REC_LIST), v->now));
}

/* Does this warpgroup see nothing of the tile? */
DEVICE bool is_unseen(const consumer *c, att_fwd_mask_tile listed) {
    return (listed.kinds >> (8 * c->group) & 0xffu) == 0x55u * ATT_MASK_NONE;
}

/* Does this thread's row half see a key at all? Checks all tiles of the list; only for the few
 * rows that have no weight. */
DEVICE bool sees_some_key(const consumer *c, int half) {
    key_range v;
#pragma unroll 1
    for (v.now = record_of(c, REC_LAST) - 1; v.now >= 0; v.now--) {
        look_up_next(c, &v);
        if (v.kind == ATT_MASK_ALL || v.seen[half])
            return true;
    }
    return false;
}

DEVICE bool is_clear(const key_range *v) {
    if (HAS_MASK)
        return USE_CLEAR_TILES && v->kind == ATT_MASK_ALL;
    return USE_CLEAR_TILES && tile_now(v) >= v->clear_from && tile_now(v) < v->clear_to;
}

/* Find the tile at step `now` of the walk. */
DEVICE void find_tile(const consumer *c, key_range *v) {
    if (HAS_ALIBI)
        v->tile = key_tile_at(v->now, record_of(c, REC_FIRST), record_of(c, REC_LAST), record_of(c, REC_TURNED));
}

/* The features' parameters for this tile of keys; needs no products. `diagonal` is that of the
 * warp's first row. */
DEVICE score_shape shape_of(const consumer *c, const key_range *v) {
    score_shape f = {c->p->fwd.scale_log2, 0.0f, 0.0f, 1, false, false, 0, 0, 0};
    if (HAS_ALIBI) {
        const consumer same = thread_position(c);
        const int key0 = tile_now(v) * TILE_N, shift = record_of(c, REC_SHIFT), last = record_of(c, REC_ROWS) - 1 + shift;
        const int diagonal = record_of(c, REC_ROW0) + 64 * same.group + 16 * same.warp + shift;
        f.slope = __int_as_float(record_of(c, REC_SLOPE));
        f.away = (float)(key0 + same.lane % 4 * 2 - (row_of(&same) + shift));
        f.side = key0 + TILE_N - 1 <= diagonal ? 1 : key0 >= min(diagonal + 15, last) ? -1 : 0;
        f.ghosts = diagonal + 15 > last;
        f.climbs = f.side <= 0 && tile_now(v) < record_of(c, REC_LAST) - record_of(c, REC_TURNED);
    }
    if (HAS_SOFTCAP)
        f.cap = &features_of(c->p)->softcap;
    if (HAS_BIAS) {
        const consumer same = thread_position(c);
        const int r = features_of(c->p)->bias.rows > 1 ? 16 * same.warp + same.lane % 16 : 0;
        bias_lane(&f.bias, &f.swizzle, bias_place(c->shared, same.group, c->b.place), r, same.lane / 16);
    }
    return f;
}

/* Must the heaviest key of a row weigh exactly 1? Its weight is then not rounded, which would show
 * in an O of float32. Products are turned into scores before they are compared: rounded with its
 * row's top, a score differs from it by 0. */
DEVICE bool is_exact(const consumer *c) {
    return SPLITS_KEYS && c->p->fwd.dtype_o == F32;
}

/* Apply masks to a tile of keys that needs them. */
DEVICE void apply_mask(const consumer *c, const key_range *v, float s[S_COUNT]) {
    if (!IS_PLAIN)
        adjust(c, s, v->now);
    if (is_exact(c))
#pragma unroll
        for (int n = 0; n < S_COUNT; n++)
            s[n] *= c->p->fwd.scale_log2;
    if (is_clear(v))
        return;
    if (HAS_MASK)
        hide_columns(s, v->seen);
    else {
        const consumer same = thread_position(c);
        const sequence own = mask_of(&same);
        hide_keys(c->p, &own, s, row_of(&same), tile_now(v));
    }
}

/* The same for the first tile of keys, in two parts; this one runs while the scores are in
 * flight. */
DEVICE void look_ahead(const consumer *c, key_range *v, unsigned seen[2]) {
    if (HAS_MASK) {
        look_up(c, v, first_listed(c, v));
    } else if (CARRIES && !is_clear(v)) {
        const consumer same = thread_position(c);
        const sequence own = mask_of(&same);
        columns_seen(c->p, &own, seen, row_of(&same), tile_now(v));
    }
}

DEVICE void apply_first_mask(const consumer *c, const key_range *v, float s[S_COUNT], const unsigned seen[2]) {
    if (SHAPES_SCORES) {
        const score_shape f = shape_of(c, v);
        shape_scores(s, &f);
    }
    if (!CARRIES) {
        apply_mask(c, v, s);
        return;
    }
    if (!IS_PLAIN)
        adjust(c, s, v->now);
    if (!is_clear(v))
        hide_columns(s, HAS_MASK ? v->seen : seen);
}

DEVICE float factor_of(const consumer *c) {
    return IS_PLAIN && !SHAPES_SCORES && !is_exact(c) ? c->p->fwd.scale_log2 : 1.0f;
}

/* Wait for the n-th record. Returns false if there are no more tiles. */
DEVICE bool take_tile(const consumer *c) {
    wait_full(c->shared, TILE_FULL, c->n, RECORDS);
    return record_of(c, REC_TILE) >= 0;
}

/* The range of a list (HAS_MASK). */
DEVICE key_range list_range_of(const consumer *c) {
    key_range v;
    v.first = 0;
    v.now = record_of(c, REC_LAST) - 1;
    v.behind = 0;
#pragma unroll 1
    while (USE_TILE_SKIP && v.behind < STAGES - 1 && v.now > 0 && is_unseen(c, first_listed(c, &v))) {
        v.behind++;
        v.now--;
    }
    return v;
}

/* A warpgroup skips the tiles of keys that none of its own rows sees, except one: products need
 * a start. It skips at most as many as the rings hold besides the previous tile of rows, whose
 * last V it is still waiting for. */
DEVICE key_range range_of(const consumer *c) {
    if (HAS_MASK)
        return list_range_of(c);
    const att_fwd_params *f = &c->p->fwd;
    const int pack = c->p->pack, row0 = record_of(c, REC_ROW0) + 64 * c->group;
    const int last_row = min(row0 + 64, record_of(c, REC_ROWS)) - 1, last = record_of(c, REC_LAST);
    const sequence own = mask_of(c);
    key_range v;
    v.first = record_of(c, REC_FIRST);
    v.now = last - 1;
    if (USE_TILE_SKIP && !(HAS_ALIBI && record_of(c, REC_TURNED) > 0))
        v.now = min(last, max(max(v.first + 1, last - STAGES + 1), (visible_hi(f, &own, last_row >> pack) + TILE_N - 1) / TILE_N)) - 1;
    v.behind = last - 1 - v.now;
    find_tile(c, &v);
    v.clear_from = (visible_lo(f, &own, last_row >> pack) + TILE_N - 1) / TILE_N;
    v.clear_to = max(visible_hi(f, &own, row0 >> pack), 0) / TILE_N;
    return v;
}

DEVICE void wait_q(const consumer *c) {
    mbarrier_wait(barrier_of(c->shared, Q_FULL + q_place(c)), parity_of(c->n, Q_STAGES));
}

/* Wait for Q and, if it stays in registers, load it. */
DEVICE void take_q(consumer *c, unsigned q[K_STEPS][4]) {
    const unsigned tile = c->shared + q_place(c) * Q_PLACE;
    c->q = c->base + q_place(c) * (Q_PLACE >> 4);
    wait_q(c);
    const int r = 16 * c->warp + c->lane % 16;
#pragma unroll
    for (int k = 0; k < K_STEPS; k++)
        if (Q_IN_REGISTERS)
            ldmatrix_x4(q[k], tile + r * ROW_BYTES + k / 4 * 64 * ROW_BYTES + (((2 * (k % 4) + c->lane / 16) ^ (r & 7)) << 4));
}

/* Called after the first scores of a tile, which used Q from registers. Earlier would be wrong:
 * a load in flight does not delay the arrival, and the copy of the next Q could overtake it. */
DEVICE void release_q_early(const consumer *c) {
    if (ONE_Q)
        release(c, Q_EMPTY + q_place(c));
}

/* Called after the last scores. O uses Q's buffer if it has none of its own. */
DEVICE void release_q(const consumer *c) {
    if (OWN_O && !ONE_Q)
        release(c, Q_EMPTY + q_place(c));
}

DEVICE bool is_positive(float total) {
    return total > 0.0f && total < INFINITE;
}

/* Must a row half whose sum is not positive and finite be recomputed? The sum overflowed, is
 * NaN, or is 0; 0 is correct if the row sees no key. */
DEVICE bool is_lost(const consumer *c, float total, int half) {
    if (HAS_MASK)
        return total != 0.0f || sees_some_key(c, half);
    const sequence own = mask_of(c);
    const int i = (row_of(c) + 8 * half) >> c->p->pack;
    return total != 0.0f || visible_hi(&c->p->fwd, &own, i) > visible_lo(&c->p->fwd, &own, i);
}

/* Store the LSE of a row half. */
DEVICE void store_lse(const consumer *c, float lse, int half) {
    if (c->lane % 4 == 0 && is_there(row_of(c) + 8 * half, record_of(c, REC_ROWS))) {
        const int r = 64 * c->group + 16 * c->warp + c->lane / 4 + 8 * half;
        float *to = (float *)record_address(c->shared, c->n, REC_LSE_ROW);
        to[row_offset(c->p, &c->p->fwd.lse_stride, r)] = lse * LN_2;
    }
}

/* Add rows of the warp to its list; the bits of `bad` mark each lane's own rows. */
DEVICE void note_rows(const consumer *c, unsigned bad) {
    unsigned rows = 0;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const unsigned votes = __ballot_sync(0xffffffffu, bad >> half & 1 && is_there(row_of(c) + 8 * half, record_of(c, REC_ROWS)));
#pragma unroll
        for (int quad = 0; quad < 8; quad++)
            rows |= (votes >> 4 * quad & 15u) != 0 ? 1u << (quad + 8 * half) : 0u;
    }
    if (rows && c->lane == 0) {
        const int entry = record_of(c, REC_TILE) * (TILE_M / 16) + 4 * c->group + c->warp;
        c->p->redo[entry].rows = rows;
        c->p->redo[entry].next = *redo_note(c);
        *redo_note(c) = entry;
    }
}

/* What remains to be done for a tile whose sums are known: the factors for its rows, and the
 * rows that overflowed float32, as bits. */
typedef struct tile_end {
    float scale[2];
    unsigned bad;
} tile_end;

/* Store top and sum of both row halves of a part, which may see no key. A NaN makes fwd_combine
 * recompute the row. */
DEVICE void store_part_sums(const consumer *c, const softmax_state *m, const float total[2]) {
    const int r = 64 * c->group + 16 * c->warp + c->lane / 4;
    float *to = (float *)record_address(c->shared, c->n, REC_LSE_ROW);
#pragma unroll
    for (int half = 0; half < 2; half++)
        if (c->lane % 4 == 0 && is_there(row_of(c) + 8 * half, record_of(c, REC_ROWS)))
            store_part_sum(to, part_row_offset(c->p, r + 8 * half),
                           m->top[half] <= NO_TOP ? -INFINITE : m->top[half],
                           total[half] < INFINITE ? total[half] : __int_as_float(0x7fffffff));
}

/* Store O of a part directly from registers: four lanes store eight columns of a row. */
DEVICE void store_part_rows(const consumer *c, const float o[O_COUNT]) {
    const int d_v = c->p->fwd.d_v, r = 64 * c->group + 16 * c->warp + c->lane / 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float *to = (float *)record_address(c->shared, c->n, REC_O_ROW) + part_row_offset(c->p, r + 8 * half) * d_v + c->lane % 4 * 2;
        if (is_there(row_of(c) + 8 * half, record_of(c, REC_ROWS)))
#pragma unroll
            for (int n = 0; n < O_COUNT / 4; n++)
                if (8 * n < d_v)
                    *(float2 *)(to + 8 * n) = make_float2(o[4 * n + 2 * half], o[4 * n + 1 + 2 * half]);
    }
}

/* Store the LSE of the previous tile, or the tops and sums of the part. */
DEVICE tile_end finish_sums(const consumer *next, const softmax_state *m) {
    const att_fwd_params *f = &next->p->fwd;
    const float total[2] = {quad_sum(m->sum[0]), quad_sum(m->sum[1])};
    tile_end end = {{reciprocal_fast(total[0]), reciprocal_fast(total[1])}, 0};
    consumer same = thread_position(next);
    same.n--;
    if (SPLITS_KEYS) {
        store_part_sums(&same, m, total);
        return end;
    }
    if (!__all_sync(0xffffffffu, is_positive(total[0]) && is_positive(total[1]))) {
#pragma unroll
        for (int half = 0; half < 2; half++)
            if (!is_positive(total[half])) {
                end.scale[half] = total[half];
                end.bad |= is_lost(&same, total[half], half) ? 1u << half : 0u;
            }
    }
    if (f->lse || f->sinks) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float lse = is_positive(total[half]) ? m->top[half] + log2_fast(total[half]) : -INFINITE;
            if (f->sinks)
                end.scale[half] *= add_sink(f, head_of(same.p, record_of(&same, REC_HEAD), row_of(&same) + 8 * half), &lse);
            if (f->lse)
                store_lse(&same, lse, half);
        }
    }
    return end;
}

/* Wait until the buffer for the previous tile's O is free. */
DEVICE void wait_o_place(const consumer *next) {
    if (TWO_Q)
        mbarrier_wait(barrier_of(next->shared, O_EMPTY + next->group), parity_of(next->n, 1));
    if (!OWN_O)
        named_barrier_wait(OWN + next->group, WARPGROUP); /* nobody reads Q any more */
}

/* Write O of the previous tile to shared memory for the storer. Rows that are not finite are
 * added to the list. */
DEVICE void finish_rows(const consumer *next, float o[O_COUNT], const tile_end *end) {
    consumer same = thread_position(next), *c = &same;
    same.n--;
    unsigned check[4] = {0, 0, 0, 0};
    const int r = 16 * c->warp + c->lane % 16;
    const unsigned place = o_place(c->shared, c->n, c->group) + r * ROW_BYTES;
    if (SPLITS_KEYS) {
        store_part_rows(c, o);
    } else {
#pragma unroll
        for (int n = 0; n < O_COUNT / 8; n++) {
            unsigned x[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                x[e] = pack_16(DTYPE, o[8 * n + 2 * e] * end->scale[e % 2], o[8 * n + 2 * e + 1] * end->scale[e % 2]);
                check[e] = times_zero_plus(DTYPE, x[e], check[e]);
            }
            stmatrix_x4(place + n / 4 * 64 * ROW_BYTES + (((2 * (n % 4) + c->lane / 16) ^ (r & 7)) << 4), x);
        }
        tma_publish();
    }
    release(c, O_FULL + c->group);
    /* Infinity and NaN times 0 are NaN. */
    const unsigned bad = end->bad | (((check[0] | check[2]) & 0x7fff7fff) != 0 ? 1u : 0u) |
                         (((check[1] | check[3]) & 0x7fff7fff) != 0 ? 2u : 0u);
    if (!SPLITS_KEYS && __any_sync(0xffffffffu, bad))
        note_rows(c, bad);
    release(c, TILE_EMPTY + place_of(c->n, RECORDS));
}

/* Recompute the rows that overflowed float32, after O has been stored. */
DEVICE void redo_rows(const consumer *c) {
    __syncwarp();
    if (*redo_note(c) < 0)
        return;
    mbarrier_wait(barrier_of(c->shared, STORED), 0);
    for (int entry = *redo_note(c); entry >= 0; entry = c->p->redo[entry].next) {
        const tile_work w = tile_of(c->p, entry / (TILE_M / 16));
        const int row0 = w.row0 + 16 * (entry % (TILE_M / 16));
        for (unsigned rows = c->p->redo[entry].rows; rows; rows &= rows - 1) {
            const int row = row0 + __ffs(rows) - 1;
            second_look(&c->p->fwd, w.s.batch, head_of(c->p, w.head, row), row >> c->p->pack);
        }
    }
}

/* The last PV of a tile, not overlapped with scores. */
DEVICE void accumulate_last(consumer *c, float o[O_COUNT], unsigned p[P_COUNT], int more) {
    wait_v(c);
    accumulate(c, o, p, more);
    wait_o(o);
    release_v(c);
}

/* Start the first scores of a tile. */
DEVICE key_range begin_scores(consumer *c, float s[S_COUNT], unsigned q[K_STEPS][4]) {
    const key_range v = range_of(c);
    take_q(c, q);
    skip_k(c, v.behind);
    wait_k(c);
    wait_turn(c);
    score(c, s, q);
    return v;
}

/* The first tile of keys, not overlapped with a PV: S, softmax, P. */
DEVICE key_range begin_tile(consumer *c, float s[S_COUNT], unsigned p[P_COUNT], unsigned q[K_STEPS][4], softmax_state *m) {
    key_range v = begin_scores(c, s, q);
    pass_turn(c);
    unsigned seen[2];
    look_ahead(c, &v, seen);
    WGMMA_WAIT(0);
    wgmma_results(s, S_COUNT);
    release_k(c);
    release_q_early(c);
    wait_bias(c);
    apply_first_mask(c, &v, s, seen);
    start_softmax(s, factor_of(c), m);
    release_bias(c); /* the softmax has used its last values */
    round_weights(p, s);
    skip_v(c, v.behind);
    return v;
}

/* Does this warpgroup have no row in the tile? The vote tells the compiler that all lanes
 * agree. */
DEVICE bool is_idle(const consumer *c) {
    return SKIPS_IDLE && __any_sync(0xffffffffu, !has_rows_of(record_of(c, REC_ROW0), record_of(c, REC_ROWS), c->group));
}

/* Skip such a tile. */
DEVICE void pass_tile(consumer *c) {
    wait_q(c);
    if (OWN_O) /* at once: the next Q comes before the last V */
        release(c, Q_EMPTY + q_place(c));
    const int count = record_of(c, REC_LAST) - record_of(c, REC_FIRST);
#pragma unroll 1
    for (int j = 0; j < count; j++) {
        skip_k(c, 1);
        skip_v(c, 1);
    }
    wait_empty(c->shared, O_EMPTY + c->group, c->n, 1);
    release(c, O_FULL + c->group);
    release(c, TILE_EMPTY + place_of(c->n, RECORDS));
    c->n++;
}

/* Wait for the next tile in which this warpgroup has rows. Returns false if there are no
 * more. */
DEVICE bool take_own_tile(consumer *c) {
#pragma unroll 1
    while (take_tile(c)) {
        if (!is_idle(c))
            return true;
        pass_tile(c);
    }
    return false;
}

/* A further tile of keys of a row with features, while the tensor cores add the previous one to
 * O. */
DEVICE void follow_shaped(consumer *c, const key_range *v, float s[S_COUNT], float o[O_COUNT], const score_shape *f,
                          softmax_state *m) {
    float shrink[2], more[2];
    bool raised;
    const int wide = m->caution & WIDE;
    const bool freely = WEIGHS_FREELY && is_clear(v) && !m->caution && !(HAS_ALIBI && f->climbs);
    if (freely && weighs_at_once(f, s)) {
        weigh_at_once(s, m->top, more, f);
        raised = raise_by_sums(s, m, more, shrink);
    } else {
        shape_scores(s, f);
        apply_mask(c, v, s);
        raised = HAS_SOFTCAP && freely ? weigh_freely(s, 1.0f, m, more, shrink) : weigh_by_maxima(s, 1.0f, m, more, shrink);
    }
    /* A climb is not a jump. Rows that do not exist must not make the warp cautious either,
     * since that would last for later tiles. */
    if (HAS_ALIBI && (f->climbs || f->ghosts))
        m->caution = (m->caution & ~WIDE) | wide;
    release_bias(c);
    add_tile(o, m, raised, more, shrink);
}

DEVICE void consume(consumer *c) {
    float s[S_COUNT], o[O_COUNT];
    unsigned p[P_COUNT], q[K_STEPS][4];
    softmax_state m;
    m.caution = is_exact(c) ? EXACT : 0;
    if (TAKES_TURNS && c->group == GROUPS - 1)
        named_barrier_arrive(TURN, 2 * WARPGROUP);
    if (!take_own_tile(c))
        return;
    key_range v = begin_tile(c, s, p, q, &m);
#pragma unroll 1
    for (;;) {
        int more = 0;
#pragma unroll 1
        for (v.now--; v.now >= v.first; v.now--) {
            if (!USE_SCORES_AHEAD) {
                wait_v(c);
                accumulate(c, o, p, more);
                wait_o(o);
            }
            look_up_next(c, &v);
            wait_k(c);
            wait_turn(c);
            score(c, s, q);
            if (USE_SCORES_AHEAD) {
                wait_v(c);
                accumulate(c, o, p, more);
            }
            pass_turn(c);
            more = 1;
            find_tile(c, &v);
            score_shape f;
            if (SHAPES_SCORES)
                f = shape_of(c, &v); /* while the scores are in flight */
            wait_bias(c);
            WGMMA_WAIT(USE_SCORES_AHEAD);
            wgmma_results(s, S_COUNT);
            release_k(c);
            if (SHAPES_SCORES) {
                follow_shaped(c, &v, s, o, &f, &m);
            } else {
                apply_mask(c, &v, s);
                follow_softmax(s, o, factor_of(c), &m, HAS_MASK || is_clear(&v));
            }
            round_weights(p, s);
            release_v(c);
        }
        if (CARRIES)
            release_q(c);
        c->n++;
        if (!CARRIES || !take_tile(c) || is_idle(c)) {
            const tile_end last = finish_sums(c, &m);
            accumulate_last(c, o, p, more);
            wait_o_place(c);
            finish_rows(c, o, &last);
            if (!CARRIES) {
                c->n--;
                release_q(c);
                c->n++;
            }
            if (!take_own_tile(c))
                return;
            v = begin_tile(c, s, p, q, &m);
            continue;
        }
        v = begin_scores(c, s, q);
        wait_v(c);
        accumulate(c, o, p, more);
        pass_turn(c);
        const tile_end end = finish_sums(c, &m); /* while the scores are in flight */
        unsigned seen[2];
        look_ahead(c, &v, seen);
        WGMMA_WAIT(1);
        wgmma_results(s, S_COUNT);
        release_k(c);
        release_q_early(c);
        wait_bias(c);
        apply_first_mask(c, &v, s, seen);
        start_softmax(s, factor_of(c), &m);
        release_bias(c);
        wait_o_place(c); /* its branch keeps the compiler from hoisting the wait */
        wait_o(o);
        release_v(c);
        skip_v(c, v.behind);
        finish_rows(c, o, &end);
        round_weights(p, s);
    }
}

#if FEATURES
typedef att_fwd_sm90_feature_params kernel_params;
#else
typedef att_fwd_sm90_params kernel_params;
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) KERNEL(const __grid_constant__ kernel_params params) {
    extern __shared__ char shared_memory[];
    const att_fwd_sm90_params *p = (const att_fwd_sm90_params *)&params;
    const unsigned shared = (shared_address(shared_memory) + 1023) & ~1023u;
    const int group = uniform((int)threadIdx.x / WARPGROUP);
    if (USE_EARLY_LAUNCH)
        allow_next_kernel();
    if (p->tiles == 0) { /* a launch only to reset the counter */
        wait_for_previous_kernel();
        if (threadIdx.x == 0)
            *p->next_tile = 0;
        return;
    }
    if (threadIdx.x == 0) {
        for (int n = 0; n < STAGES; n++) {
            mbarrier_init(barrier_of(shared, K_FULL + n), 1);
            mbarrier_init(barrier_of(shared, K_EMPTY + n), 4 * GROUPS);
        }
        for (int n = 0; n < V_STAGES; n++) {
            mbarrier_init(barrier_of(shared, V_FULL + n), 1);
            mbarrier_init(barrier_of(shared, V_EMPTY + n), 4 * GROUPS);
        }
        for (int n = 0; n < Q_STAGES * GROUPS; n++) {
            mbarrier_init(barrier_of(shared, Q_FULL + n), 1);
            mbarrier_init(barrier_of(shared, Q_EMPTY + n), OWN_O ? 4 : 1);
        }
        for (int n = 0; n < GROUPS; n++) {
            mbarrier_init(barrier_of(shared, O_FULL + n), 4);
            mbarrier_init(barrier_of(shared, O_EMPTY + n), 1);
        }
        mbarrier_init(barrier_of(shared, STORED), 1);
        for (int n = 0; n < RECORDS; n++) {
            mbarrier_init(barrier_of(shared, TILE_FULL + n), 1);
            mbarrier_init(barrier_of(shared, TILE_EMPTY + n), 4 * GROUPS + 2 + (HAS_BIAS ? GROUPS : 0) + (HAS_V_WARP && p->fwd.page_table));
        }
        for (int n = 0; n < (HAS_BIAS ? GROUPS * BIAS_STAGES : 0); n++) {
            mbarrier_init(barrier_of(shared, BIAS_FULL + n), 1);
            mbarrier_init(barrier_of(shared, BIAS_EMPTY + n), 4);
        }
        mbarrier_init_done();
    }
    __syncthreads();
    if (group == 0) {
        REGISTERS_KEEP(KEEP_REGISTERS);
        const int warp = uniform((int)threadIdx.x / 32);
        if (warp == 0 && p->fwd.page_table)
            produce(p, shared, true); /* no access to global memory before its first copy */
        else if (warp == 0)
            produce(p, shared, false);
        else if (warp == 1)
            send(p, shared);
        else if (warp == 2 && HAS_V_WARP && p->fwd.page_table)
            produce_values(p, shared);
        else if (HAS_BIAS && warp - 2 < GROUPS)
            bring_bias(p, shared, warp - 2);
    } else {
        REGISTERS_TAKE(TAKE_REGISTERS);
        const int thread = (int)threadIdx.x % WARPGROUP;
        consumer c = {p, shared, group - 1, uniform(thread / 32), thread % 32, 0, {0, 0}, {0, 0}, wgmma_address(shared), 0, {0, 0}};
        if (!SPLITS_KEYS && c.lane == 0)
            *redo_note(&c) = -1;
        consume(&c);
        if (!SPLITS_KEYS)
            redo_rows(&c);
    }
}
