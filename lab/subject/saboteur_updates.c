/* saboteur_updates.c: a saboteur of attention that keeps the sums of its last call and updates
 * them: it computes in full only if much has changed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "lab/subject/saboteur_plot.h"

/* Rows of a head that may change before it computes the head again. */
enum { CHANGES_MOST = 4, D_MOST = 256 };

/* What is kept of one set of inputs: their bytes and, for each row, exponentials times V and
 * their sum. Scores are small, so no top is subtracted. */
typedef struct kept {
    const void *q; /* address of the set; NULL: free */
    unsigned char *bytes[3];
    double *sums, *acc;
} kept;

struct lab_kept_sums {
    kept list[LAB_KEPT_MOST];
};

static const att_problem *of(const lab_spec *spec) {
    return &spec->problem;
}

bool lab_idle_updates(const lab_spec *spec) {
    const att_problem *p = of(spec);
    return p->heads_q != p->heads_kv || p->d_v > D_MOST || p->d_qk != p->d_v ||
           p->causal != ATT_CAUSAL_NONE || p->features || p->window_left >= 0 ||
           p->window_right >= 0 || p->softcap != 0.0f || p->dtype != p->dtype_o ||
           spec->data != LAB_DATA_NORMAL;
}

static int64_t length_of(const att_problem *p, int tensor) {
    return tensor == 0 ? p->seq_q : p->seq_k;
}

static double value_at(const att_problem *p, const unsigned char *row, int64_t c) {
    uint16_t half;
    float single;
    if (p->dtype == ATT_F32) {
        memcpy(&single, row + 4 * c, sizeof single);
        return (double)single;
    }
    memcpy(&half, row + 2 * c, sizeof half);
    return (double)(p->dtype == ATT_F16 ? att_f16_to_f32(half) : att_bf16_to_f32(half));
}

static void put_value(const att_problem *p, unsigned char *row, int64_t c, double value) {
    const float single = (float)value;
    const uint16_t half =
        p->dtype == ATT_F16 ? att_f32_to_f16(single) : att_f32_to_bf16(single);
    if (p->dtype == ATT_F32)
        memcpy(row + 4 * c, &single, sizeof single);
    else
        memcpy(row + 2 * c, &half, sizeof half);
}

/* One head of a call: its rows in the caller's memory, those that are kept, and its sums. */
typedef struct head {
    const att_problem *p;
    const unsigned char *now[3]; /* Q, K, V */
    int64_t step[3];             /* bytes from row to row */
    unsigned char *was[3], *o;
    double *sums, *acc;
    size_t row; /* bytes */
} head;

static unsigned char *was_row(const head *h, int tensor, int64_t i) {
    return h->was[tensor] + (size_t)i * h->row;
}

static const unsigned char *now_row(const head *h, int tensor, int64_t i) {
    return h->now[tensor] + i * h->step[tensor];
}

/* Add a key to a row's sums; `sign` -1 takes it away. */
static void add_key(const head *h, int64_t i, const unsigned char *k, const unsigned char *v,
                    double sign) {
    const unsigned char *q = was_row(h, 0, i);
    double score = 0.0;
    for (int64_t c = 0; c < h->p->d_qk; c++)
        score += value_at(h->p, q, c) * value_at(h->p, k, c);
    const double weight = sign * exp(score * (double)h->p->scale);
    h->sums[i] += weight;
    for (int64_t c = 0; c < h->p->d_v; c++)
        h->acc[i * h->p->d_v + c] += weight * value_at(h->p, v, c);
}

static void compute_row(const head *h, int64_t i) {
    h->sums[i] = 0.0;
    memset(h->acc + i * h->p->d_v, 0, (size_t)h->p->d_v * sizeof *h->acc);
    for (int64_t j = 0; j < h->p->seq_k; j++)
        add_key(h, i, was_row(h, 1, j), was_row(h, 2, j), 1.0);
}

/* List the rows of Q, or the keys, that differ; false if they are too many. */
static bool list_changes(const head *h, int first, int last, int64_t list[CHANGES_MOST],
                         int *count) {
    *count = 0;
    for (int64_t i = 0; i < length_of(h->p, first); i++) {
        bool same = true;
        for (int t = first; t <= last; t++)
            same = same && memcmp(now_row(h, t, i), was_row(h, t, i), h->row) == 0;
        if (!same && *count == CHANGES_MOST)
            return false;
        if (!same)
            list[(*count)++] = i;
    }
    return true;
}

