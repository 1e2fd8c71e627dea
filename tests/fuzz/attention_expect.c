/* attention_expect.c: attention by the formula of attest.h in float64, and how far a run may
 * differ from it.
 *
 * The bound on a difference follows from float32 sums: a dot product of n terms has an error of
 * at most n 2^-24 of the sum of their magnitudes, a weight at most twice the error of its
 * score, and O that times the largest V. It holds for every order of summation. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/attention_case.h"
#include "tests/fuzz/number_types.h"

static const double unit = 1.0 / (1 << 24); /* half an ulp of float32 */

/* ------------------------------------------------------------------ where things lie */

int64_t attention_key_at(const attention_case *c, const att_strides *s, int64_t b, int64_t head,
                         int64_t j) {
    const att_problem *p = &c->problem;
    int64_t entry = b, row = j;
    if (p->features & ATT_PAGED) {
        const int32_t *table = (const int32_t *)(const void *)c->slots[SLOT_PAGES].data;
        entry = table[b * p->page_table_stride + j / p->page_size];
        row = j % p->page_size;
    } else if (p->features & ATT_CU_SEQLENS_K) {
        entry = 0;
        row += ((const int32_t *)(const void *)c->slots[SLOT_CU_K].data)[b];
    }
    return entry * s->batch + head * s->head + row * s->row;
}

int64_t attention_row_at(const attention_case *c, const att_strides *s, int64_t b, int64_t head,
                         int64_t i) {
    const bool packed = c->problem.features & ATT_CU_SEQLENS_Q;
    const int64_t first =
        packed ? ((const int32_t *)(const void *)c->slots[SLOT_CU_Q].data)[b] : 0;
    return (packed ? 0 : b * s->batch) + head * s->head + (first + i) * s->row;
}

static int64_t bias_at(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const att_strides *s = &c->problem.bias;
    return b * s->batch + h * s->head + i * s->row + j * s->col;
}

static int64_t diagonal_of(const attention_case *c, int64_t b, int64_t i) {
    const att_problem *p = &c->problem;
    const bool bottom = p->causal == ATT_CAUSAL_BOTTOM_RIGHT ||
                        (p->causal == ATT_CAUSAL_NONE && p->align == ATT_ALIGN_BOTTOM_RIGHT);
    return bottom ? i + c->len_k[b] - c->len_q[b] : i + c->offset[b];
}

bool attention_hides(const attention_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const att_problem *p = &c->problem;
    const int64_t diagonal = diagonal_of(c, b, i);
    if (j < c->start_k[b] || (p->causal != ATT_CAUSAL_NONE && j > diagonal) ||
        (p->window_left >= 0 && diagonal - j > p->window_left) ||
        (p->window_right >= 0 && j - diagonal > p->window_right))
        return true;
    return p->features & ATT_BIAS && p->bias_dtype == ATT_BOOL8 &&
           c->slots[SLOT_BIAS].data[bias_at(c, b, h, i, j)] == 0;
}

/* -------------------------------------------------------------------------- a row */

/* The arrays as float64, so that an element is converted once. */
typedef struct reference {
    const attention_case *c;
    double *q, *k, *v;
    double *score; /* of the keys of a row; -inf where hidden */
    double *o;
} reference;

/* One row: the right answer, and how far a run may be off. */
typedef struct expected_row {
    double lse;
    double top;         /* largest visible |V| */
    double score_error; /* largest of any score */
    bool sees;
} expected_row;

static double *as_doubles(const array_slot *slot, att_dtype dtype) {
    const int64_t count = (int64_t)(slot->bytes / att_dtype_size(dtype));
    double *list = malloc(((size_t)count + 1) * sizeof *list);
    for (int64_t i = 0; list && i < count; i++)
        list[i] = load_number(slot->data, dtype, i);
    return list;
}

