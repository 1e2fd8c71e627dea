/* merge_case.c: merges by the formula of attest.h in float64. */
#include "tests/fuzz/merge_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/number_types.h"

static const att_dtype types[] = {ATT_F32, ATT_F16, ATT_BF16};

/* ------------------------------------------------------------------------- problems */

static void spread(att_strides *s, int64_t factor) {
    s->batch *= factor;
    s->head *= factor;
    s->row *= factor;
}

void merge_draw(att_merge_problem *p, random_input *in) {
    const int64_t parts = draw_between(in, 1, MERGE_PARTS_MOST);
    const int64_t d =
        draw_chance(in, 50) ? 8 * draw_between(in, 1, 8) : draw_between(in, 1, 300);
    att_merge_problem_init(p, parts, draw_between(in, 0, 3), draw_between(in, 0, 4),
                           draw_between(in, 0, 20), d, types[draw_byte(in) % 3]);
    p->dtype_o = draw_chance(in, 50) ? p->dtype : types[draw_byte(in) % 3];
    if (draw_chance(in, 40))
        p->features = 0;
    att_strides *all[] = {&p->part_o, &p->part_lse, &p->o, &p->lse};
    if (draw_chance(in, 30))
        spread(all[draw_byte(in) % 4], draw_between(in, 2, 3));
    if (draw_chance(in, 10))
        all[draw_byte(in) % 2]->head = 0;
    p->alignment = draw_chance(in, 30) ? 4 << draw_between(in, 0, 4) : 0;
}

void merge_break(att_merge_problem *p, random_input *in) {
    int64_t *fields[] = {
        &p->parts,         &p->batch,        &p->heads,      &p->seq,        &p->d,
        &p->part_o.batch,  &p->part_o.head,  &p->part_o.row, &p->part_o.col, &p->part_lse.batch,
        &p->part_lse.head, &p->part_lse.row, &p->o.batch,    &p->o.head,     &p->o.row,
        &p->o.col,         &p->lse.batch,    &p->lse.head,   &p->lse.row,    &p->alignment};
    for (int64_t n = draw_between(in, 1, 3); n > 0; n--)
        *fields[draw_byte(in) % (sizeof fields / sizeof fields[0])] = draw_odd(in);
    const uint32_t value = draw_byte(in) % 8;
    if (draw_chance(in, 20))
        memcpy(&p->dtype, &value, sizeof value);
    if (draw_chance(in, 20))
        memcpy(&p->dtype_o, &value, sizeof value);
    if (draw_chance(in, 10))
        p->features = draw_u32(in);
}

/* --------------------------------------------------------------------------- arrays */

static double extent(const att_merge_problem *p, const att_strides *s, int64_t cols) {
    if (p->batch <= 0 || p->heads <= 0 || p->seq <= 0)
        return 0.0;
    return (double)(p->batch - 1) * (double)(p->batch > 1 ? s->batch : 0) +
           (double)(p->heads - 1) * (double)(p->heads > 1 ? s->head : 0) +
           (double)(p->seq - 1) * (double)(p->seq > 1 ? s->row : 0) + (double)cols;
}

static bool open_slot(array_slot *slot, double elements, size_t size, size_t align,
                      unsigned char fill) {
    return elements * (double)size <= ARRAY_SLOT_BYTES / 2 &&
           array_open(slot, (size_t)elements * size, align, fill) != NULL;
}

static int64_t row_at(const att_strides *s, int64_t b, int64_t h, int64_t i) {
    return b * s->batch + h * s->head + i * s->row;
}

