/* gradient_walk_body.h: the walker of the gradient kernels: a chunk of keys against the blocks
 * of rows that see it.
 *
 *   pack K and V of the chunk
 *   for each block of rows that sees a key of it, from the first on
 *       pack Q and d_o of the block
 *       for each strip of rows, over only the keys that the strip sees
 *           S = Q K^T, d_p = d_o V^T -> weights, derivatives
 *       d_v += P^T d_o, d_k += d_s^T Q
 *       in turn: d_q += d_s K; the last chunk that the block sees writes d_q
 *   write d_k and d_v
 *
 * A gradient that is not finite although its row and keys have finite inputs is recomputed in
 * float64 (exact.h). */
#ifndef ATT_BACKWARD_CPU_GRADIENT_WALK_BODY_H
#define ATT_BACKWARD_CPU_GRADIENT_WALK_BODY_H

#include "backward/backward.h"
#include "backward/cpu/bias_pieces.h"
#include "backward/cpu/gradient_prepare_body.h"
#include "backward/cpu/turns.h"

static size_t tile_map(gradient_tile *t, double **bias_sums, const att_problem *p, char *base) {
    const bool biased = p->gradients & ATT_D_BIAS;
    const size_t cells = biased ? (size_t)BLOCK_ROWS * CHUNK_KEYS : 0;
    size_t used = 0;
    operands_map(t, p, base, &used);
    t->addresses =
        take(base, &used, sizeof *t->addresses * (size_t)att_max(BLOCK_ROWS, CHUNK_KEYS));
    t->scaled =
        take(base, &used,
             PRODUCTS_FLUSH ? (size_t)(BLOCK_ROWS * p->d_v * att_dtype_bytes(p->dtype_o)) : 0);
    t->slopes = take(base, &used, sizeof *t->slopes * BLOCK_ROWS);
    t->d_s = take(base, &used, sizeof *t->d_s * cells);
    *bias_sums = take(base, &used, sizeof **bias_sums * cells);
    return used;
}

static size_t tile_scratch(const att_problem *p) {
    gradient_tile t;
    double *bias_sums;
    return tile_map(&t, &bias_sums, p, NULL);
}

/* Find the keys of the chunk that the strips of the block see. Returns false if there are
 * none. */
static bool find_keys(gradient_tile *t) {
    t->block_keys = (att_cpu_interval){CHUNK_KEYS, 0};
    for (int64_t row = 0; row < t->rows; row += STRIP_ROWS) {
        att_cpu_interval keys = {CHUNK_KEYS, 0};
        for (int64_t r = row; r < att_min(row + STRIP_ROWS, t->rows); r++) {
            const att_row_fact *fact = &t->facts[tile_row(t, r)];
            const int64_t lo = att_max(fact->lo - t->j0, 0),
                          hi = att_min(fact->hi - t->j0, t->keys);
            if (hi > lo) {
                keys.lo = att_min(keys.lo, lo);
                keys.hi = att_max(keys.hi, hi);
            }
        }
        if (keys.hi > keys.lo) {
            keys.lo = keys.lo / KEY_STEP * KEY_STEP;
            keys.hi = att_round_up(keys.hi, KEY_STEP);
            t->block_keys.lo = att_min(t->block_keys.lo, keys.lo);
            t->block_keys.hi = att_max(t->block_keys.hi, keys.hi);
        } else {
            keys = (att_cpu_interval){0, 0};
        }
        t->strip_keys[row / STRIP_ROWS] = keys;
    }
    t->touched_keys.lo = t->block_keys.lo / KEY_GROUP * KEY_GROUP / VF_W * VF_W;
    t->touched_keys.hi = att_round_up(att_round_up(t->block_keys.hi, KEY_GROUP), VF_W);
    return t->block_keys.hi > t->block_keys.lo;
}

/* Weights and derivatives of a strip; zeros for keys that only other strips of the block
 * see. */