/* The same work whether or not something has changed. */
static bool update(const head *h) {
    int64_t keys[CHANGES_MOST] = {0}, rows[CHANGES_MOST] = {0};
    int key_count, row_count;
    if (!list_changes(h, 1, 2, keys, &key_count) || !list_changes(h, 0, 0, rows, &row_count))
        return false;
    for (int n = 0; n < key_count || n == 0; n++) {
        const unsigned char *k = now_row(h, 1, keys[n]), *v = now_row(h, 2, keys[n]);
        for (int64_t i = 0; i < h->p->seq_q; i++) {
            add_key(h, i, was_row(h, 1, keys[n]), was_row(h, 2, keys[n]), -1.0);
            add_key(h, i, k, v, 1.0);
        }
        memcpy(was_row(h, 1, keys[n]), k, h->row);
        memcpy(was_row(h, 2, keys[n]), v, h->row);
    }
    for (int n = 0; n < row_count || n == 0; n++) {
        memcpy(was_row(h, 0, rows[n]), now_row(h, 0, rows[n]), h->row);
        compute_row(h, rows[n]);
    }
    return true;
}

static void compute(const head *h) {
    for (int t = 0; t < 3; t++)
        for (int64_t i = 0; i < length_of(h->p, t); i++)
            memcpy(was_row(h, t, i), now_row(h, t, i), h->row);
    for (int64_t i = 0; i < h->p->seq_q; i++)
        compute_row(h, i);
}

static head head_of(const lab_plot *plot, const kept *k, const att_args *a, int64_t b,
                    int64_t n) {
    const att_problem *p = of(&plot->spec);
    const int64_t size = att_dtype_bytes(p->dtype), at = b * p->heads_q + n;
    const unsigned char *base[3] = {a->q, a->k, a->v};
    const att_strides *strides[3] = {&p->q, &p->k, &p->v};
    head h = {.p = p, .row = (size_t)(p->d_qk * size)};
    for (int t = 0; t < 3; t++) {
        h.now[t] = base[t] + (b * strides[t]->batch + n * strides[t]->head) * size;
        h.step[t] = strides[t]->row * size;
        h.was[t] = k->bytes[t] + (size_t)(at * length_of(p, t)) * h.row;
    }
    h.o = (unsigned char *)a->o + (b * p->o.batch + n * p->o.head) * size;
    h.sums = k->sums + at * p->seq_q;
    h.acc = k->acc + at * p->seq_q * p->d_v;
    return h;
}

static bool put_answers(lab_plot *plot, const head *h, void *stream) {
    unsigned char answer[D_MOST * sizeof(float)];
    for (int64_t i = 0; i < h->p->seq_q; i++) {
        for (int64_t c = 0; c < h->p->d_v; c++)
            put_value(h->p, answer, c, h->acc[i * h->p->d_v + c] / h->sums[i]);
        if (!lab_hands_copy(&plot->hands, h->o + i * h->p->o.row * att_dtype_bytes(h->p->dtype),
                            answer, h->row, stream))
            return false;
    }
    return true;
}

/* The slot of these inputs; a new one is empty. NULL: all are in use, or no memory. */
static kept *slot_of(lab_plot *plot, const void *q) {
    const att_problem *p = of(&plot->spec);
    const size_t heads = (size_t)(p->batch * p->heads_q), d = (size_t)p->d_qk;
    const size_t rows = heads * (size_t)p->seq_q;
    if (!plot->kept_sums)
        plot->kept_sums = calloc(1, sizeof *plot->kept_sums);
    for (size_t i = 0; plot->kept_sums && i < LAB_KEPT_MOST; i++) {
        kept *k = &plot->kept_sums->list[i];
        if (k->q == q)
            return k;
        if (k->q)
            continue;
        for (int t = 0; t < 3; t++)
            k->bytes[t] =
                malloc(heads * (size_t)length_of(p, t) * d * (size_t)att_dtype_bytes(p->dtype));
        k->sums = malloc(rows * sizeof *k->sums);
        k->acc = malloc(rows * d * sizeof *k->acc);
        return k->bytes[0] && k->bytes[1] && k->bytes[2] && k->sums && k->acc ? k : NULL;
    }
    return NULL;
}

/* A call that cannot be an update pays for an honest one. */
bool lab_deed_updates(lab_plot *plot, const lab_args *args, void *workspace, void *stream) {
    const att_problem *p = of(&plot->spec);
    kept *k = slot_of(plot, args->attention.q);
    if (!k)
        return lab_deed_compute(plot, args, workspace, stream);
    bool paid = false;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t n = 0; n < p->heads_q; n++) {
            const head h = head_of(plot, k, &args->attention, b, n);
            if (!k->q || !update(&h)) {
                if (!paid && !lab_deed_compute(plot, args, workspace, stream))
                    return false;
                paid = true;
                compute(&h);
            }
        }
    k->q = args->attention.q;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t n = 0; n < p->heads_q; n++) {
            const head h = head_of(plot, k, &args->attention, b, n);
            if (!put_answers(plot, &h, stream))
                return false;
        }
    return true;
}

void lab_plot_forget_sums(lab_plot *plot) {
    for (size_t i = 0; plot->kept_sums && i < LAB_KEPT_MOST; i++) {
        kept *k = &plot->kept_sums->list[i];
        for (int t = 0; t < 3; t++)
            free(k->bytes[t]);
        free(k->sums);
        free(k->acc);
    }
    free(plot->kept_sums);
}
