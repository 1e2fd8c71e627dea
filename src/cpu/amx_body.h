/* amx_body.h: the two products of a tile on AMX, which multiplies bfloat16 alone.
 *
 * bfloat16 goes in as it is. Wider types are cut into bfloat16 parts, each exact, most significant
 * first, and the products that matter are summed:
 *
 *   input      parts   Q K^T                    P V
 *   bfloat16   1       00                       00 (P rounded)
 *   float16    2       00 01 10 11, exact       00 01 10: P to 16 bits, V exact
 *   float32    3       00 01 02 10 11 20: all but 2^-25 of a product, both times
 *
 * Three parts hold the 24 bits of a float32 exactly, two the 11 of a float16. Inf and values that round up to
 * it become NaN in the second part: finish_row() then has the row redone.
 *
 * Operands are stored as whole tiles of 1 KiB, the parts of one piece side by side:
 *   Q  [16 rows][32 d]    P  [16 rows][32 keys]              rows as they are
 *   K  [32 d][16 keys]    V  [32 keys][16 columns]           pairs of d, of keys, interleaved */
#ifndef ATT_CPU_MATMUL_BODY_H
#define ATT_CPU_MATMUL_BODY_H

#include <string.h>

#include "cpu/amx_tiles.h"
#include "cpu/tile.h"

enum { TILE_STRIP = 32, TILE_ROWS = 1024, TILE_KEYS = 256, TILE_STEP = 32, TILE_PART = 32 };
enum { DEPTH = 32, SIDE = 16 }; /* of a tile: what is summed over, and rows or columns */

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

/* The upper halves of 32 floats: exact where the lower ones are zero. */
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

/* 32 floats to `parts` vectors of 32 bfloat16, each the nearest to what the ones before leave. */
VF_INLINE void cut(vf low, vf high, const int parts, __m512i out[3]) {
    for (int i = 0; i < parts; i++) {
        const vf near_low = nearest(low), near_high = nearest(high);
        out[i] = upper_halves(near_low, near_high);
        low = vf_sub(low, near_low);
        high = vf_sub(high, near_high);
    }
}

