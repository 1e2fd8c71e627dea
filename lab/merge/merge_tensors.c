/* merge_tensors.c: the buffers of a merge: sizes, addresses, contents. */
#include <math.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "lab/base/random.h"
#include "lab/base/workers.h"
#include "lab/merge/merge_lab.h"

enum { STREAM_PARTS = 5000, STREAM_TURNED = 5500 };

/* -------------------------------------------------------------------- sizes */

static bool size_strided(lab_tensor_size *size, const att_strides *s,
                         const att_merge_problem *p, int64_t cols, size_t element) {
    const int64_t sizes[] = {p->batch, p->heads, p->seq, cols},
                  strides[] = {s->batch, s->head, s->row, 1};
    double indices = 1.0;
    size->present = true;
    size->element_size = element;
    for (int i = 0; i < 4; i++)
        if (sizes[i] == 0)
            return true;
    size->elements = 1;
    for (int i = 0; i < 4; i++) {
        int64_t reach;
        indices *= (double)sizes[i];
        if (sizes[i] > 1 && !(att_mul(sizes[i] - 1, strides[i], &reach) &&
                              att_add(size->elements, reach, &size->elements)))
            return false;
    }
    size->touched = indices * (double)element;
    return true;
}

bool lab_merge_sizes(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX], int *count) {
    const lab_merge_spec *m = &spec->merge;
    const att_merge_problem *p = &m->problem;
    const size_t in = att_dtype_size(p->dtype), out = att_dtype_size(p->dtype_o);
    *count = LAB_MERGE_PARTS + 2 * (int)p->parts;
    for (int i = 0; i < *count; i++)
        list[i] = (lab_tensor_size){.name = i == LAB_MERGE_O     ? "o"
                                            : i == LAB_MERGE_LSE ? "lse"
                                            : i % 2 == 0         ? "part_o"
                                                                 : "part_lse",
                                    .output = i<LAB_MERGE_PARTS, .padded = m->pad> 0,
                                    .shift = m->offset};
    bool fits = size_strided(&list[LAB_MERGE_O], &p->o, p, p->d, out);
    if (p->features & ATT_LSE)
        fits = fits && size_strided(&list[LAB_MERGE_LSE], &p->lse, p, 1, sizeof(float));
    for (int i = LAB_MERGE_PARTS; i < *count && fits; i += 2)
        fits = size_strided(&list[i], &p->part_o, p, p->d, in) &&
               size_strided(&list[i + 1], &p->part_lse, p, 1, sizeof(float));
    return fits;
}

void lab_merge_point(lab_args *args, const lab_spec *spec, const lab_buffer *b) {
    lab_merge_args *a = &args->merge;
    *a = (lab_merge_args){.o = b[LAB_MERGE_O].data,
                          .lse = (float *)(void *)b[LAB_MERGE_LSE].data};
    for (int i = 0; i < (int)spec->merge.problem.parts; i++) {
        a->part_o[i] = b[LAB_MERGE_PARTS + 2 * i].data;
        a->part_lse[i] = (const float *)(const void *)b[LAB_MERGE_PARTS + 2 * i + 1].data;
    }
}

void lab_merge_locate(const lab_args *args, const lab_spec *spec,
                      const void *list[LAB_TENSORS_MAX]) {
    const lab_merge_args *a = &args->merge;
    list[LAB_MERGE_O] = a->o;
    list[LAB_MERGE_LSE] = a->lse;
    for (int i = 0; i < (int)spec->merge.problem.parts; i++) {
        list[LAB_MERGE_PARTS + 2 * i] = a->part_o[i];
        list[LAB_MERGE_PARTS + 2 * i + 1] = a->part_lse[i];
    }
}

/* ----------------------------------------------------------------- contents */

/* The log-sum of a part of a row. Special values are spread by row number; a row whose number
 * is 2 modulo 5 is ordinary. */
static float lse_of(const lab_merge_spec *m, int64_t part, lab_row row, lab_random *random) {
    const float drawn = 8.0f * lab_random_normal(random);
    const int64_t kind = (row.b + row.h + row.i) % 5;
    switch (m->data) {
    case LAB_MERGE_EMPTY: /* every row lacks some part, and every fifth row lacks all of them */
        return kind == 0 || (kind != 2 && (part + row.i) % 3 == 0) ? -INFINITY : drawn;
    case LAB_MERGE_EQUAL:
        return 1.5f;
    case LAB_MERGE_INF:
        return kind == 0 && part % 2 == 0 ? INFINITY : drawn;
    case LAB_MERGE_NAN:
        return kind == 0 && part == 0 ? NAN : drawn;
    default:
        return drawn;
    }
}