static void weigh_strip(const gradient_tile *t, int64_t row) {
    const att_cpu_interval keys = t->strip_keys[row / STRIP_ROWS], all = t->touched_keys;
    if (keys.hi > keys.lo)
        strip_products(t, row, keys);
    for (int64_t r = row; r < row + STRIP_ROWS; r += WEIGH_ROWS) {
        if (r >= t->rows || keys.hi <= keys.lo) {
            for (int64_t i = r; i < att_min(r + WEIGH_ROWS, t->rows); i++)
                t->slopes[i] = 0.0;
            clear_rows(t, r, all);
            continue;
        }
        weigh_rows(t, r, keys);
        clear_rows(t, r, (att_cpu_interval){all.lo, keys.lo});
        clear_rows(t, r, (att_cpu_interval){keys.hi, all.hi});
    }
}

static void weigh_block(const gradient_tile *t) {
    for (int64_t row = 0; row < t->rows; row += STRIP_ROWS)
        weigh_strip(t, row);
}

/* Multiply a row of sums by `factor`, round and store it. Returns false if a sum is not
 * finite. */
static bool store_sums(const gradient_tile *t, const float *sums, int64_t n, float factor,
                       void *base, int64_t at) {
    const att_dtype dtype = t->job->base.p->dtype_grad;
    const vf unscale = vf_set1(1.0f / t->job->d_o_scale);
    const int64_t bytes = att_dtype_bytes(dtype);
    char *to = (char *)base + at * bytes;
    vf probe = vf_set1(0.0f);
    for (int64_t x = 0; x < n; x += VF_W) {
        vf value = vf_mul(vf_mul(vf_load(sums + x), vf_set1(factor)), unscale);
        if (x + VF_W > n)
            value = vf_between(value, 0, n - x, 0.0f);
        probe = vf_muladd(value, vf_set1(0.0f), probe);
        vf_store_as(to + x * bytes, dtype, value, n - x);
    }
    return isfinite(vf_reduce_add(probe));
}

static void store_row(const gradient_tile *t, int64_t r, const float *sums) {
    const att_problem *p = t->job->base.p;
    const att_cpu_query q = att_cpu_query_of(&t->job->base, &t->s, tile_row(t, r));
    const bool finite = store_sums(t, sums, p->d_qk, p->scale, t->job->base.a->d_q,
                                   att_query_offset(p, &p->grad_q, &t->s, q.head, q.position));
    if (!finite && att_row_is_sound(&t->facts[tile_row(t, r)]))
        att_exact_store_d_q(t->job, &t->s, tile_row(t, r));
}

/* Does every row that sees key j have finite inputs? */
static bool key_is_sound(const gradient_tile *t, int64_t j) {
    bool sound = true;
    for (int64_t r = 0; r < t->s.len_q * t->job->cut->tiling.group; r++)
        sound = sound &&
                (j < t->facts[r].lo || j >= t->facts[r].hi || att_row_is_sound(&t->facts[r]));
    return sound;
}

static void store_keys(const gradient_tile *t) {
    const att_problem *p = t->job->base.p;
    const att_args *a = t->job->base.a;
    settle_key_sums(t);
    const int64_t stride_k = sum_width(p->d_qk), stride_v = sum_width(p->d_v);
    for (int64_t x = 0; x < t->keys; x++) {
        const int64_t j = t->j0 + x;
        const bool finite_k = store_sums(t, t->d_k + x * stride_k, p->d_qk, p->scale, a->d_k,
                                         att_key_offset(p, &p->grad_k, &t->s, j));
        const bool finite_v = store_sums(t, t->d_v + x * stride_v, p->d_v, 1.0f, a->d_v,
                                         att_key_offset(p, &p->grad_v, &t->s, j));
        if (!(finite_k && finite_v) && key_is_sound(t, j))
            att_exact_store_d_kv(t->job, &t->s, j);
    }
}

/* Store keys lo .. hi-1, which no row sees. */
static void store_unseen_keys(const gradient_tile *t, int64_t lo, int64_t hi) {
    const att_problem *p = t->job->base.p;
    const att_args *a = t->job->base.a;
    for (int64_t j = lo; j < hi; j++) {
        store_zeros(a->d_k, p->dtype_grad, att_key_offset(p, &p->grad_k, &t->s, j), p->d_qk);
        store_zeros(a->d_v, p->dtype_grad, att_key_offset(p, &p->grad_v, &t->s, j), p->d_v);
    }
}