/* n elements (0 to 32 count) of a row, cut into parts, zeros behind them. */
VF_INLINE void load_parts(const char *row, int64_t x, int64_t n, const att_dtype dtype,
                          __m512i out[3]) {
    if (n <= 0) {
        for (int i = 0; i < parts_of(dtype); i++)
            out[i] = _mm512_setzero_si512();
        return;
    }
    const char *from = row + x * (int64_t)att_dtype_size(dtype);
    if (dtype == ATT_BF16) {
        const __mmask32 keep =
            n >= DEPTH ? (__mmask32)0xffffffffu : (__mmask32)((1u << n) - 1u);
        out[0] = _mm512_maskz_loadu_epi16(keep, from);
        return;
    }
    const vf low = vf_load_as(from, dtype, n);
    const vf high =
        n > VF_W ? vf_load_as(from + VF_W * (int64_t)att_dtype_size(dtype), dtype, n - VF_W)
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

/* 16 keys by 32 d: transposed as 32-bit pairs of d. `whole`, a constant where this is inlined, says that
 * there are as many of both. */
VF_INLINE char *pack_k_tile(const tile *t, int64_t j, int64_t x, int64_t n, const bool whole,
                            const att_dtype dtype, char *to) {
    const int64_t left = whole ? DEPTH : t->job->p->d_qk - x;
    vf pairs[3][SIDE];
    for (int64_t i = 0; i < SIDE; i++) {
        __m512i part[3];
        if (whole || j + i < n)
            load_parts(t->rows_k[j + i], x, left, dtype, part);
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

VF_INLINE void pack_k_as(const tile *t, int64_t n, const att_dtype dtype) {
    const int64_t d = t->job->p->d_qk;
    char *to = t->k;
    for (int64_t j = 0; j < n; j += SIDE) {
        for (int64_t x = 0; x < d; x += DEPTH) {
            if (j + SIDE <= n && x + DEPTH <= d)
                to = pack_k_tile(t, j, x, n, true, dtype, to);
            else
                to = pack_k_tile(t, j, x, n, false, dtype, to);
        }
    }
}

/* 2 keys by 32 columns: interleaved, 16 columns to each of two tiles that are `beside` bytes apart. */
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

VF_INLINE void pack_v_as(const tile *t, int64_t n, const att_dtype dtype) {
    const int64_t d = t->job->p->d_v;
    const int64_t beside = (int64_t)(TILE_KEYS / DEPTH) * parts_of(dtype) * AMX_TILE_BYTES;
    for (int64_t j = 0; j < att_round_up(n, DEPTH); j += 2) {
        char *to =
            t->v + j / DEPTH * parts_of(dtype) * AMX_TILE_BYTES + j % DEPTH / 2 * AMX_ROW_BYTES;
        const char *even = j < n ? t->rows_v[j] : NULL,
                   *odd = j + 1 < n ? t->rows_v[j + 1] : NULL;
        for (int64_t x = 0; x < t->o_stride; x += 2 * SIDE, to += 2 * beside) {
            if (odd && x + 2 * SIDE <= d)
                pack_v_pair(even, odd, x, 2 * SIDE, dtype, to, beside);
            else
                pack_v_pair(even, odd, x, d - x, dtype, to, beside);
        }
    }
}

static void tile_pack_q(const tile *t) {
    if (t->job->p->dtype == ATT_BF16)
        pack_q_as(t, ATT_BF16);
    else if (t->job->p->dtype == ATT_F16)
        pack_q_as(t, ATT_F16);
    else
        pack_q_as(t, ATT_F32);
}

static void tile_pack_kv(const tile *t, int64_t n) {
    if (t->job->p->dtype == ATT_BF16) {
        pack_k_as(t, n, ATT_BF16);
        pack_v_as(t, n, ATT_BF16);
    } else if (t->job->p->dtype == ATT_F16) {
        pack_k_as(t, n, ATT_F16);
        pack_v_as(t, n, ATT_F16);
    } else {
        pack_k_as(t, n, ATT_F32);
        pack_v_as(t, n, ATT_F32);
    }
}

/* Tiles 0..3 are the sums of 32 x 32 results, 4 and 5 the left operand, 6 and 7 the right one. */
#define LEFT(part)                                                                             \
    do {                                                                                       \
        AMX_LOAD(4, a + (part)*AMX_TILE_BYTES, AMX_ROW_BYTES);                                 \
        if (both)                                                                              \
            AMX_LOAD(5, a + a_below + (part)*AMX_TILE_BYTES, AMX_ROW_BYTES);                   \
    } while (0)
#define RIGHT(part)                                                                            \
    do {                                                                                       \
        AMX_LOAD(6, b + (part)*AMX_TILE_BYTES, AMX_ROW_BYTES);                                 \
        AMX_LOAD(7, b + b_beside + (part)*AMX_TILE_BYTES, AMX_ROW_BYTES);                      \
    } while (0)
#define MULTIPLY()                                                                             \
    do {                                                                                       \
        AMX_MULTIPLY(0, 4, 6);                                                                 \
        AMX_MULTIPLY(1, 4, 7);                                                                 \
        if (both) {                                                                            \
            AMX_MULTIPLY(2, 5, 6);                                                             \
            AMX_MULTIPLY(3, 5, 7);                                                             \
        }                                                                                      \
    } while (0)

/* The products of parts that one pass over the depth sums, in an order that changes one operand at a time. */
typedef enum amx_pass {
    ALL,   /* bfloat16, float16: one pass */
    EXACT, /* float16, with the product of the second parts */
    MINOR, /* float32: all but the product of the first parts ... */
    MAJOR  /* ... which comes last, so that the small terms are not rounded at its size */
} amx_pass;

/* One step of DEPTH.
 *
 * a_below, b_beside  bytes to the tile 16 rows below a, 16 columns beside b
 * both               false where the lower 16 rows are padding */
VF_INLINE void amx_step(const char *a, int64_t a_below, const char *b, int64_t b_beside,
                        const int parts, const bool both, const amx_pass pass) {
    if (parts == 1 || pass == MAJOR) {
        LEFT(0);
        RIGHT(0);
        MULTIPLY();
    } else if (pass == EXACT) {
        LEFT(0);
        RIGHT(1);
        MULTIPLY();
        LEFT(1);
        MULTIPLY();
        RIGHT(0);
        MULTIPLY();
        LEFT(0);
        MULTIPLY();
    } else if (parts == 2) {
        LEFT(0);
        RIGHT(1);
        MULTIPLY();
        RIGHT(0);
        MULTIPLY();
        LEFT(1);
        MULTIPLY();
    } else {
        LEFT(2);
        RIGHT(0);
        MULTIPLY();
        LEFT(1);
        MULTIPLY();
        RIGHT(1);
        MULTIPLY();
        LEFT(0);
        MULTIPLY();
        RIGHT(2);
        MULTIPLY();
    }
}

/* Steps that a product over `depth` tiles of depth takes: float32 goes over them twice. */
static inline int64_t product_steps(int64_t depth, int parts) {
    return parts == 3 ? 2 * depth : depth;
}

/* Step `step` of tiles 0..3 += a[32][depth * DEPTH] * b[..][32]. */
VF_INLINE void amx_product(const char *a, int64_t a_below, const char *b, int64_t b_beside,
                           int64_t depth, int64_t step, const int parts, const bool both,
                           const bool exact) {
    const int64_t stride = parts * AMX_TILE_BYTES;
    if (parts == 3 && step >= depth)
        amx_step(a + (step - depth) * stride, a_below, b + (step - depth) * stride, b_beside,
                 parts, both, MAJOR);
    else
        amx_step(a + step * stride, a_below, b + step * stride, b_beside, parts, both,
                 parts == 3            ? MINOR
                 : parts == 2 && exact ? EXACT
                                       : ALL);
}

VF_INLINE void amx_clear(const bool both) {
    AMX_ZERO(0);
    AMX_ZERO(1);
    if (both) {
        AMX_ZERO(2);
        AMX_ZERO(3);
    }
}

/* Tiles 0..3 to c[32][stride]. */
VF_INLINE void amx_store_sums(float *c, int64_t stride, const bool both) {
    const int64_t bytes = stride * (int64_t)sizeof *c;
    AMX_STORE(0, c, bytes);
    AMX_STORE(1, c + SIDE, bytes);
    if (both) {
        AMX_STORE(2, c + SIDE * stride, bytes);
        AMX_STORE(3, c + SIDE * stride + SIDE, bytes);
    }
}

/* Two tiles deep and one part, the rows of a strip fit tiles 4..7 and stay there for all its scores. */
static inline bool rows_resident(const att_problem *p) {
    return depth_tiles(p->d_qk) == 2 && parts_of(p->dtype) == 1;
}

static int64_t tile_score_steps(const tile *t) {
    if (rows_resident(t->job->p))
        return TILE_PART / SIDE;
    return product_steps(depth_tiles(t->job->p->d_qk), parts_of(t->job->p->dtype));
}

static int64_t tile_sum_steps(const tile *t, const strip *st) {
    return product_steps((st->to - st->from) / DEPTH, parts_of(t->job->p->dtype));
}

/* s[32][j..j+16) = Q K^T with resident rows. */
VF_INLINE void amx_scores_resident(const tile *t, const strip *st, int64_t j, const bool both) {
    const int64_t stride = TILE_KEYS * (int64_t)sizeof(float);
    const char *a = t->q + st->row0 / SIDE * 2 * AMX_TILE_BYTES,
               *b = t->k + j / SIDE * 2 * AMX_TILE_BYTES;
    float *s = t->s[st->slot] + j;
    if (j == st->from) {
        AMX_LOAD(4, a, AMX_ROW_BYTES);
        AMX_LOAD(5, a + AMX_TILE_BYTES, AMX_ROW_BYTES);
        if (both) {
            AMX_LOAD(6, a + 2 * AMX_TILE_BYTES, AMX_ROW_BYTES);
            AMX_LOAD(7, a + 3 * AMX_TILE_BYTES, AMX_ROW_BYTES);
        }
    }
    AMX_LOAD(2, b, AMX_ROW_BYTES);
    AMX_ZERO(0);
    AMX_MULTIPLY(0, 4, 2);
    if (both) {
        AMX_ZERO(1);
        AMX_MULTIPLY(1, 6, 2);
    }
    AMX_LOAD(3, b + AMX_TILE_BYTES, AMX_ROW_BYTES);
    AMX_MULTIPLY(0, 5, 3);
    if (both)
        AMX_MULTIPLY(1, 7, 3);
    AMX_STORE(0, s, stride);
    if (both)
        AMX_STORE(1, s + SIDE * TILE_KEYS, stride);
}

/* Step `step` of s[32][j..j+32) = Q K^T */
VF_INLINE void amx_scores(const tile *t, const strip *st, int64_t j, int64_t step,
                          const int parts, const bool both) {
    const int64_t depth = depth_tiles(t->job->p->d_qk), block = depth * parts * AMX_TILE_BYTES;
    if (parts == 1 && depth == 2) {
        amx_scores_resident(t, st, j + step * SIDE, both);
        return;
    }
    if (step == 0)
        amx_clear(both);
    amx_product(t->q + st->row0 / SIDE * block, block, t->k + j / SIDE * block, block, depth,
                step, parts, both, true);
    if (step + 1 == product_steps(depth, parts))
        amx_store_sums(t->s[st->slot] + j, TILE_KEYS, both);
}

/* Step `step` of sums[32][x..x+32) = P V. Starting from zero and adding to O by vectors is faster than loading O
 * into the tiles, whose products would wait for it; and it rounds O less often. */
VF_INLINE void amx_accumulate(const tile *t, const strip *st, int64_t x, int64_t step,
                              const int parts, const bool both) {
    const int64_t block = (int64_t)(TILE_KEYS / DEPTH) * parts * AMX_TILE_BYTES;
    const int64_t first = st->from / DEPTH * parts * AMX_TILE_BYTES,
                  depth = (st->to - st->from) / DEPTH;
    if (step == 0)
        amx_clear(both);
    amx_product(t->p[st->slot] + first, block, t->v + x / SIDE * block + first, block, depth,
                step, parts, both, false);
    if (step + 1 == product_steps(depth, parts))
        amx_store_sums(t->sums + x, t->o_stride, both);
}

static void tile_fold(const tile *t, const strip *st) {
    float *o = t->o + st->row0 * t->o_stride;
    for (int64_t x = 0; x < st->rows * t->o_stride; x += 2 * VF_W) {
        vf_store(o + x, vf_add(vf_load(o + x), vf_load(t->sums + x)));
        vf_store(o + x + VF_W, vf_add(vf_load(o + x + VF_W), vf_load(t->sums + x + VF_W)));
    }
}

/* One specialisation of `function` a count of parts, and one for strips whose lower half is padding. */
#define AMX_BY_PARTS(function, t, st, at, step)                                                \
    do {                                                                                       \
        const bool both = (st)->rows > SIDE;                                                   \
        switch (parts_of((t)->job->p->dtype)) {                                                \
        case 1:                                                                                \
            if (both)                                                                          \
                function(t, st, at, step, 1, true);                                            \
            else                                                                               \
                function(t, st, at, step, 1, false);                                           \
            break;                                                                             \
        case 2:                                                                                \
            if (both)                                                                          \
                function(t, st, at, step, 2, true);                                            \
            else                                                                               \
                function(t, st, at, step, 2, false);                                           \
            break;                                                                             \
        default:                                                                               \
            if (both)                                                                          \
                function(t, st, at, step, 3, true);                                            \
            else                                                                               \
                function(t, st, at, step, 3, false);                                           \
        }                                                                                      \
    } while (0)

static void tile_scores(const tile *t, const strip *st, int64_t from, int64_t to,
                        int64_t step) {
    (void)to; /* a part is as wide as the tiles */
    AMX_BY_PARTS(amx_scores, t, st, from, step);
}

static void tile_accumulate(const tile *t, const strip *st, int64_t x, int64_t step) {
    AMX_BY_PARTS(amx_accumulate, t, st, x, step);
}

/* Weights x .. x+31 of a row fill one row of a tile; `row` is that row in the first tile. */
VF_INLINE char *weights_at(void *row, int64_t x, const int parts) {
    return (char *)row + x / DEPTH * parts * AMX_TILE_BYTES;
}

VF_INLINE void store_bf16(void *row, int64_t x, vf p0, vf p1) {
    _mm512_store_si512(weights_at(row, x, 1), (__m512i)_mm512_cvtne2ps_pbh(p1, p0));
}

VF_INLINE void store_parts(void *row, int64_t x, vf p0, vf p1, const int parts) {
    char *to = weights_at(row, x, parts);
    __m512i part[3];
    cut(p0, p1, parts, part);
    for (int i = 0; i < parts; i++)
        _mm512_store_si512(to + i * AMX_TILE_BYTES, part[i]);
}

VF_INLINE void store_two(void *row, int64_t x, vf p0, vf p1) {
    store_parts(row, x, p0, p1, 2);
}

VF_INLINE void store_three(void *row, int64_t x, vf p0, vf p1) {
    store_parts(row, x, p0, p1, 3);
}

VF_INLINE void tile_weigh(const tile *t, row_state *row, const strip *st, int64_t r,
                          int64_t from, int64_t to) {
    const float *s = t->s[st->slot] + r * TILE_KEYS;
    const int parts = parts_of(t->job->p->dtype);
    /* Where only O is asked for, exp2 need be no better than the weights are stored. */
    const bool lse = t->job->p->features & ATT_LSE;
    void *row_to = t->p[st->slot] + r / SIDE * (TILE_KEYS / DEPTH) * parts * AMX_TILE_BYTES +
                   r % SIDE * AMX_ROW_BYTES;
    if (parts == 1 && !lse)
        weigh_row(row, s, from, to, t->factor, 3, store_bf16, row_to);
    else if (parts == 1)
        weigh_row(row, s, from, to, t->factor, 5, store_bf16, row_to);
    else if (parts == 2 && !lse)
        weigh_row(row, s, from, to, t->factor, 4, store_two, row_to);
    else if (parts == 2)
        weigh_row(row, s, from, to, t->factor, 5, store_two, row_to);
    else
        weigh_row(row, s, from, to, t->factor, 5, store_three, row_to);
}

#endif