static float value_of(const lab_merge_spec *m, float lse, lab_random *random) {
    const float most = m->problem.dtype == ATT_F16 ? 65504.0f : 0x1.fep127f;
    const float drawn = lab_random_normal(random);
    if (lse == -INFINITY) /* the contents of an empty part do not matter */
        return NAN;
    return m->data == LAB_MERGE_HUGE ? (drawn < 0.0f ? -most : most) : drawn;
}

/* Rows are filled in strips, in parallel; a row draws its log-sum, then its elements. */
enum { STRIP_ROWS = 64 };

typedef struct filling {
    lab_tensors *tensors;
    uint64_t seed;
    int64_t rows, strips; /* of a part */
} filling;

static void fill_strip(void *context, int64_t n) {
    const filling *f = context;
    lab_tensors *t = f->tensors;
    const lab_merge_spec *m = &t->spec.merge;
    const att_merge_problem *p = &m->problem;
    const int64_t part = n / f->strips, first = n % f->strips * STRIP_ROWS;
    unsigned char *o = t->buffer[LAB_MERGE_PARTS + 2 * part].data;
    float *lse = (float *)(void *)t->buffer[LAB_MERGE_PARTS + 2 * part + 1].data;
    lab_random random;
    lab_random_seed(&random, f->seed, (uint64_t)(STREAM_PARTS + part));
    lab_random_jump(&random, (uint64_t)(first * (1 + p->d)));
    for (int64_t i = first; i < att_min(first + STRIP_ROWS, f->rows); i++) {
        const lab_row r = {i / p->seq / p->heads, i / p->seq % p->heads, i % p->seq, 0};
        const float own = lse_of(m, part, r, &random);
        const int64_t at = lab_merge_index(&p->part_o, r);
        lse[lab_merge_index(&p->part_lse, r)] = own;
        for (int64_t c = 0; c < p->d; c++)
            att_store(o, p->dtype, at + c, value_of(m, own, &random));
    }
}

bool lab_merge_fill(lab_tensors *t, uint64_t seed, lab_message *why) {
    (void)why;
    const att_merge_problem *p = &t->spec.merge.problem;
    filling f = {t, seed, p->batch * p->heads * p->seq, 0};
    f.strips = att_ceil_div(f.rows, STRIP_ROWS);
    lab_workers_run(p->parts * f.strips, fill_strip, &f);
    return true;
}

/* ------------------------------------------------------------------ turning */

enum { ROWS_PER_DRAWN = 64 };

bool lab_merge_turnable(const lab_tensors *t) {
    const att_merge_problem *p = &t->spec.merge.problem;
    return t->spec.merge.data == LAB_MERGE_NORMAL && p->batch > 0 && p->heads > 0 && p->seq > 0;
}

/* One row in every head, or one in ROWS_PER_DRAWN where heads are shorter than that. A row that
 * is turned moves into the cache of one core, and the threads that merge must fetch it from
 * there. If every row were turned, an honest merge would take several times as long as in a
 * sample, whose later calls find their rows in the caches of their own cores; and turning back
 * and turning by another seed would change nothing. */
void lab_merge_drawn(lab_tensors *t, uint64_t seed,
                     void (*visit)(lab_tensors *t, lab_row row, void *context), void *context) {
    const att_merge_problem *p = &t->spec.merge.problem;
    lab_random random;
    if (!lab_merge_turnable(t))
        return;
    lab_random_seed(&random, seed, STREAM_TURNED);
    const int64_t heads = p->batch * p->heads;
    const int64_t step = att_min(att_ceil_div(ROWS_PER_DRAWN, p->seq), heads);
    for (int64_t n = lab_random_below(&random, step); n < heads; n += step)
        visit(t, (lab_row){n / p->heads, n % p->heads, lab_random_below(&random, p->seq), 0},
              context);
}

/* The sign is the highest bit in every type. It is flipped in every part: the row's answer then
 * changes sign, whatever the weights. */
static void turn_row(lab_tensors *t, lab_row row, void *context) {
    const att_merge_problem *p = &t->spec.merge.problem;
    const size_t size = att_dtype_size(p->dtype);
    (void)context;
    for (int64_t part = 0; part < p->parts; part++) {
        unsigned char *at = t->buffer[LAB_MERGE_PARTS + 2 * part].data +
                            lab_merge_index(&p->part_o, row) * (int64_t)size;
        for (int64_t c = 0; c < p->d; c++)
            at[(size_t)(c + 1) * size - 1] ^= 0x80;
    }
}

void lab_merge_turn(lab_tensors *t, uint64_t seed) {
    lab_merge_drawn(t, seed, turn_row, NULL);
}
