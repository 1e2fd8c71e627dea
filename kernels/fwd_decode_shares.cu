/* fwd_decode_shares.cu: forward attention for a few query rows against many keys, for sequences
 * of unequal lengths (sm_90)
 * COMPUTES O = softmax(scale*QK^T + mask) V and LSE. The work on all tiles of rows, one tile
 *          after the other, is cut into equal shares, one per block. Tiles that lie in one share
 *          are written; parts of the others are stored for fwd_decode_join
 * TILE     TILE_N keys x TILE_M rows per warp
 * THREADS  32 * WARPS; every warp walks its own keys (fwd_decode_walk.cuh)
 * SMEM     per warp a ring of STAGES tiles, K and V alternating, which the merge of the warps
 *          reuses; then what the block has done of its share
 * FLOW     find the share: a warp adds up the work of all batch entries; first while the previous
 *          kernel ends, by the lengths so far, to prefetch keys into L2. Then tile after tile: walk
 *          the keys, merge the warps, write the rows or store the part. While a block changes
 *          tiles, the other block of its SM reads
 * NUMERICS as fwd_decode_sm90. The cuts depend on all lengths of the batch, and on nothing else:
 *          the same bits on every run
 * LIMITS   d_qk <= D_QK, d_v <= D_V, in multiples of 8, rows at multiples of 16 bytes; every
 *          feature; fewer than 2^31 units of work */
#include "kernels/fwd_decode_prefetch.cuh"
#include "kernels/fwd_shares_params.h"

/* Work is counted in steps of SLICE tiles of keys: a quarter of what the warps walk at once. */
enum { SLICE = WARPS / 4, STEPS_LEAST = 8 /* of a share, besides beginning a tile */ };

static_assert(WARPS % 4 == 0, "a slice has whole tiles of keys");

CHECK_SHARED(WARPS * RING_BYTES);

/* A batch entry. All its tiles of rows have the same number of steps, even if a mask hides some
 * of them from a tile. */
typedef struct entry {
    sequence s;
    int row_blocks; /* tiles of rows per K/V head */
    int first;      /* the first tile of keys that a row sees */
    int steps;      /* per tile of rows, at least 1: rows without keys are written too */
    int work;       /* per tile of rows: to begin it, then its steps */
} entry;

/* The sequence of a batch entry. `early` reads its length from L2 before the previous kernel has
 * ended, and leaves it in no cache that is read afterwards: a guess, which is prefetched in vain
 * if that kernel still changes it. */
DEVICE sequence length_of(const att_fwd_params *p, int batch, bool early) {
    if (!early)
        return sequence_of(p, batch);
    const int length = max(0, min(p->seq_k, __ldcg(p->lens_k + batch)));
    return {batch, p->seq_q, length, 0, 0, p->flags & ATT_FWD_BOTTOM_RIGHT ? length - p->seq_q : p->shift, 0};
}

DEVICE bool is_early_known(const att_fwd_params *p) {
    return p->lens_k && !p->starts_k && !p->cu_seqlens_q && !p->cu_seqlens_k && !p->q_offsets && !p->k_offsets &&
           (IS_PAGED || !p->page_table);
}

DEVICE entry entry_of(const att_fwd_shares_params *params, int batch, bool early) {
    const att_fwd_params *p = &params->fwd;
    entry e;
    e.s = length_of(p, batch, early);
    e.row_blocks = (e.s.len_q * p->group + TILE_M - 1) / TILE_M;
    e.first = visible_lo(p, &e.s, 0) / TILE_N;
    const int last = (max(visible_hi(p, &e.s, e.s.len_q - 1), 0) + TILE_N - 1) / TILE_N;
    e.steps = max((last - e.first + SLICE - 1) / SLICE, 1);
    e.work = params->opening + e.steps;
    return e;
}

/* The work of a batch entry. */
DEVICE int work_of_entry(const att_fwd_shares_params *params, const entry *e) {
    return params->fwd.heads_kv * e->row_blocks * e->work;
}

/* All work, cut into `count` shares: `each` + 1 for the first `longer`, `each` for the others. */
typedef struct cuts {
    int count, each, longer;
} cuts;

DEVICE cuts cuts_of(int work, int most, int least) {
    cuts c;
    c.count = min(most, max(work / least, 1));
    c.each = work / c.count;
    c.longer = work - c.each * c.count;
    return c;
}

DEVICE int share_start(const cuts *c, int share) {
    return share * c->each + min(share, c->longer);
}

/* The share of a unit of work. */
DEVICE int share_of(const cuts *c, int unit) {
    const int longer = c->longer * (c->each + 1);
    return unit < longer ? unit / (c->each + 1) : c->longer + (unit - longer) / c->each;
}

/* A unit of work among those of its batch entry. */
typedef struct place {
    int batch, unit;
} place;

/* The place at which this block's share begins, and the cuts. Each lane of the warp adds up its
 * own entries, which follow one another. */
