/* attention_fill.c: contents of the inputs: lengths, pages, bias, then Q, K and V. */
#include "lab/attention/attention_lab.h"

#include <math.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "lab/attention/mask_patterns.h"
#include "lab/base/random.h"
#include "lab/base/workers.h"
#include "attention/ref/oracle.h"

/* One random stream per tensor, so that a change to one does not affect the others. */
enum {
    STREAM_Q,
    STREAM_K,
    STREAM_V,
    STREAM_BIAS,
    STREAM_HIDE,
    STREAM_SINKS,
    STREAM_PAGES,
    STREAM_POINTERS = 1 << 20 /* + key */
};

typedef struct filler {
    const lab_spec *spec;
    const att_problem *p;
    const att_args *args;
    lab_buffer *buffer;
    uint64_t seed;
    lab_random random;
} filler;

static void start_stream(filler *f, uint64_t stream) {
    lab_random_seed(&f->random, f->seed, stream);
}

static int32_t *integers(const filler *f, lab_tensor tensor) {
    return (int32_t *)(void *)f->buffer[tensor].data;
}

static float *floats(const filler *f, lab_tensor tensor) {
    return (float *)(void *)f->buffer[tensor].data;
}

/* ------------------------------------------------- lengths, pages, per head */

static void fill_lengths(const filler *f) {
    const unsigned features = f->p->features;
    int64_t total_q = 0, total_k = 0;
    if (!lab_spec_varies(f->spec))
        return;
    for (int64_t b = 0; b <= f->p->batch; b++) {
        if (features & ATT_CU_SEQLENS_Q)
            integers(f, LAB_CU_Q)[b] = (int32_t)total_q;
        if (features & ATT_CU_SEQLENS_K)
            integers(f, LAB_CU_K)[b] = (int32_t)total_k;
        if (b == f->p->batch)
            break;
        if (features & ATT_LENS_K)
            integers(f, LAB_LENS_K)[b] = (int32_t)lab_spec_len_k(f->spec, b);
        if (features & ATT_STARTS_K)
            integers(f, LAB_STARTS_K)[b] = (int32_t)lab_spec_start_k(f->spec, b);
        if (features & ATT_Q_OFFSETS)
            integers(f, LAB_Q_OFFSETS)[b] = (int32_t)lab_spec_q_offset(f->spec, b);
        if (features & ATT_K_OFFSETS)
            integers(f, LAB_K_OFFSETS)[b] = (int32_t)lab_spec_k_offset(f->spec, b);
        total_q += lab_spec_len_q(f->spec, b);
        total_k += lab_spec_room_k(f->spec, b);
    }
}

/* The physical page of the n-th of `count` logical ones: a stride that shares no factor with
 * the count visits each page once. */
static int32_t permuted(int64_t n, int64_t count, int64_t step, int64_t start) {
    return (int32_t)((start + n * step) % count);
}

static int64_t coprime_step(int64_t count, int64_t from) {
    for (int64_t step = from % count + 1;; step++) {
        int64_t a = step, b = count;
        while (b) {
            const int64_t r = a % b;
            a = b;
            b = r;
        }
        if (a == 1)
            return step;
    }
}

static void fill_pages(filler *f) {
    const att_problem *p = f->p;
    const int64_t pages = att_ceil_div(p->seq_k, p->page_size);
    if (p->page_table_stride == 0)
        return;
    start_stream(f, STREAM_PAGES);
    const int64_t start = lab_random_below(&f->random, p->num_pages);
    const int64_t step = coprime_step(p->num_pages, lab_random_below(&f->random, INT32_MAX));
    for (int64_t b = 0; b < p->batch; b++) {
        int32_t *table = integers(f, LAB_PAGE_TABLE) + b * p->page_table_stride;
        for (int64_t n = 0; n < p->page_table_stride; n++) {
            const int64_t logical = n == 0 ? 0 : 1 + b * (pages - 1) + n - 1;
            table[n] = n < pages ? permuted(logical, p->num_pages, step, start) : -1;
        }
    }
}

static void fill_per_head(filler *f) {
    const att_problem *p = f->p;
    if (p->features & ATT_ALIBI)
        for (int64_t b = 0; b < (f->spec->alibi_per_batch ? p->batch : 1); b++)
            for (int64_t h = 0; h < p->heads_q; h++)
                floats(f, LAB_ALIBI)[b * p->heads_q + h] = 0.5f / (float)(1 + h + b);
    if (p->features & ATT_SINKS) {
        start_stream(f, STREAM_SINKS);
        for (int64_t h = 0; h < p->heads_q; h++)
            floats(f, LAB_SINKS)[h] = lab_random_normal(&f->random);
    }
}

