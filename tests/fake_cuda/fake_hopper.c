/* fake_hopper.c: attention divided like fwd_sm90, one row at a time. */
#include "tests/fake_cuda/fake_hopper.h"

#include <math.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "tests/fake_cuda/fake_kernel.h"
#include "tests/fake_cuda/fake_tensor_map.h"

enum { WARPGROUP_ROWS = 64, WARP_ROWS = 16 };

/* A tile: the unit that it belongs to, and the unit's place. */
typedef struct tile {
    int batch, head, first; /* head: of K/V if heads are packed; first row of the unit */
    int len_q, len_k, start_k, shift;
    long long row_q, row_k; /* start of the sequence in packed tensors */
} tile;

typedef struct maps {
    const fake_tensor_map *q, *k, *v, *o;
} maps;

static float value_at(const att_fwd_sm90_params *p, const fake_tensor_map *map,
                      const long long *at) {
    const uint16_t *bits = fake_map_at(map, at);
    if (!bits)
        return 0.0f;
    return p->fwd.dtype == ATT_FWD_BF16 ? att_bf16_to_f32(*bits) : att_f16_to_f32(*bits);
}

static tile tile_of(const att_fwd_sm90_params *p, int index, int tile_m) {
    const att_fwd_params *f = &p->fwd;
    const int unit = index / f->row_blocks, heads = (int)p->by_heads.value;
    tile t = {.batch = unit / heads,
              .head = unit % heads,
              .first = index % f->row_blocks * tile_m,
              .len_q = f->seq_q,
              .len_k = f->seq_k};
    if (f->cu_seqlens_q) {
        t.row_q = f->cu_seqlens_q[t.batch];
        t.len_q = f->cu_seqlens_q[t.batch + 1] - (int)t.row_q;
    }
    if (f->cu_seqlens_k) {
        t.len_k = f->cu_seqlens_k[t.batch + 1] - f->cu_seqlens_k[t.batch];
        t.row_k = f->page_table ? 0 : f->cu_seqlens_k[t.batch];
    }
    if (f->lens_k && f->lens_k[t.batch] < t.len_k)
        t.len_k = f->lens_k[t.batch];
    t.shift = f->flags & ATT_FWD_BOTTOM_RIGHT ? t.len_k - t.len_q : fake_shift(f, t.batch);
    t.start_k = f->starts_k ? f->starts_k[t.batch] : 0;
    return t;
}

/* Coordinates of row r of the tile's unit. */
static void row_at(const att_fwd_sm90_params *p, const tile *t, int r, long long at[5]) {
    at[1] = r & ((1 << p->pack) - 1);
    at[2] = t->row_q + (r >> p->pack);
    at[3] = t->head;
    at[4] = p->fwd.cu_seqlens_q ? 0 : t->batch;
}

/* Coordinates of key j: copies begin at multiples of copy_rows. */
static void key_at(const att_fwd_sm90_params *p, const tile *t, int j, long long at[4]) {
    const att_fwd_params *f = &p->fwd;
    const int kv = p->pack ? t->head : t->head / f->group;
    const bool paged = f->page_table;
    at[2] = kv;
    at[1] = paged ? j % f->page_size : t->row_k + j;
    at[3] = paged ? f->page_table[t->batch * f->page_table_stride + j / f->page_size]
            : f->cu_seqlens_k ? 0
                              : t->batch;
}

/* K and V of a unit, and room for the scores of a row. */
typedef struct key_rows {
    float *k, *v, *q;
    double *s;
} key_rows;

static void load_keys(const att_fwd_sm90_params *p, const maps *m, const tile *t,
                      key_rows *keys) {
    const att_fwd_params *f = &p->fwd;
    long long at[4];
    for (int j = 0; j < t->len_k; j++) {
        key_at(p, t, j, at);
        for (at[0] = 0; at[0] < f->d_qk; at[0]++)
            keys->k[j * f->d_qk + at[0]] = value_at(p, m->k, at);
        for (at[0] = 0; at[0] < f->d_v; at[0]++)
            keys->v[j * f->d_v + at[0]] = value_at(p, m->v, at);
    }
}

static void compute_row(const att_fwd_sm90_params *p, const maps *m, const tile *t, int r,
                        const key_rows *keys, bool wrong) {
    const att_fwd_params *f = &p->fwd;
    const int i = r >> p->pack, diagonal = i + t->shift;
    const int window =
        f->window_left >= 0 && diagonal > f->window_left ? diagonal - f->window_left : 0;
    const int lo = window > t->start_k ? window : t->start_k;
    int hi = t->len_k;
    if (f->window_right >= 0 && diagonal + f->window_right + 1 < hi)
        hi = diagonal + f->window_right + 1;
    long long row[5];
    double top = -INFINITY, sum = 0.0, *s = keys->s;
    row_at(p, t, r, row);
    const int head = p->pack ? t->head << p->pack | (int)row[1] : t->head;
    for (row[0] = 0; row[0] < f->d_qk; row[0]++)
        keys->q[row[0]] = value_at(p, m->q, row);
    for (int j = lo; j < hi; j++) {
        float product = 0.0f;
        for (int c = 0; c < f->d_qk; c++)
            product += keys->q[c] * keys->k[j * f->d_qk + c];
        s[j] = (double)product * (double)f->scale;
        top = s[j] > top ? s[j] : top;
    }
    for (int j = lo; j < hi; j++)
        sum += s[j] = exp(s[j] - top);
    for (row[0] = 0; row[0] < f->d_v; row[0]++) {
        double x = 0.0;
        for (int j = lo; j < hi; j++)
            x += s[j] * (double)keys->v[j * f->d_v + row[0]];
        const float y = wrong || sum == 0.0 ? 0.0f : (float)(x / sum);
        uint16_t *out = f->partial_o ? NULL : fake_map_at(m->o, row);
        if (out)
            *out = f->dtype == ATT_FWD_BF16 ? att_f32_to_bf16(y) : att_f32_to_f16(y);
        if (f->partial_o) /* what the kernel that merges the parts writes */
            att_store(f->o, (att_dtype)f->dtype_o,
                      row[4] * f->o_stride.batch + head * f->o_stride.head +
                          row[2] * f->o_stride.row + row[0],
                      y);
    }
    if (f->lse)
        f->lse[(f->cu_seqlens_q ? 0 : t->batch * f->lse_stride.batch) +
               head * f->lse_stride.head + row[2] * f->lse_stride.row] =
            (float)(top + log(sum));
}