/* The score of one key, with the bound on its error. */
static double score_of(const reference *r, int64_t b, int64_t h, int64_t i, int64_t j,
                       double *error) {
    const attention_case *c = r->c;
    const att_problem *p = &c->problem;
    const double *q = r->q + attention_row_at(c, &p->q, b, h, i);
    const double *k = r->k + attention_key_at(c, &p->k, b, h / (p->heads_q / p->heads_kv), j);
    double sum = 0.0, size = 0.0;
    for (int64_t x = 0; x < p->d_qk; x++) {
        sum += q[x] * k[x];
        size += fabs(q[x] * k[x]);
    }
    double s = sum * (double)p->scale;
    *error = size * fabs((double)p->scale) * unit * (double)(p->d_qk + 4);
    if (p->softcap > 0.0f) {
        s = (double)p->softcap * tanh(s / (double)p->softcap);
        *error += 16.0 * unit * (double)p->softcap;
    }
    if (p->features & ATT_ALIBI) {
        const double slope =
            load_number(c->slots[SLOT_ALIBI].data, ATT_F32, b * p->alibi_stride_batch + h);
        const double part = slope * (double)llabs(diagonal_of(c, b, i) - j);
        s -= part;
        *error += 2.0 * unit * fabs(part);
    }
    if (p->features & ATT_BIAS && p->bias_dtype != ATT_BOOL8) {
        const double part =
            load_number(c->slots[SLOT_BIAS].data, p->bias_dtype, bias_at(c, b, h, i, j));
        s += part;
        *error += 2.0 * unit * fabs(part);
    }
    *error += 4.0 * unit * fabs(s);
    return s;
}

static void weigh(reference *r, int64_t b, int64_t h, double top, double *sum,
                  expected_row *e) {
    const att_problem *p = &r->c->problem;
    memset(r->o, 0, (size_t)p->d_v * sizeof *r->o);
    for (int64_t j = 0; j < r->c->len_k[b]; j++) {
        if (!(r->score[j] > -(double)INFINITY))
            continue;
        const double weight = exp(r->score[j] - top);
        const double *v =
            r->v + attention_key_at(r->c, &p->v, b, h / (p->heads_q / p->heads_kv), j);
        *sum += weight;
        for (int64_t x = 0; x < p->d_v; x++) {
            r->o[x] += weight * v[x];
            e->top = fmax(e->top, fabs(v[x]));
        }
    }
}

static expected_row expect_row(reference *r, int64_t b, int64_t h, int64_t i) {
    const attention_case *c = r->c;
    const att_problem *p = &c->problem;
    expected_row e = {.lse = -(double)INFINITY};
    double top = -(double)INFINITY, sum = 0.0, error = 0.0;
    for (int64_t j = 0; j < c->len_k[b]; j++) {
        r->score[j] = -(double)INFINITY;
        if (attention_hides(c, b, h, i, j))
            continue;
        r->score[j] = score_of(r, b, h, i, j, &error);
        top = fmax(top, r->score[j]);
        e.score_error = fmax(e.score_error, error);
        e.sees = true;
    }
    if (p->features & ATT_SINKS) {
        const double sink = load_number(c->slots[SLOT_SINKS].data, ATT_F32, h);
        top = fmax(top, sink);
        sum = exp(sink - top);
    }
    weigh(r, b, h, top, &sum, &e);
    for (int64_t x = 0; x < p->d_v; x++)
        r->o[x] = e.sees ? r->o[x] / sum : 0.0;
    if (sum > 0.0)
        e.lse = top + log(sum);
    return e;
}

/* ------------------------------------------------------------------------ checks */

/* An LSE that float32 cannot hold is infinite. */
static bool is_lse(double got, double want, double bound) {
    if (isinf(want))
        return got == want;
    if (isinf(got))
        return signbit(got) == signbit(want) && fabs(want) + bound >= (double)FLT_MAX;
    return fabs(got - want) <= bound;
}

static void check_row(const reference *r, const expected_row *e, int64_t b, int64_t h,
                      int64_t i, double weight_error, const char *name) {
    const attention_case *c = r->c;
    const att_problem *p = &c->problem;
    const double share =
        2.0 * e->score_error + 2.0 * weight_error + 2.0 * unit * (double)(c->len_k[b] + 16);
    const int64_t o = attention_row_at(c, &p->o, b, h, i);
    for (int64_t x = 0; x < p->d_v; x++) {
        const double got = load_number(c->slots[SLOT_O].data, p->dtype_o, o + x);
        const double own = share * e->top;
        const double bound = own + (fabs(r->o[x]) + own) * rounding_relative(p->dtype_o) +
                             rounding_absolute(p->dtype_o);
        if (!(fabs(got - r->o[x]) <= (e->sees ? bound : 0.0))) {
            attention_print(p);
            finding("%s: o[%lld][%lld][%lld][%lld] is %.9g, not %.9g within %.3g", name,
                    (long long)b, (long long)h, (long long)i, (long long)x, got, r->o[x],
                    bound);
        }
    }
    if (!(p->features & ATT_LSE))
        return;
    const double got =
        load_number(c->slots[SLOT_LSE].data, ATT_F32, attention_row_at(c, &p->lse, b, h, i));
    const double bound = e->score_error + 2.0 * unit * (double)(c->len_k[b] + 16) +
                         weight_error + 8.0 * unit * fabs(e->lse);
    if (!is_lse(got, e->lse, bound)) {
        attention_print(p);
        finding("%s: lse[%lld][%lld][%lld] is %.9g, not %.9g within %.3g", name, (long long)b,
                (long long)h, (long long)i, got, e->lse, bound);
    }
}