/* --------------------------------------------------------------------- bias */

static bool draw_hidden(const filler *f, lab_random *hide, const lab_mask_place *at) {
    const bool is_bool = f->p->bias_dtype == ATT_BOOL8;
    const int64_t one_in = f->spec->bias_fill == LAB_BIAS_TENTH ? 10 : 3;
    const bool drawn = lab_random_below(hide, one_in) == 0;
    switch (f->spec->bias_fill) {
    case LAB_BIAS_HIDE:
    case LAB_BIAS_TENTH:
        return drawn;
    case LAB_BIAS_HIDE_ROWS:
        return drawn || at->i % 3 == 1;
    case LAB_BIAS_NORMAL:
    case LAB_BIAS_POSITIVE_INF:
        return is_bool && drawn; /* a boolean mask that hides nothing would test nothing */
    default:
        return lab_mask_hides(f->spec->bias_fill, at);
    }
}

/* The rows of the bias of one batch entry: that many per head, with that many columns. They are
 * filled in pieces of a few thousand elements, in parallel. */
enum { BIAS_PIECE = 8192 };

typedef struct bias_rows {
    const filler *f;
    int64_t b, len_q, len_k, heads, rows, columns;
    int64_t piece;  /* rows */
    uint64_t drawn; /* random numbers of both streams used before this entry */
} bias_rows;

static float bias_value(const filler *f, lab_random *random, const lab_mask_place *at) {
    const float value = lab_random_normal(random);
    const bool infinite =
        f->spec->bias_fill == LAB_BIAS_POSITIVE_INF && at->i % 7 == 3 && at->j == at->len_k / 2;
    return infinite ? INFINITY : value;
}

/* Row n of all heads. */
static void fill_bias_row(const bias_rows *r, int64_t n, lab_random *hide, lab_random *random) {
    const filler *f = r->f;
    const att_problem *p = f->p;
    const int64_t h = n / r->rows, i = n % r->rows;
    for (int64_t j = 0; j < r->columns; j++) {
        const int64_t at =
            r->b * p->bias.batch + h * p->bias.head + i * p->bias.row + j * p->bias.col;
        const lab_mask_place place = {r->b, i, j, r->len_q, r->len_k};
        const bool hidden = draw_hidden(f, hide, &place);
        const float value = bias_value(f, random, &place);
        if (p->bias_dtype == ATT_BOOL8)
            f->buffer[LAB_BIAS].data[at] = !hidden;
        else
            att_store(f->buffer[LAB_BIAS].data, p->bias_dtype, at, hidden ? -INFINITY : value);
    }
}

static void fill_bias_piece(void *context, int64_t piece) {
    const bias_rows *r = context;
    const int64_t first = piece * r->piece, end = att_min(first + r->piece, r->heads * r->rows);
    const uint64_t drawn = r->drawn + (uint64_t)(first * r->columns);
    lab_random hide, random;
    lab_random_seed(&hide, r->f->seed, STREAM_HIDE);
    lab_random_seed(&random, r->f->seed, STREAM_BIAS);
    lab_random_jump(&hide, drawn);
    lab_random_jump(&random, drawn);
    for (int64_t n = first; n < end; n++)
        fill_bias_row(r, n, &hide, &random);
}

static void fill_bias(const filler *f) {
    const att_problem *p = f->p;
    const bool *one = f->spec->bias_broadcast;
    bias_rows r = {.f = f, .heads = one[1] ? 1 : p->heads_q};
    for (r.b = 0; r.b < (one[0] ? att_min(p->batch, 1) : p->batch); r.b++) {
        /* If the batch shares it: all lengths; otherwise this entry's, and poison beyond. */
        r.len_q = one[0] ? p->seq_q : lab_spec_len_q(f->spec, r.b);
        r.len_k = one[0] ? p->seq_k : lab_spec_len_k(f->spec, r.b);
        r.rows = one[2] ? att_min(r.len_q, 1) : r.len_q;
        r.columns = one[3] ? att_min(r.len_k, 1) : r.len_k;
        r.piece = att_max(1, BIAS_PIECE / att_max(1, r.columns));
        lab_workers_run(att_ceil_div(r.heads * r.rows, r.piece), fill_bias_piece, &r);
        r.drawn += (uint64_t)(r.heads * r.rows * r.columns);
    }
}

