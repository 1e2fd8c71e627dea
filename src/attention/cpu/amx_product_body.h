/* amx_product_body.h: matrix products on AMX tiles, in steps that can be interleaved with other
 * work.
 *
 * The tile unit multiplies only bfloat16. bfloat16 inputs are used directly. Wider types are
 * split into bfloat16 parts, each exact, most significant first, and the products that matter
 * are summed:
 *
 *   input      parts   Q K^T                    P V
 *   bfloat16   1       00                       00 (P rounded)
 *   float16    2       00 01 10 11, exact       00 01 10: P to 16 bits, V exact
 *   float32    3       00 01 02 10 11 20: all but 2^-25 of a product, both times
 *
 * Three parts hold the 24 bits of a float32 exactly, two the 11 of a float16. Inf and values
 * that round up to it become NaN in the second part; finish_row() then has the row
 * recomputed. */
#ifndef ATT_CPU_AMX_PRODUCT_BODY_H
#define ATT_CPU_AMX_PRODUCT_BODY_H

#include "attention/cpu/amx_pack_body.h"

/* Tiles 0..3 are the sums of 32 x 32 results, 4 and 5 the left operand, 6 and 7 the right
 * one. */
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

/* The products of parts that one pass over the depth sums, ordered so that one operand changes
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
 * both               false if the lower 16 rows are padding */
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

/* A matrix product in parts of 32 rows by 32 columns, one after the other: the columns of S = Q
 * K^T, or those of P V. A part is summed from zero in steps of a tile's depth, then stored. The
 * parts are walked in alternating directions: if the last step of a part and the first of the
 * next use the same tiles of the left operand, these are loaded once. */
typedef struct product {
    const char *a, *b;         /* operands of the next step */
    int64_t a_below, b_beside; /* bytes to the tile 16 rows below a, 16 columns beside b */
    int64_t way;               /* bytes from the operands of one step to the next */
    int64_t b_part;            /* bytes from b of one part to the next */
    float *c;                  /* destination of the part */
    int64_t c_stride;
    int64_t steps, step;        /* per part, and how many of them are done */
    int64_t left;               /* steps left in all parts */
    int parts;                  /* parts per number */
    bool exact;                 /* with the product of the second parts */
    bool both;                  /* the lower 16 rows are not padding */
    bool resident;              /* see rows_resident() */
    bool a_loaded;              /* the next step's left operand is already loaded */
    const struct product *then; /* the next product when nothing is left */
} product;

/* If the rows of a strip are two tiles deep and have one part, they fit in tiles 4..7 and stay
 * there for all its scores. A step is then 16 columns and the whole depth. */
static inline bool rows_resident(const att_problem *p) {
    return depth_tiles(p->d_qk) == 2 && parts_of(p->dtype) == 1;
}

/* Steps per part: float32 goes over the depth twice. */
static inline int64_t steps_of_part(int64_t depth, int parts) {
    return parts == 3 ? 2 * depth : depth;
}

/* S = Q K^T of a strip. */
static product tile_scores(const tile *t, const strip *st) {
    const att_problem *p = t->job->p;
    const int parts = parts_of(p->dtype);
    const int64_t depth = depth_tiles(p->d_qk), block = depth * parts * AMX_TILE_BYTES;
    if (st->rows == 0)
        return (product){.left = 0};
    const int64_t steps = steps_of_part(depth, parts);
    return (product){.a = t->q + st->row0 / SIDE * block,
                     .b = t->k + st->from / SIDE * block,
                     .a_below = block,
                     .b_beside = block,
                     .way = parts * AMX_TILE_BYTES,
                     .b_part = 2 * block,
                     .c = t->s[st->slot] + st->from,
                     .c_stride = TILE_KEYS,
                     .steps = steps,
                     .left = (st->to - st->from) / (2 * SIDE) * steps,
                     .parts = parts,
                     .exact = true,
                     .both = st->rows > SIDE,
                     .resident = rows_resident(p)};
}

/* P V of a strip. Starting from zero and adding to O with vectors is faster than loading O into
 * the tiles, whose products would wait for it. It also rounds O less often. */
