/* amx_body.h: the two products of a tile on AMX, which multiplies bfloat16 alone.
 *
 * bfloat16 goes in as it is. Wider types are cut into bfloat16 parts, each exact, most
 * significant first, and the products that matter are summed:
 *
 *   input      parts   Q K^T                    P V
 *   bfloat16   1       00                       00 (P rounded)
 *   float16    2       00 01 10 11, exact       00 01 10: P to 16 bits, V exact
 *   float32    3       00 01 02 10 11 20: all but 2^-25 of a product, both times
 *
 * Three parts hold the 24 bits of a float32 exactly, two the 11 of a float16. Inf and values
 * that round up to it become NaN in the second part: finish_row() then has the row redone.
 */
#ifndef ATT_CPU_MATMUL_BODY_H
#define ATT_CPU_MATMUL_BODY_H

#include "cpu/amx_pack_body.h"

/* Tiles 0..3 are the sums of 32 x 32 results, 4 and 5 the left operand, 6 and 7 the right one.
 */
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

/* The products of parts that one pass over the depth sums, in an order that changes one operand
 * at a time. */
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

/* Two tiles deep and one part, the rows of a strip fit tiles 4..7 and stay there for all its
 * scores. */
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

/* Step `step` of sums[32][x..x+32) = P V. Starting from zero and adding to O by vectors is
 * faster than loading O into the tiles, whose products would wait for it; and it rounds O less
 * often. */
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

/* One specialisation of `function` a count of parts, and one for strips whose lower half is
 * padding. */
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
    /* Where only O is asked for, and no finer than the inputs, exp2 need be no better than the
     * weights are stored. */
    const att_problem *p = t->job->p;
    const bool fine = (p->features & ATT_LSE) || p->dtype_o == ATT_F32;
    void *row_to = t->p[st->slot] + r / SIDE * (TILE_KEYS / DEPTH) * parts * AMX_TILE_BYTES +
                   r % SIDE * AMX_ROW_BYTES;
    if (parts == 1 && !fine)
        weigh_row(row, s, from, to, t->factor, 3, store_bf16, row_to);
    else if (parts == 1)
        weigh_row(row, s, from, to, t->factor, 5, store_bf16, row_to);
    else if (parts == 2 && !fine)
        weigh_row(row, s, from, to, t->factor, 4, store_two, row_to);
    else if (parts == 2)
        weigh_row(row, s, from, to, t->factor, 5, store_two, row_to);
    else
        weigh_row(row, s, from, to, t->factor, 5, store_three, row_to);
}

#endif