/* The keys that row i of batch entry b sees, ignoring the bias: [*lo, *hi). */
static void visible(const filler *f, int64_t b, int64_t i, int64_t *lo, int64_t *hi) {
    const att_ref_sequence s = lab_spec_sequence(f->spec, b);
    att_ref_visible(f->p, &s, i, lo, hi);
}

/* NaN wherever causal, window, length or start hide the key anyway. */
static void poison_masked_bias(const filler *f) {
    const att_problem *p = f->p;
    const bool *one = f->spec->bias_broadcast;
    if (one[0] || one[1] || one[2] || one[3] || p->bias_dtype == ATT_BOOL8)
        return; /* a shared element may be visible elsewhere */
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < lab_spec_len_q(f->spec, b); i++) {
                int64_t lo, hi;
                visible(f, b, i, &lo, &hi);
                for (int64_t j = 0; j < lab_spec_len_k(f->spec, b); j++)
                    if (j < lo || j >= hi)
                        att_store(f->buffer[LAB_BIAS].data, p->bias_dtype,
                                  b * p->bias.batch + h * p->bias.head + i * p->bias.row +
                                      j * p->bias.col,
                                  NAN);
            }
}

/* ------------------------------------------------------------- q, k, v rows */

/* A vector that is fixed for each key: rows of Q that copy it point at that key. */
static void make_pointer(const filler *f, int64_t j, float *row, int64_t d) {
    lab_random random;
    lab_random_seed(&random, f->seed, STREAM_POINTERS + (uint64_t)j);
    for (int64_t c = 0; c < d; c++)
        row[c] = 2.5f * lab_random_normal(&random);
}

static float denormal_unit(att_dtype dtype) {
    return dtype == ATT_F16 ? 0x1p-20f : 0x1p-130f;
}

enum { PIECE_MAX = 4096 }; /* a row is made in a buffer of this many elements, piece by piece */

/* Row `n` of `length` (query or key index) of Q, K or V, with d columns. */
static void make_row(const filler *f, lab_random *random, lab_tensor tensor, int64_t n,
                     int64_t length, float *row, int64_t d) {
    lab_random_normals(random, row, d);
    const bool scores = tensor != LAB_V; /* Q and K make the scores; V stays normal in most */
    switch (f->spec->data) {
    case LAB_DATA_HUGE:
        for (int64_t c = 0; scores && c < d; c++)
            row[c] *= 512.0f;
        break;
    case LAB_DATA_ONEHOT:
        if (scores)
            make_pointer(f, tensor == LAB_Q ? n % att_max(f->p->seq_k, 1) : n, row, d);
        break;
    case LAB_DATA_EQUAL:
        for (int64_t c = 0; tensor == LAB_K && c < d; c++)
            row[c] = 0.5f;
        break;
    case LAB_DATA_DENORMAL:
        for (int64_t c = 0; c < d; c++)
            row[c] *= denormal_unit(f->p->dtype);
        break;
    case LAB_DATA_ZERO:
        for (int64_t c = 0; c < d; c++)
            row[c] = copysignf(0.0f, row[c]);
        break;
    case LAB_DATA_RAMP:
        for (int64_t c = 0; scores && c < d; c++)
            row[c] = tensor == LAB_Q ? 1.0f + 0.125f * row[c]
                                     : 32.0f * (float)n / ((float)length * sqrtf((float)d));
        break;
    case LAB_DATA_OVERFLOW: /* only through the last column, which is 0 in the other rows of
                             * Q */
        if (scores && f->p->dtype != ATT_F16)
            row[d - 1] = tensor == LAB_K ? 0x1p64f : n % 3 == 1 ? 0x1p70f : 0.0f;
        break;
    case LAB_DATA_SHIFT:
        for (int64_t c = 0; tensor == LAB_K && c < d; c++)
            row[c] += 16.0f;
        break;
    default:
        break;
    }
}

static void store_row(const filler *f, lab_random *random, lab_tensor tensor, void *base,
                      int64_t at, int64_t n, int64_t length, int64_t d) {
    float row[PIECE_MAX];
    for (int64_t c = 0; c < d; c += PIECE_MAX) {
        const int64_t piece = att_min(d - c, PIECE_MAX);
        make_row(f, random, tensor, n, length, row, piece);
        for (int64_t i = 0; i < piece; i++)
            att_store(base, f->p->dtype, at + c + i, row[i]);
    }
}

static bool sees_nothing(const filler *f, int64_t b, int64_t i) {
    int64_t lo, hi;
    visible(f, b, i, &lo, &hi);
    return lo >= hi;
}