static void fill_part(merge_case *c, int64_t part, random_input *in) {
    const att_merge_problem *p = &c->problem;
    array_slot *o = &c->part_o[part], *lse = &c->part_lse[part];
    for (int64_t i = 0; i < (int64_t)(lse->bytes / sizeof(float)); i++) {
        const double value = 10.0 * draw_value(in);
        store_number(lse->data, ATT_F32, i,
                     draw_chance(in, 15)  ? -(double)INFINITY
                     : draw_chance(in, 2) ? (double)INFINITY
                                          : value);
    }
    for (int64_t i = 0; i < (int64_t)(o->bytes / att_dtype_size(p->dtype)); i++)
        store_number(o->data, p->dtype, i, draw_value(in));
    /* A part that saw no key is ignored, whatever its contents. */
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < p->seq && p->part_lse.head && p->part_o.head; i++)
                if (load_number(lse->data, ATT_F32, row_at(&p->part_lse, b, h, i)) ==
                    -(double)INFINITY)
                    store_number(o->data, p->dtype, row_at(&p->part_o, b, h, i), (double)NAN);
}

bool merge_open(merge_case *c, random_input *in, size_t workspace_bytes) {
    const att_merge_problem *p = &c->problem;
    const size_t size = att_dtype_size(p->dtype), size_o = att_dtype_size(p->dtype_o);
    const size_t whole = p->alignment > 0 && p->alignment < 256 ? (size_t)p->alignment : 16;
    const size_t align = whole > 4 ? whole : 4;
    const double sums = p->features & ATT_LSE ? extent(p, &p->lse, 1) : 0.0;
    if (p->parts > MERGE_PARTS_MOST || p->d > 4096 || p->batch > 4096 || p->heads > 4096 ||
        p->seq > 4096 || !open_slot(&c->o, extent(p, &p->o, p->d), size_o, align, MERGE_FILL) ||
        !open_slot(&c->lse, sums, 4, 4, MERGE_FILL) ||
        !open_slot(&c->scratch, (double)workspace_bytes, 1, ATT_WORKSPACE_ALIGN, 0xff))
        return false;
    for (int64_t i = 0; i < p->parts; i++) {
        if (!open_slot(&c->part_o[i], extent(p, &p->part_o, p->d), size, align, 0) ||
            !open_slot(&c->part_lse[i], extent(p, &p->part_lse, 1), 4, 4, 0))
            return false;
        fill_part(c, i, in);
        c->part_o_list[i] = c->part_o[i].data;
        c->part_lse_list[i] = (const float *)(const void *)c->part_lse[i].data;
    }
    c->args = (att_merge_args){.size = sizeof c->args,
                               .part_o = c->part_o_list,
                               .part_lse = c->part_lse_list,
                               .o = c->o.data,
                               .workspace_size = workspace_bytes};
    if (p->features & ATT_LSE)
        c->args.lse = (float *)(void *)c->lse.data;
    c->workspace = c->scratch.data;
    return true;
}

bool merge_spoil(merge_case *c, random_input *in) {
    if (c->o.bytes == 0)
        return false;
    switch (draw_between(in, 0, 4)) {
    case 0:
        c->args.o = NULL;
        return true;
    case 1:
        c->part_o_list[draw_byte(in) % c->problem.parts] = NULL;
        return true;
    case 2:
        c->args.part_lse = NULL;
        return true;
    case 3:
        c->args.o = c->part_o[draw_byte(in) % c->problem.parts].data;
        return true;
    default:
        c->args.lse = c->args.lse ? NULL : (float *)(void *)c->part_lse[0].data;
        return true;
    }
}

/* --------------------------------------------------------------------------- checks */

typedef struct merged_row {
    double lse, largest;
    double *o;
} merged_row;

static merged_row expect_row(const merge_case *c, int64_t b, int64_t h, int64_t i, double *o) {
    const att_merge_problem *p = &c->problem;
    merged_row row = {.lse = -(double)INFINITY, .o = o};
    double top = -(double)INFINITY, sum = 0.0;
    memset(o, 0, (size_t)p->d * sizeof *o);
    for (int64_t n = 0; n < p->parts; n++)
        top =
            fmax(top, load_number(c->part_lse[n].data, ATT_F32, row_at(&p->part_lse, b, h, i)));
    for (int64_t n = 0; n < p->parts; n++) {
        const double lse =
            load_number(c->part_lse[n].data, ATT_F32, row_at(&p->part_lse, b, h, i));
        if (lse == -(double)INFINITY || (isinf(top) && lse != top))
            continue; /* saw no key, or is beside +inf */
        const double weight = lse == top ? 1.0 : exp(lse - top); /* for +inf, the mean */
        sum += weight;
        for (int64_t x = 0; x < p->d; x++) {
            const double value =
                load_number(c->part_o[n].data, p->dtype, row_at(&p->part_o, b, h, i) + x);
            o[x] += weight * value;
            row.largest = fmax(row.largest, fabs(value));
        }
    }
    for (int64_t x = 0; x < p->d && sum > 0.0; x++)
        o[x] /= sum;
    if (sum > 0.0)
        row.lse = top + log(sum);
    return row;
}