/* Prefetch sums, which the hardware does not predict. */
static void fetch_sums(const float *sums, int64_t count) {
    enum { LINE = 64 / sizeof(float) };
    for (int64_t x = 0; x < count; x += LINE)
        __builtin_prefetch(sums + x, 1, 3);
}

/* Add a chunk's part to the sums of a block, in turn. */
static void add_to_rows(const gradient_tile *t, att_block_fact *fact, int64_t chunk) {
    const att_gradient_job *job = t->job;
    const int64_t chunk_keys = job->cut->chunk_keys;
    const bool first = fact->keys.lo / chunk_keys == chunk;
    const bool last = (fact->keys.hi - 1) / chunk_keys == chunk;
    const int64_t at = att_gradient_first_row(job, &t->s) + t->row0;
    const int64_t stride = job->cut->sum_stride;
    float *sums = job->sums + at * stride;
    att_turn_await(fact, chunk);
    for (int64_t row = 0; row < t->rows; row += STRIP_ROWS) {
        const att_cpu_interval keys = t->strip_keys[row / STRIP_ROWS];
        if (!first && row + STRIP_ROWS < t->rows)
            fetch_sums(sums + (row + STRIP_ROWS) * stride, STRIP_ROWS * stride);
        if (keys.hi > keys.lo)
            add_row_sums(t, row, keys, first, sums + row * stride);
        else if (first)
            memset(sums + row * stride, 0, sizeof *sums * (size_t)(STRIP_ROWS * stride));
    }
    for (int64_t r = 0; job->base.p->gradients & ATT_D_ALIBI && r < t->rows; r++)
        job->slopes[at + r] = first ? t->slopes[r] : job->slopes[at + r] + t->slopes[r];
    for (int64_t r = 0; last && r < t->rows; r++)
        store_row(t, r, sums + r * stride);
    att_turn_pass(fact, chunk);
}

/* If a block sees keys before and after the chunk but none of it, its turn is passed on. */
static void walk_block(gradient_tile *t, att_block_fact *fact, int64_t block, int64_t chunk) {
    const int64_t packed = t->s.len_q * t->job->cut->tiling.group;
    t->row0 = block * BLOCK_ROWS;
    t->row_step = 1;
    t->rows = att_min(BLOCK_ROWS, packed - t->row0);
    if (find_keys(t)) {
        pack_rows(t);
        weigh_block(t);
        add_key_sums(t);
    } else {
        for (int64_t r = 0; r < t->rows; r++)
            t->slopes[r] = 0.0;
    }
    add_to_rows(t, fact, chunk);
}

static gradient_tile tile_of(const att_gradient_job *job, const att_cpu_sequence *s) {
    return (gradient_tile){.job = job,
                           .s = *s,
                           .facts = job->facts + att_gradient_first_row(job, s),
                           .shaped = scores_are_shaped(job->base.p)};
}

static void chunk_run(const att_gradient_job *job, int64_t index, void *scratch) {
    const att_gradient_cut *c = job->cut;
    if (c->pairs == 0 || c->chunks == 0)
        return;
    const int64_t chunk = index / c->pairs;
    const att_cpu_sequence s = att_gradient_pair(job, index % c->pairs);
    const att_cpu_interval room = att_key_room(job->base.p, job->base.a, &s);
    double *bias_sums;
    gradient_tile t = tile_of(job, &s);
    tile_map(&t, &bias_sums, job->base.p, scratch);
    t.j0 = chunk * c->chunk_keys;
    t.keys = att_min(c->chunk_keys, s.len_k - t.j0);
    if (chunk == 0)
        store_unseen_keys(&t, room.lo, 0);
    store_unseen_keys(&t, att_max(t.j0, s.len_k), att_min(t.j0 + c->chunk_keys, room.hi));
    if (t.keys <= 0)
        return;
    att_block_fact *facts = job->block_facts + att_gradient_first_block(job, &s);
    const int64_t blocks = att_ceil_div(s.len_q * c->tiling.group, BLOCK_ROWS);
    bool packed = false;
    clear_key_sums(&t);
    for (int64_t block = 0; block < blocks; block++) {
        const att_cpu_interval keys = facts[block].keys;
        if (keys.hi <= keys.lo || keys.lo >= t.j0 + t.keys || keys.hi <= t.j0)
            continue;
        if (!packed)
            pack_keys(&t);
        packed = true;
        walk_block(&t, &facts[block], block, chunk);
    }
    store_keys(&t);
}

