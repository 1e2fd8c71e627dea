/* attention_turn.c: draws rows of Q, K and V by a seed and flips their signs. */
#include "lab/attention/attention_lab.h"

#include "base/dtype.h"
#include "lab/base/random.h"
#include "attention/ref/oracle.h"

enum { STREAM_TURN = 4000 };

bool lab_attention_turnable(const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    return t->spec.data == LAB_DATA_NORMAL && p->batch > 0 && p->seq_q > 0 && p->seq_k > 0;
}

/* The rows drawn for one K/V head. */
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
    for (int64_t b = 0; b < p->batch && lab_attention_turnable(t); b++) {
        const int64_t rows = att_ref_len_q(p, &t->args, b);
        const int64_t start = att_ref_start_k(p, &t->args, b);
        const int64_t keys = att_ref_len_k(p, &t->args, b) - start;
        for (int64_t h_kv = 0; h_kv < p->heads_kv && rows > 0 && keys > 0; h_kv++) {
            drawn at = {.b = b, .h_kv = h_kv};
            at.h = h_kv * group + lab_random_below(&random, group);
            at.i = lab_random_below(&random, rows);
            /* Under a causal mask every row sees the first key, and few see the last. */
            at.j = start + (lab_random_below(&random, 2) ? lab_random_below(&random, keys) : 0);
            visit(t, &at, context);
        }
    }
}

/* The sign is the highest bit in every type. */
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

void lab_attention_turn(lab_tensors *t, uint64_t seed) {
    for_drawn(t, seed, turn_drawn, NULL);
}

typedef struct visitor {
    void (*visit)(lab_tensors *t, lab_row row, void *context);
    void *context;
} visitor;

static void visit_drawn(lab_tensors *t, const drawn *at, void *context) {
    const visitor *v = context;
    v->visit(t, (lab_row){at->b, at->h, at->i, 0}, v->context);
}

void lab_attention_drawn(lab_tensors *t, uint64_t seed,
                         void (*visit)(lab_tensors *t, lab_row row, void *context),
                         void *context) {
    visitor v = {visit, context};
    for_drawn(t, seed, visit_drawn, &v);
}
