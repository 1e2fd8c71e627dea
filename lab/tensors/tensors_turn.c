/* tensors_turn.c: rows drawn by a seed, their signs turned, their answers poisoned. */
#include "lab/tensors/tensors_turn.h"

#include <string.h>

#include "base/dtype.h"
#include "lab/base/random.h"
#include "attention/ref/oracle.h"

enum { STREAM_TURN = 4000 };

bool lab_tensors_turnable(const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    return t->spec.data == LAB_DATA_NORMAL && p->batch > 0 && p->seq_q > 0 && p->seq_k > 0;
}

/* What is drawn for one K/V head. */
typedef struct drawn {
    int64_t b, h, h_kv;
    int64_t i, j; /* a row of Q, a key */
} drawn;

/* Calls `visit` for every K/V head that has rows and keys. */
static void for_drawn(lab_tensors *t, uint64_t seed,
                      void (*visit)(lab_tensors *t, const drawn *at, void *context),
                      void *context) {
    const att_problem *p = &t->spec.problem;
    const int64_t group = p->heads_kv > 0 ? p->heads_q / p->heads_kv : 0;
    lab_random random;
    lab_random_seed(&random, seed, STREAM_TURN);
    for (int64_t b = 0; b < p->batch && lab_tensors_turnable(t); b++) {
        const int64_t rows = att_ref_len_q(p, &t->args, b);
        const int64_t keys = att_ref_len_k(p, &t->args, b);
        for (int64_t h_kv = 0; h_kv < p->heads_kv && rows > 0 && keys > 0; h_kv++) {
            drawn at = {.b = b, .h_kv = h_kv};
            at.h = h_kv * group + lab_random_below(&random, group);
            at.i = lab_random_below(&random, rows);
            /* Under a causal mask every row sees the first key, and few the last. */
            at.j = lab_random_below(&random, 2) ? lab_random_below(&random, keys) : 0;
            visit(t, &at, context);
        }
    }
}

/* The sign is the highest bit of every type. */
static void turn_row(const lab_tensors *t, const void *base, int64_t element, int64_t d) {
    const size_t size = att_dtype_size(t->spec.problem.dtype);
    unsigned char *at = (unsigned char *)(uintptr_t)base + element * (int64_t)size;
    for (int64_t c = 0; c < d; c++)
        at[(size_t)(c + 1) * size - 1] ^= 0x80;
}

static void turn_drawn(lab_tensors *t, const drawn *at, void *context) {
    (void)context;
    const att_problem *p = &t->spec.problem;
    const att_args *a = &t->args;
    turn_row(t, a->q, att_ref_index_q(p, a, at->b, at->h, at->i), p->d_qk);
    turn_row(t, a->k, att_ref_index_k(p, a, at->b, at->h_kv, at->j), p->d_qk);
    turn_row(t, a->v, att_ref_index_v(p, a, at->b, at->h_kv, at->j), p->d_v);
}

void lab_tensors_turn(lab_tensors *t, uint64_t seed) {
    for_drawn(t, seed, turn_drawn, NULL);
}

typedef struct row_list {
    lab_row *rows;
    size_t count;
    int64_t seen, step;
} row_list;

static void list_drawn(lab_tensors *t, const drawn *at, void *context) {
    row_list *list = context;
    (void)t;
    if (list->seen++ % list->step == 0 && list->count < LAB_TURNED)
        list->rows[list->count++] = (lab_row){at->b, at->h, at->i};
}

size_t lab_tensors_turned_rows(lab_tensors *t, uint64_t seed, lab_row *rows) {
    const att_problem *p = &t->spec.problem;
    row_list list = {.rows = rows, .step = 1 + p->batch * p->heads_kv / LAB_TURNED};
    for_drawn(t, seed, list_drawn, &list);
    return list.count;
}

static void poison_row(lab_tensors *t, int64_t b, int64_t h, int64_t i) {
    const att_problem *p = &t->spec.problem;
    const size_t size = att_dtype_size(p->dtype_o);
    const int64_t o = att_ref_index_o(p, &t->args, b, h, i);
    memset(t->buffer[LAB_O].data + o * (int64_t)size, LAB_POISON, (size_t)p->d_v * size);
    if (p->features & ATT_LSE)
        memset(t->args.lse + att_ref_index_lse(p, &t->args, b, h, i), LAB_POISON,
               sizeof(float));
}

static void poison_drawn(lab_tensors *t, const drawn *at, void *context) {
    (void)context;
    poison_row(t, at->b, at->h, at->i);
}

void lab_tensors_mark(lab_tensors *t, uint64_t seed) {
    const att_problem *p = &t->spec.problem;
    for_drawn(t, seed, poison_drawn, NULL);
    for (int64_t b = 0; b < p->batch; b++)
        if (p->heads_q > 0 && att_ref_len_q(p, &t->args, b) > 0) {
            poison_row(t, b, 0, 0);
            break;
        }
}
