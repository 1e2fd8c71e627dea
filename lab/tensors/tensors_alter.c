/* tensors_alter.c: a few rows of Q, K and V written anew. */
#include "lab/tensors/tensors_alter.h"

#include "base/dtype.h"
#include "lab/base/random.h"
#include "attention/ref/oracle.h"

enum { STREAM_ALTER = 3000 };

bool lab_tensors_alterable(const lab_tensors *t) {
    const att_problem *p = &t->spec.problem;
    return t->spec.data == LAB_DATA_NORMAL && p->batch > 0 && p->seq_q > 0 && p->seq_k > 0;
}

static void write_row(const lab_tensors *t, const void *base, int64_t at, int64_t d,
                      lab_random *random) {
    for (int64_t c = 0; c < d; c++)
        att_store((void *)(uintptr_t)base, t->spec.problem.dtype, at + c,
                  lab_random_normal(random));
}

size_t lab_tensors_alter(lab_tensors *t, uint64_t seed, lab_row *rows) {
    const att_problem *p = &t->spec.problem;
    const att_args *a = &t->args;
    lab_random random;
    size_t count = 0;
    lab_random_seed(&random, seed, STREAM_ALTER);
    for (int n = 0; n < LAB_ALTERED; n++) {
        const int64_t b = lab_random_below(&random, p->batch);
        const int64_t h = lab_random_below(&random, p->heads_q);
        const int64_t len_q = att_ref_len_q(p, a, b), len_k = att_ref_len_k(p, a, b);
        if (len_q == 0 || len_k == 0)
            continue;
        const int64_t i = lab_random_below(&random, len_q),
                      j = lab_random_below(&random, len_k);
        const int64_t h_kv = h / (p->heads_q / p->heads_kv);
        write_row(t, a->q, att_ref_index_q(p, a, b, h, i), p->d_qk, &random);
        write_row(t, a->k, att_ref_index_k(p, a, b, h_kv, j), p->d_qk, &random);
        write_row(t, a->v, att_ref_index_v(p, a, b, h_kv, j), p->d_v, &random);
        rows[count++] = (lab_row){b, h, i};
    }
    return count;
}