static product tile_sums(const tile *t, const strip *st) {
    const att_problem *p = t->job->p;
    const int parts = parts_of(p->dtype);
    const int64_t block = (int64_t)(TILE_KEYS / DEPTH) * parts * AMX_TILE_BYTES;
    const int64_t first = st->from / DEPTH * parts * AMX_TILE_BYTES;
    if (st->rows == 0)
        return (product){.left = 0};
    const int64_t steps = steps_of_part((st->to - st->from) / DEPTH, parts);
    return (product){.a = t->p[st->slot] + first,
                     .b = t->v + first,
                     .a_below = block,
                     .b_beside = block,
                     .way = parts * AMX_TILE_BYTES,
                     .b_part = 2 * block,
                     .c = st->first ? t->o + st->row0 * t->o_stride : t->sums,
                     .c_stride = t->o_stride,
                     .steps = steps,
                     .left = t->o_stride / (2 * SIDE) * steps,
                     .parts = parts,
                     .both = st->rows > SIDE};
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

/* If this product is done, switch to the one that follows. */
VF_INLINE void product_follow(product *p) {
    if (p->left == 0)
        *p = *p->then;
}

/* A step is done: go to the next one, or store the part and go to the next part. */
VF_INLINE void product_advance(product *p, const int parts) {
    p->left--;
    p->a_loaded = false;
    if (++p->step == p->steps) {
        amx_store_sums(p->c, p->c_stride, p->both);
        p->c += 2 * SIDE;
        p->b += p->b_part;
        p->way = -p->way;
        p->step = 0;
        p->a_loaded = parts == 1;
    } else if (parts == 3 && 2 * p->step == p->steps) {
        p->way = -p->way; /* the second pass runs backwards */
    } else {
        p->a += p->way;
        p->b += p->way;
    }
}

/* Operation i of the 8 in a step with resident rows. */
VF_INLINE void product_op_resident(product *p, const int i) {
    if (i == 0) {
        if (!p->a_loaded) {
            AMX_LOAD(4, p->a, AMX_ROW_BYTES);
            AMX_LOAD(5, p->a + AMX_TILE_BYTES, AMX_ROW_BYTES);
            if (p->both) {
                AMX_LOAD(6, p->a + 2 * AMX_TILE_BYTES, AMX_ROW_BYTES);
                AMX_LOAD(7, p->a + 3 * AMX_TILE_BYTES, AMX_ROW_BYTES);
            }
            p->a_loaded = true;
        }
        AMX_LOAD(2, p->b, AMX_ROW_BYTES);
    } else if (i == 1) {
        AMX_ZERO(0);
        AMX_MULTIPLY(0, 4, 2);
    } else if (i == 2 && p->both) {
        AMX_ZERO(1);
        AMX_MULTIPLY(1, 6, 2);
    } else if (i == 3) {
        AMX_LOAD(3, p->b + AMX_TILE_BYTES, AMX_ROW_BYTES);
    } else if (i == 4) {
        AMX_MULTIPLY(0, 5, 3);
    } else if (i == 5 && p->both) {
        AMX_MULTIPLY(1, 7, 3);
    } else if (i == 6) {
        AMX_STORE(0, p->c, p->c_stride * (int64_t)sizeof *p->c);
    } else if (i == 7) {
        if (p->both)
            AMX_STORE(1, p->c + SIDE * p->c_stride, p->c_stride * (int64_t)sizeof *p->c);
        p->b += 2 * AMX_TILE_BYTES;
        p->c += SIDE;
        p->left--;
    }
}

/* Operation i of the 8 in a bfloat16 step: mostly one tile-unit instruction, so that vector
 * instructions can be placed between any two of them. i and `resident` are constants. */
VF_INLINE void product_op(product *p, const int i, const bool resident) {
    if (resident) {
        product_op_resident(p, i);
    } else if (i == 0) {
        if (p->step == 0)
            amx_clear(p->both);
        if (!p->a_loaded)
            AMX_LOAD(4, p->a, AMX_ROW_BYTES);
    } else if (i == 1) {
        AMX_LOAD(6, p->b, AMX_ROW_BYTES);
    } else if (i == 2) {
        AMX_MULTIPLY(0, 4, 6);
    } else if (i == 3) {
        AMX_LOAD(7, p->b + p->b_beside, AMX_ROW_BYTES);
    } else if (i == 4) {
        AMX_MULTIPLY(1, 4, 7);
    } else if (i == 5) {
        if (p->both && !p->a_loaded)
            AMX_LOAD(5, p->a + p->a_below, AMX_ROW_BYTES);
    } else if (i == 6) {
        if (p->both)
            AMX_MULTIPLY(2, 5, 6);
    } else {
        if (p->both)
            AMX_MULTIPLY(3, 5, 7);
        product_advance(p, 1);
    }
}

/* A step of a type that has several parts. */
VF_INLINE void product_step_parts(product *p, const int parts, const bool both) {
    if (p->step == 0)
        amx_clear(both);
    if (parts == 3)
        amx_step(p->a, p->a_below, p->b, p->b_beside, parts, both,
                 2 * p->step < p->steps ? MINOR : MAJOR);
    else
        amx_step(p->a, p->a_below, p->b, p->b_beside, parts, both, p->exact ? EXACT : ALL);
    product_advance(p, parts);
}

VF_INLINE void product_ops(product *p, const bool resident) {
    product_op(p, 0, resident);
    product_op(p, 1, resident);
    product_op(p, 2, resident);
    product_op(p, 3, resident);
    product_op(p, 4, resident);
    product_op(p, 5, resident);
    product_op(p, 6, resident);
    product_op(p, 7, resident);
}

static void product_step(product *p) {
    product_follow(p);
    if (p->parts == 1 && p->resident) {
        product_ops(p, true);
    } else if (p->parts == 1) {
        product_ops(p, false);
    } else if (p->parts == 2 && p->both) {
        product_step_parts(p, 2, true);
    } else if (p->parts == 2) {
        product_step_parts(p, 2, false);
    } else if (p->both) {
        product_step_parts(p, 3, true);
    } else {
        product_step_parts(p, 3, false);
    }
}

static void product_steps(product *p, int64_t count) {
    for (; count > 0; count--)
        product_step(p);
}

#endif