static void check_row(const merge_case *c, const merged_row *row, int64_t b, int64_t h,
                      int64_t i, const char *name) {
    const att_merge_problem *p = &c->problem;
    const double own = row->largest * (double)(p->parts + 40) / (1 << 22);
    for (int64_t x = 0; x < p->d; x++) {
        const double got = load_number(c->o.data, p->dtype_o, row_at(&p->o, b, h, i) + x);
        const double bound = own + (fabs(row->o[x]) + own) * rounding_relative(p->dtype_o) +
                             rounding_absolute(p->dtype_o);
        if (isnan(row->o[x]) ? !isnan(got) : !(fabs(got - row->o[x]) <= bound))
            finding("%s: merged o[%lld][%lld][%lld][%lld] is %.9g, not %.9g within %.3g", name,
                    (long long)b, (long long)h, (long long)i, (long long)x, got, row->o[x],
                    bound);
    }
    if (!(p->features & ATT_LSE))
        return;
    const double got = load_number(c->lse.data, ATT_F32, row_at(&p->lse, b, h, i));
    if (isinf(row->lse) ? got != row->lse
                        : !(fabs(got - row->lse) <= 1e-5 + 1e-6 * fabs(row->lse)))
        finding("%s: merged lse[%lld][%lld][%lld] is %.9g, not %.9g", name, (long long)b,
                (long long)h, (long long)i, got, row->lse);
}

static void check_padding(const merge_case *c, const array_slot *slot, const att_strides *s,
                          size_t row_bytes, size_t size, const char *name) {
    const att_merge_problem *p = &c->problem;
    unsigned char *owned = calloc(slot->bytes + 1, 1);
    if (!owned)
        abort();
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < p->seq; i++)
                memset(owned + (size_t)row_at(s, b, h, i) * size, 1, row_bytes);
    for (size_t i = 0; i < slot->bytes; i++)
        if (!owned[i] && slot->data[i] != MERGE_FILL)
            finding("%s: byte %zu of a merged array belongs to no row and was written", name,
                    i);
    free(owned);
}

static void check_around(const merge_case *c) {
    bool intact = array_intact(&c->o) && array_intact(&c->lse) && array_intact(&c->scratch);
    for (int64_t i = 0; i < c->problem.parts; i++)
        intact = intact && array_intact(&c->part_o[i]) && array_intact(&c->part_lse[i]);
    if (!intact)
        finding("merge: bytes around an array were written");
}

void merge_check_untouched(const merge_case *c) {
    check_around(c);
    for (size_t i = 0; i < c->o.bytes; i++)
        if (c->o.data[i] != MERGE_FILL)
            finding("a refused merge wrote o");
}

void merge_check(const merge_case *c, const char *name) {
    const att_merge_problem *p = &c->problem;
    const size_t size = att_dtype_size(p->dtype_o);
    double *o = malloc((size_t)p->d * sizeof *o);
    if (!o)
        abort();
    check_around(c);
    check_padding(c, &c->o, &p->o, (size_t)p->d * size, size, name);
    if (p->features & ATT_LSE)
        check_padding(c, &c->lse, &p->lse, sizeof(float), sizeof(float), name);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t i = 0; i < p->seq; i++) {
                const merged_row row = expect_row(c, b, h, i, o);
                check_row(c, &row, b, h, i, name);
            }
    free(o);
}