DEVICE place find_share(const att_fwd_shares_params *params, cuts *c, bool early) {
    const int lane = threadIdx.x % 32, batches = params->fwd.batch, each = (batches + 31) / 32;
    const int begin = min(lane * each, batches), end = min(begin + each, batches);
    int own = 0;
#pragma unroll 1
    for (int batch = begin; batch < end; batch++) {
        const entry e = entry_of(params, batch, early);
        own += work_of_entry(params, &e);
    }
    int until = own; /* the end of this lane's work */
#pragma unroll
    for (int far = 1; far < 32; far *= 2) {
        const int below = __shfl_up_sync(0xffffffffu, until, far);
        until += lane >= far ? below : 0;
    }
    *c = cuts_of(__shfl_sync(0xffffffffu, until, 31), params->shares, params->opening + STEPS_LEAST);
    const int start = share_start(c, blockIdx.x);
    place at = {begin, start - (until - own)};
    const bool here = at.unit >= 0 && start < until;
    if (here) {
#pragma unroll 1
        while (at.batch + 1 < end) {
            const entry e = entry_of(params, at.batch, early);
            if (at.unit < work_of_entry(params, &e))
                break;
            at.unit -= work_of_entry(params, &e);
            at.batch++;
        }
    }
    const int lane_of = max(__ffs(__ballot_sync(0xffffffffu, here)) - 1, 0);
    at.batch = __shfl_sync(0xffffffffu, at.batch, lane_of);
    at.unit = __shfl_sync(0xffffffffu, at.unit, lane_of);
    return at;
}

/* Steps [step, step + steps) over the keys of tile `tile` of the entry. */
DEVICE block_work work_of_steps(const att_fwd_params *p, const entry *e, int tile, int step, int steps) {
    const int head_kv = tile / e->row_blocks;
    block_work w = work_on_tile(p, &e->s, head_kv, (tile - head_kv * e->row_blocks) * TILE_M);
    w.first = max(e->first + step * SLICE, w.first);
    w.last = min(e->first + (step + steps) * SLICE, w.last);
    return w;
}

/* The index of a row of this share's part of a tile; `end`: of a tile that the share opens. */
DEVICE long long share_index(int end, int row) {
    return (2ll * blockIdx.x + end) * TILE_M + row;
}

/* What a block keeps in shared memory between tiles: registers are short while it walks keys. */
typedef struct progress {
    cuts c;
    place at;     /* of the next unit of work */
    int now, end; /* it and the end of the share, among all units */
    int whole;    /* does the share have all steps of the tile being walked? */
    int opens;    /* otherwise, does it have the first? */
} progress;

/* The next steps of the share that belong to one tile; without rows if it has none of that tile,
 * only of the work to begin it. Unless it is `early`, every thread calls this, and thread 0 notes
 * what they are. */
DEVICE block_work next_work(const att_fwd_shares_params *params, progress *state, bool early) {
    place at = state->at;
    entry e = entry_of(params, at.batch, early);
#pragma unroll 1
    while (at.unit >= work_of_entry(params, &e) && at.batch + 1 < params->fwd.batch) {
        at = {at.batch + 1, 0};
        e = entry_of(params, at.batch, early);
    }
    const int tile = at.unit / e.work, unit = at.unit - tile * e.work, now = state->now;
    const int units = min(e.work - unit, state->end - now);
    const int step = max(unit - params->opening, 0), steps = unit + units - params->opening - step;
    block_work w = work_of_steps(&params->fwd, &e, tile, step, steps);
    if (steps <= 0)
        w.rows = 0;
    if (early)
        return w;
    __syncthreads(); /* all have read the state */
    if (threadIdx.x == 0) {
        state->at = {at.batch, at.unit + units};
        state->now = now + units;
        state->whole = steps == e.steps;
        state->opens = step == 0;
        if (step == 0 && steps > 0 && steps < e.steps) {
            const int parts = share_of(&state->c, now - unit + e.work - 1) - (int)blockIdx.x + 1;
            params->opened[blockIdx.x] = {at.batch, w.head_kv, w.row0, parts};
        }
    }
    return w;
}

/* Prefetch the keys with which the share begins. */
DEVICE void prefetch_share(const att_fwd_shares_params *params, progress *state) {
    if (state->now >= state->end)
        return;
    const block_work w = next_work(params, state, true);
    const feed f = feed_of(&params->fwd, &w);
    if (w.rows > 0)
        prefetch_first(&params->fwd, &w, &f, params->prefetch);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
    KERNEL(const __grid_constant__ att_fwd_shares_params params) {
    extern __shared__ __align__(128) char shared[];
    __shared__ progress state;
    const att_fwd_params *p = &params.fwd;
    /* The previous kernel may be writing the lengths. The share is first found by the lengths as
     * they are so far, to prefetch its first keys, and then, when that kernel has ended, again. */
#pragma unroll 1
    for (bool early = true;; early = false) {
        if (!early)
            wait_for_previous_kernel();
        if (early && !is_early_known(p))
            continue;
        if (threadIdx.x < 32) {
            cuts c;
            const place at = find_share(&params, &c, early);
            if (threadIdx.x == 0) {
                const int share = blockIdx.x, now = share_start(&c, share);
                state = {c, at, now, share < c.count ? share_start(&c, share + 1) : now, 0, 0};
            }
        }
        __syncthreads();
        if (!early)
            break;
        prefetch_share(&params, &state);
        __syncthreads(); /* all have read the state */
    }
    allow_next_kernel(); /* fwd_decode_join, which waits for this one */
    if (threadIdx.x == 0)
        params.opened[blockIdx.x] = {0, 0, 0, 0};
#pragma unroll 1
    while (state.now < state.end) {
        /* Waits for all threads: the rings are free again. */
        const block_work w = next_work(&params, &state, false);
        if (w.rows > 0) {
            warp_rows m;
            walk_keys(p, &w, feed_of(p, &w), shared, &m);
            publish((float *)shared, w.rows, &m);
        }
        __syncthreads();
        for (int r = threadIdx.x / 32; r < w.rows; r += WARPS) {
            const tile_row row = row_of(p, &w, r);
            const merged_row all = merge_warps((const float *)shared, r);
            if (state.whole)
                finish_row(p, &w.s, row.head, row.position, &all, p->d_v);
            else
                store_part(p, share_index(state.opens, r), &all);
        }
    }
}
