/* amx_pack_body.h: packs Q, K and V into the tiles that AMX multiplies.
 *
 * Operands are stored as whole tiles of 1 KiB, the parts of one piece side by side:
 *   Q  [16 rows][32 d]    P  [16 rows][32 keys]        rows unchanged
 *   K  [32 d][16 keys]    V  [32 keys][16 columns]     pairs of d or of keys, interleaved */
#ifndef ATT_CPU_AMX_PACK_BODY_H
#define ATT_CPU_AMX_PACK_BODY_H

#include "cpu/amx_tiles.h"
#include "attention/cpu/tile.h"

enum { TILE_STRIP = 32, TILE_ROWS = 1024, TILE_KEYS = 256, TILE_STEP = 32, TILE_PACK = 32 };
enum { DEPTH = 32, SIDE = 16 }; /* of a tile: the summed dimension, and rows or columns */

/* The number of bfloat16 parts per element: see amx_product_body.h. */
static inline int parts_of(att_dtype dtype) {
    return dtype == ATT_BF16 ? 1 : dtype == ATT_F16 ? 2 : 3;
}

static inline int64_t depth_tiles(int64_t d) {
    return att_ceil_div(d, DEPTH);
}

static size_t tile_q_bytes(const att_problem *p, int64_t rows) {
    return (size_t)(rows / SIDE * depth_tiles(p->d_qk) * parts_of(p->dtype)) * AMX_TILE_BYTES;
}
static size_t tile_k_bytes(const att_problem *p) {
    return tile_q_bytes(p, TILE_KEYS);
}
static int64_t tile_o_stride(const att_problem *p) {
    return att_round_up(p->d_v, 2 * SIDE);
}
static size_t tile_sums_bytes(const att_problem *p) {
    return sizeof(float) * TILE_STRIP * (size_t)tile_o_stride(p);
}
static size_t tile_v_bytes(const att_problem *p) {
    return (size_t)(tile_o_stride(p) / SIDE * (TILE_KEYS / DEPTH) * parts_of(p->dtype)) *
           AMX_TILE_BYTES;
}
static size_t tile_p_bytes(const att_problem *p) {
    return (size_t)(TILE_STRIP / SIDE * (TILE_KEYS / DEPTH) * parts_of(p->dtype)) *
           AMX_TILE_BYTES;
}

/* The upper halves of 32 floats: exact if the lower ones are zero. */
VF_INLINE __m512i upper_halves(vf low, vf high) {
    const __m512i odd_words =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29,
                         27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(_mm512_castps_si512(low), odd_words,
                                     _mm512_castps_si512(high));
}

/* The nearest bfloat16, as a float. */
VF_INLINE vf nearest(vf x) {
    const __m512i up = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
    return _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32((int)0xffff0000u)));
}

/* Split 32 floats into `parts` vectors of 32 bfloat16, each the nearest to the remainder. */
VF_INLINE void cut(vf low, vf high, const int parts, __m512i out[3]) {
    for (int i = 0; i < parts; i++) {
        const vf near_low = nearest(low), near_high = nearest(high);
        out[i] = upper_halves(near_low, near_high);
        low = vf_sub(low, near_low);
        high = vf_sub(high, near_high);
    }
}

/* Load n elements (at most 32) of a row, split into parts and zero-padded. */
VF_INLINE void load_parts(const char *row, int64_t x, int64_t n, const att_dtype dtype,
                          __m512i out[3]) {
    if (n <= 0) {
        for (int i = 0; i < parts_of(dtype); i++)
            out[i] = _mm512_setzero_si512();
        return;
    }
    const char *from = row + x * att_dtype_bytes(dtype);
    if (dtype == ATT_BF16) {
        const __mmask32 keep =
            n >= DEPTH ? (__mmask32)0xffffffffu : (__mmask32)((1u << n) - 1u);
        out[0] = _mm512_maskz_loadu_epi16(keep, from);
        return;
    }
    const vf low = vf_load_as(from, dtype, n);
    const vf high = n > VF_W ? vf_load_as(from + VF_W * att_dtype_bytes(dtype), dtype, n - VF_W)
                             : vf_set1(0.0f);
    cut(low, high, parts_of(dtype), out);
}