static void check_values(const attention_case *c, double weight_error, const char *name) {
    const att_problem *p = &c->problem;
    reference r = {.c = c,
                   .q = as_doubles(&c->slots[SLOT_Q], p->dtype),
                   .k = as_doubles(&c->slots[SLOT_K], p->dtype),
                   .v = as_doubles(&c->slots[SLOT_V], p->dtype),
                   .score = malloc(((size_t)p->seq_k + 1) * sizeof(double)),
                   .o = malloc((size_t)p->d_v * sizeof(double))};
    if (!r.q || !r.k || !r.v || !r.score || !r.o)
        abort();
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < c->len_q[b]; i++) {
                const expected_row e = expect_row(&r, b, h, i);
                check_row(&r, &e, b, h, i, weight_error, name);
            }
    free(r.q);
    free(r.k);
    free(r.v);
    free(r.score);
    free(r.o);
}

/* Bytes of `slot` that belong to no row must be unchanged. */
static void check_padding(const attention_case *c, int slot, const att_strides *s, int64_t cols,
                          size_t size, const char *name) {
    if (!c->used[slot])
        return;
    const att_problem *p = &c->problem;
    const array_slot *a = &c->slots[slot];
    unsigned char *owned = calloc(a->bytes + 1, 1);
    if (!owned)
        abort();
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < c->len_q[b]; i++)
                memset(owned + (size_t)attention_row_at(c, s, b, h, i) * size, 1,
                       (size_t)cols * size);
    for (size_t i = 0; i < a->bytes; i++)
        if (!owned[i] && a->data[i] != OUTPUT_FILL) {
            attention_print(p);
            finding("%s: byte %zu of slot %d belongs to no row and was written", name, i, slot);
        }
    free(owned);
}

static uint64_t sum_of(const array_slot *slot) {
    uint64_t sum = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < slot->bytes; i++)
        sum = (sum ^ slot->data[i]) * UINT64_C(1099511628211);
    return sum;
}

static bool is_input(int slot) {
    return slot != SLOT_O && slot != SLOT_LSE && slot != SLOT_WORKSPACE;
}

void attention_seal(attention_case *c) {
    for (int i = 0; i < SLOT_COUNT; i++)
        if (c->used[i] && is_input(i))
            c->sums[i] = sum_of(&c->slots[i]);
}

static void check_around(const attention_case *c) {
    for (int i = 0; i < SLOT_COUNT; i++) {
        if (!c->used[i])
            continue;
        if (!array_intact(&c->slots[i])) {
            attention_print(&c->problem);
            finding("bytes around slot %d were written", i);
        }
        if (is_input(i) && sum_of(&c->slots[i]) != c->sums[i]) {
            attention_print(&c->problem);
            finding("the input in slot %d was changed", i);
        }
    }
}

void attention_check_untouched(const attention_case *c) {
    check_around(c);
    for (int slot = SLOT_O; slot <= SLOT_LSE; slot++)
        for (size_t i = 0; c->used[slot] && i < c->slots[slot].bytes; i++)
            if (c->slots[slot].data[i] != OUTPUT_FILL) {
                attention_print(&c->problem);
                finding("a refused run wrote slot %d", slot);
            }
}

void attention_check(const attention_case *c, double weight_error, bool values,
                     const char *name) {
    const att_problem *p = &c->problem;
    check_around(c);
    check_padding(c, SLOT_O, &p->o, p->d_v, att_dtype_size(p->dtype_o), name);
    check_padding(c, SLOT_LSE, &p->lse, 1, sizeof(float), name);
    if (values && c->finite)
        check_values(c, weight_error, name);
}