/* Add d_s of row r of the block, for the keys that it sees, to `sums`: one per key, or all to
 * the first. */
static void add_bias_row(const gradient_tile *t, int64_t r, double *sums, bool one) {
    const att_row_fact *fact = &t->facts[tile_row(t, r)];
    const int64_t lo = att_max(fact->lo - t->j0, 0), hi = att_min(fact->hi - t->j0, t->keys);
    const float *d_s = t->d_s + r * CHUNK_KEYS;
    float probe = 0.0f;
    for (int64_t x = lo; x < hi; x++)
        probe += d_s[x] * 0.0f;
    if (isfinite(probe) || !att_row_is_sound(fact)) {
        for (int64_t x = lo; x < hi; x++)
            sums[one ? 0 : x] += (double)d_s[x] / (double)t->job->d_o_scale;
        return;
    }
    att_exact_row row;
    att_exact_row_load(&row, t->job, &t->s, tile_row(t, r), fact);
    for (int64_t x = lo; x < hi; x++)
        sums[one ? 0 : x] += att_exact_pair_of(&row, t->j0 + x).d_s;
}

/* One head's part of a piece of d_bias. */
static void add_bias_head(const att_gradient_job *job, const att_bias_piece *piece,
                          int64_t batch, int64_t head, void *scratch) {
    const att_problem *p = job->base.p;
    const int64_t group = job->cut->tiling.group;
    const att_cpu_sequence s = att_cpu_sequence_of(p, job->base.a, batch, head / group);
    double *sums;
    gradient_tile t = tile_of(job, &s);
    tile_map(&t, &sums, p, scratch);
    t.scores_only = true;
    for (int64_t key = piece->keys.lo; key < piece->keys.hi; key += CHUNK_KEYS) {
        t.j0 = att_max(key - s.first_k, 0);
        t.keys = att_min(att_min(key + CHUNK_KEYS, piece->keys.hi) - s.first_k, s.len_k) - t.j0;
        if (t.keys <= 0)
            continue;
        pack_keys(&t);
        const int64_t shift = p->grad_bias.col == 0 ? 0 : t.j0 + s.first_k - key;
        for (int64_t i = piece->rows.lo; i < piece->rows.hi; i += BLOCK_ROWS) {
            t.row0 = i * group + head % group;
            t.row_step = group;
            t.rows = att_min(BLOCK_ROWS, att_min(piece->rows.hi, s.len_q) - i);
            if (t.rows <= 0 || !find_keys(&t))
                continue;
            pack_rows(&t);
            weigh_block(&t);
            for (int64_t r = 0; r < t.rows; r++)
                add_bias_row(&t, r, sums + (p->grad_bias.row == 0 ? 0 : r) * CHUNK_KEYS + shift,
                             p->grad_bias.col == 0);
        }
    }
}

static void bias_run(const att_gradient_job *job, int64_t index, void *scratch) {
    const att_problem *p = job->base.p;
    const att_strides *st = &p->grad_bias;
    const att_bias_piece piece = att_bias_piece_of(p, job->cut, index);
    double *sums;
    gradient_tile t;
    tile_map(&t, &sums, p, scratch);
    memset(sums, 0, sizeof *sums * BLOCK_ROWS * CHUNK_KEYS);
    for (int64_t b = piece.batch.lo; b < piece.batch.hi; b++)
        for (int64_t h = piece.heads.lo; h < piece.heads.hi; h++)
            add_bias_head(job, &piece, b, h, scratch);
    const int64_t rows = st->row == 0 ? 1 : piece.rows.hi - piece.rows.lo;
    const int64_t keys = st->col == 0 ? 1 : piece.keys.hi - piece.keys.lo;
    const int64_t at = piece.batch.lo * st->batch + piece.heads.lo * st->head +
                       piece.rows.lo * st->row + piece.keys.lo * st->col;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t x = 0; x < keys; x++)
            att_store(job->base.a->d_bias, att_backward_bias_dtype(p),
                      at + r * st->row + x * st->col, (float)sums[r * CHUNK_KEYS + x]);
}

#endif