/* Whether some row of some query head of the group sees key j. */
static bool is_seen(const filler *f, int64_t b, int64_t h_kv, int64_t j) {
    const att_problem *p = f->p;
    const int64_t group = p->heads_q / p->heads_kv;
    for (int64_t i = 0; i < lab_spec_len_q(f->spec, b); i++) {
        int64_t lo, hi;
        visible(f, b, i, &lo, &hi);
        for (int64_t h = h_kv * group; j >= lo && j < hi && h < (h_kv + 1) * group; h++)
            if (!att_ref_bias_hides(p, f->args, b, h, i, j))
                return true;
    }
    return false;
}

enum { SPARSE_FRONT = 64, SPARSE_BACK = 4096 };

static bool wants_row(const filler *f, int64_t b, int64_t h_kv, int64_t j, int64_t keys) {
    switch (f->spec->data) {
    case LAB_DATA_SPARSE:
        return j < SPARSE_FRONT || j >= keys - SPARSE_BACK;
    case LAB_DATA_NAN_MASKED:
        return is_seen(f, b, h_kv, j); /* the others keep the poison */
    default:
        return true;
    }
}

/* For 16-bit types, the largest factor for which sums of products still fit. */
static float huge_factor(att_dtype dtype) {
    return dtype == ATT_F16 ? 0x1p10f : 0x1p50f;
}

static void enlarge_row(void *base, att_dtype dtype, int64_t at, int64_t d) {
    for (int64_t c = 0; c < d; c++)
        att_store(base, dtype, at + c, att_load(base, dtype, at + c) * huge_factor(dtype));
}

/* ------------------------------------------------------------- rows side by side */

/* Adjacent rows of one sequence, and where their numbers start in the tensor's stream. */
enum { STRIP_ROWS = 64, STRIPS = 1024 };

typedef struct strip {
    int64_t b, h, first, count;
    uint64_t
        wanted; /* one bit per row: the others keep the poison, and no numbers are drawn for
                 * them */
    uint64_t drawn;
} strip;

typedef struct row_fill {
    const filler *f;
    lab_tensor tensor;
    void *base;
    uint64_t stream, drawn;
    int64_t d;
    int64_t count;
    strip strips[STRIPS];
} row_fill;

static int64_t rows_of(const row_fill *r, int64_t b) {
    return r->tensor == LAB_Q ? lab_spec_len_q(r->f->spec, b) : lab_spec_len_k(r->f->spec, b);
}

static int64_t index_of(const row_fill *r, int64_t b, int64_t h, int64_t n) {
    const filler *f = r->f;
    return r->tensor == LAB_Q   ? att_ref_index_q(f->p, f->args, b, h, n)
           : r->tensor == LAB_K ? att_ref_index_k(f->p, f->args, b, h, n)
                                : att_ref_index_v(f->p, f->args, b, h, n);
}

static bool is_wanted(const row_fill *r, int64_t b, int64_t h, int64_t n) {
    if (r->tensor != LAB_Q)
        return wants_row(r->f, b, h, n, rows_of(r, b));
    return r->f->spec->data != LAB_DATA_NAN_MASKED || !sees_nothing(r->f, b, n);
}

static void choose_rows(void *context, int64_t i) {
    row_fill *r = context;
    strip *s = &r->strips[i];
    s->wanted = 0;
    for (int64_t n = 0; n < s->count; n++)
        s->wanted |= (uint64_t)is_wanted(r, s->b, s->h, s->first + n) << n;
}

static void fill_strip(void *context, int64_t i) {
    const row_fill *r = context;
    const strip *s = &r->strips[i];
    const filler *f = r->f;
    const bool enlarges = r->tensor != LAB_Q && f->spec->data == LAB_DATA_HUGE_MASKED;
    lab_random random;
    if (!s->wanted && !enlarges)
        return;
    lab_random_seed(&random, f->seed, r->stream);
    lab_random_jump(&random, s->drawn);
    for (int64_t n = s->first; n < s->first + s->count; n++) {
        const int64_t at = index_of(r, s->b, s->h, n);
        if (s->wanted >> (n - s->first) & 1)
            store_row(f, &random, r->tensor, r->base, at, n, rows_of(r, s->b), r->d);
        if (enlarges && !is_seen(f, s->b, s->h, n))
            enlarge_row(r->base, f->p->dtype, at, r->d);
    }
}