VF_INLINE void pack_q_as(const tile *t, const att_dtype dtype) {
    const int64_t d = t->job->p->d_qk, tiles = depth_tiles(d) * parts_of(dtype);
    for (int64_t r = 0; r < t->padded_rows; r++) {
        const char *row = r < t->task.rows ? tile_q_row(t, r) : NULL;
        char *to = t->q + r / SIDE * tiles * AMX_TILE_BYTES + r % SIDE * AMX_ROW_BYTES;
        for (int64_t x = 0; x < d; x += DEPTH) {
            __m512i part[3];
            load_parts(row, x, row ? d - x : 0, dtype, part);
            for (int i = 0; i < parts_of(dtype); i++, to += AMX_TILE_BYTES)
                _mm512_store_si512(to, part[i]);
        }
    }
}

/* 16 keys by 32 d, transposed as 32-bit pairs of d. `whole`, a constant once inlined, says that
 * all of them exist. */
VF_INLINE char *pack_k_tile(const tile *t, int64_t j, int64_t x, const bool whole,
                            const att_dtype dtype, char *to) {
    const int64_t left = whole ? DEPTH : t->job->p->d_qk - x;
    vf pairs[3][SIDE];
    for (int64_t i = 0; i < SIDE; i++) {
        __m512i part[3];
        if (whole || j + i < t->now->n)
            load_parts(t->now->rows_k[j + i], x, left, dtype, part);
        else
            load_parts(NULL, 0, 0, dtype, part);
        for (int k = 0; k < parts_of(dtype); k++)
            pairs[k][i] = _mm512_castsi512_ps(part[k]);
    }
    for (int k = 0; k < parts_of(dtype); k++, to += AMX_TILE_BYTES) {
        vf_transpose(pairs[k]);
        for (int i = 0; i < SIDE; i++)
            vf_store((float *)(void *)(to + i * AMX_ROW_BYTES), pairs[k][i]);
    }
    return to;
}

VF_INLINE void pack_k_as(const tile *t, int64_t from, int64_t until, const att_dtype dtype) {
    const int64_t d = t->job->p->d_qk;
    char *to = t->k + from / SIDE * depth_tiles(d) * parts_of(dtype) * AMX_TILE_BYTES;
    for (int64_t j = from; j < until; j += SIDE) {
        for (int64_t x = 0; x < d; x += DEPTH) {
            if (j + SIDE <= until && x + DEPTH <= d)
                to = pack_k_tile(t, j, x, true, dtype, to);
            else
                to = pack_k_tile(t, j, x, false, dtype, to);
        }
    }
}

/* 2 keys by 32 columns, interleaved: 16 columns to each of two tiles that are `beside` bytes
 * apart. */
VF_INLINE void pack_v_pair(const char *even_row, const char *odd_row, int64_t x, int64_t left,
                           const att_dtype dtype, char *to, int64_t beside) {
    const __m512i first =
        _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7,
                         38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    __m512i even[3], odd[3];
    load_parts(even_row, x, even_row ? left : 0, dtype, even);
    load_parts(odd_row, x, odd_row ? left : 0, dtype, odd);
    for (int i = 0; i < parts_of(dtype); i++, to += AMX_TILE_BYTES) {
        _mm512_store_si512(to, _mm512_permutex2var_epi16(even[i], first, odd[i]));
        _mm512_store_si512(to + beside, _mm512_permutex2var_epi16(even[i], second, odd[i]));
    }
}

VF_INLINE void pack_v_as(const tile *t, int64_t from, int64_t until, const att_dtype dtype) {
    const int64_t d = t->job->p->d_v;
    const int64_t beside = (int64_t)(TILE_KEYS / DEPTH) * parts_of(dtype) * AMX_TILE_BYTES;
    const char **rows = t->now->rows_v;
    for (int64_t j = from; j < att_round_up(until, DEPTH); j += 2) {
        char *to =
            t->v + j / DEPTH * parts_of(dtype) * AMX_TILE_BYTES + j % DEPTH / 2 * AMX_ROW_BYTES;
        const char *even = j < until ? rows[j] : NULL,
                   *odd = j + 1 < until ? rows[j + 1] : NULL;
        for (int64_t x = 0; x < t->o_stride; x += 2 * SIDE, to += 2 * beside) {
            if (odd && x + 2 * SIDE <= d)
                pack_v_pair(even, odd, x, 2 * SIDE, dtype, to, beside);
            else
                pack_v_pair(even, odd, x, d - x, dtype, to, beside);
        }
    }
}

#endif