/* Check the guarantees that the kernel relies on. */
static bool holds(const att_fwd_sm90_params *p, const maps *m, int tile_m, int tile_n) {
    const att_fwd_params *f = &p->fwd;
    const int group = 1 << p->pack, heads = (int)p->by_heads.value;
    const int rows = f->seq_q << p->pack;
    const bool stores =
        f->partial_o ||
        (m->o && m->o->address == (char *)f->o && m->o->rank == 5 && m->o->box[0] == 64 &&
         m->o->box[1] == group && m->o->box[1] * m->o->box[2] == WARPGROUP_ROWS);
    return stores && m->q && m->k && m->v && m->q->address == (const char *)f->q &&
           (!f->k || m->k->address == (const char *)f->k) &&
           (!f->v || m->v->address == (const char *)f->v) && m->q->rank == 5 &&
           m->k->rank == 4 && m->v->rank == 4 && m->q->box[0] == 64 && m->q->box[1] == group &&
           m->q->box[1] * m->q->box[2] == WARPGROUP_ROWS && m->k->box[0] == 64 &&
           m->k->box[1] == p->copy_rows && tile_n % p->copy_rows == 0 &&
           (!f->page_table || f->page_size % p->copy_rows == 0) &&
           heads == (p->pack ? f->heads_kv : f->heads_q) && p->units == f->batch * heads &&
           f->row_blocks == (rows + tile_m - 1) / tile_m && f->splits >= 1 &&
           f->by_splits.value == (unsigned)f->splits &&
           p->tiles == p->units * f->row_blocks * f->splits && p->section >= 1 &&
           p->section <= p->units && p->last_blocks >= 0 && p->last_blocks < f->row_blocks &&
           (f->splits == 1 || f->partial_o) && !f->partial_o != !p->redo &&
           (!p->next_tile || *p->next_tile == 0);
}

/* The kernel must fill the parts of rows, and their tops and sums. */
static void fill_parts(const att_fwd_params *f) {
    const size_t rows =
        (size_t)f->splits * (size_t)f->batch * (size_t)f->heads_q * (size_t)f->seq_q;
    for (size_t i = 0; i < rows * (size_t)f->d_v; i++)
        f->partial_o[i] = NAN;
    for (size_t i = 0; i < 2 * rows; i++)
        f->partial_sums[i] = NAN;
}

bool fake_hopper_attention(const att_fwd_sm90_params *p, int tile_m, int tile_n, bool wrong) {
    const maps m = {fake_map_of(&p->q), fake_map_of(&p->k), fake_map_of(&p->v),
                    fake_map_of(&p->o)};
    if (p->tiles == 0 && p->next_tile) { /* before the launch that counts */
        *p->next_tile = 0;
        return true;
    }
    if (!holds(p, &m, tile_m, tile_n))
        return false;
    if (p->next_tile)
        *p->next_tile = (unsigned)p->tiles;
    /* The kernel must fill the list of tiles to redo. */
    for (int i = 0; p->redo && i < p->tiles * (tile_m / WARP_ROWS); i++)
        p->redo[i] = (att_fwd_redo){.next = -1};
    const att_fwd_params *f = &p->fwd;
    if (f->partial_o)
        fill_parts(f);
    const size_t most = (size_t)f->seq_k + 1;
    key_rows keys = {.k = malloc(most * (size_t)f->d_qk * sizeof(float)),
                     .v = malloc(most * (size_t)f->d_v * sizeof(float)),
                     .q = malloc((size_t)f->d_qk * sizeof(float)),
                     .s = malloc(most * sizeof(double))};
    const bool room = keys.k && keys.v && keys.q && keys.s;
    for (int index = 0; room && index < p->tiles / f->splits; index++) {
        const tile t = tile_of(p, index, tile_m);
        const int end = t.len_q << p->pack;
        if (t.first == 0)
            load_keys(p, &m, &t, &keys);
        for (int r = t.first; r < end && r < t.first + tile_m; r++)
            compute_row(p, &m, &t, r, &keys, wrong);
    }
    free(keys.k);
    free(keys.v);
    free(keys.q);
    free(keys.s);
    return room;
}