static void fill_strips(row_fill *r) {
    lab_workers_run(r->count, choose_rows, r);
    for (int64_t i = 0; i < r->count; i++) {
        r->strips[i].drawn = r->drawn;
        for (uint64_t left = r->strips[i].wanted; left; left &= left - 1)
            r->drawn += (uint64_t)r->d;
    }
    lab_workers_run(r->count, fill_strip, r);
    r->count = 0;
}

/* If batch entries share elements, the last entry's values stay: they are filled one after the
 * other. */
static bool share_elements(const filler *f, lab_tensor tensor) {
    return tensor != LAB_Q && (f->p->features & ATT_PAGED || f->spec->broadcast_batch);
}

static void fill_rows(const filler *f, lab_tensor tensor) {
    const att_problem *p = f->p;
    const bool shared = share_elements(f, tensor);
    const int64_t heads = tensor == LAB_Q            ? p->heads_q
                          : f->spec->broadcast_heads ? 1
                                                     : p->heads_kv;
    row_fill r = {.f = f,
                  .tensor = tensor,
                  .base = (void *)(uintptr_t)(tensor == LAB_Q   ? f->args->q
                                              : tensor == LAB_K ? f->args->k
                                                                : f->args->v),
                  .stream = tensor == LAB_Q   ? STREAM_Q
                            : tensor == LAB_K ? STREAM_K
                                              : STREAM_V,
                  .d = tensor == LAB_V ? p->d_v : p->d_qk};
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < heads; h++)
            for (int64_t first = 0; first < rows_of(&r, b); first += STRIP_ROWS) {
                r.strips[r.count++] =
                    (strip){b, h, first, att_min(STRIP_ROWS, rows_of(&r, b) - first), 0, 0};
                if (r.count == STRIPS)
                    fill_strips(&r);
            }
        if (shared)
            fill_strips(&r);
    }
    fill_strips(&r);
}

/* ----------------------------------------------------- values that are not finite */

static void put_v(const filler *f, int64_t b, int64_t j, int64_t column, float value) {
    att_store((void *)(uintptr_t)f->args->v, f->p->dtype,
              att_ref_index_v(f->p, f->args, b, 0, j) + column, value);
}

static void put_specials(const filler *f) {
    const att_problem *p = f->p;
    if (p->batch == 0)
        return;
    const int64_t b = p->batch - 1, keys = lab_spec_len_k(f->spec, b);
    if (keys == 0)
        return;
    if (f->spec->data == LAB_DATA_NAN_VISIBLE) {
        att_store((void *)(uintptr_t)f->args->k, p->dtype,
                  att_ref_index_k(p, f->args, b, 0, keys / 2), NAN);
        put_v(f, b, keys / 3, p->d_v / 2, NAN);
    }
    if (f->spec->data == LAB_DATA_INF_V) {
        put_v(f, b, keys / 2, 0, INFINITY);
        put_v(f, b, keys / 3, p->d_v / 2, -INFINITY);
        put_v(f, b, keys / 2, p->d_v - 1, INFINITY);
        put_v(f, b, keys / 3, p->d_v - 1, -INFINITY);
    }
}

/* Besides NaN, infinities must not leak either: every other hidden row of V gets them. */
static void put_hidden_infinities(const filler *f) {
    const att_problem *p = f->p;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_kv; h++)
            for (int64_t j = 0; j < lab_spec_len_k(f->spec, b); j += 2)
                for (int64_t c = 0; c < p->d_v; c++)
                    att_store((void *)(uintptr_t)f->args->v, p->dtype,
                              att_ref_index_v(p, f->args, b, h, j) + c, INFINITY);
}

bool lab_attention_fill(lab_tensors *t, uint64_t seed, lab_message *why) {
    (void)why;
    filler f = {.spec = &t->spec,
                .p = &t->spec.problem,
                .args = &t->args,
                .buffer = t->buffer,
                .seed = seed};
    fill_lengths(&f);
    if (f.p->features & ATT_PAGED)
        fill_pages(&f);
    fill_per_head(&f);
    if (lab_spec_is_empty(&t->spec))
        return true;
    if (f.p->features & ATT_BIAS) {
        fill_bias(&f);
        if (t->spec.data == LAB_DATA_NAN_MASKED)
            poison_masked_bias(&f);
    }
    fill_rows(&f, LAB_Q);
    fill_rows(&f, LAB_K);
    if (t->spec.data == LAB_DATA_NAN_MASKED)
        put_hidden_infinities(&f); /* visible rows overwrite them */
    fill_rows(&f, LAB_V);
    put_specials(&f);
    return true;
}
