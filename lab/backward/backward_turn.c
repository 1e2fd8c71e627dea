/* backward_turn.c: draws rows of the gradient of O by a seed and flips their signs.
 *
 * O and LSE do not depend on it, so they stay unchanged. About every other row is flipped: each
 * answer, a sum over rows, then changes by about its own size. */
#include "attention/ref/oracle.h"
#include "backward/ref/backward_oracle.h"
#include "base/dtype.h"
#include "lab/backward/backward_lab.h"
#include "lab/base/random.h"

enum { STREAM_TURN = 7000, STREAM_KEYS, STREAM_DRAWN = 7500 };

bool lab_backward_turnable(const lab_tensors *t) {
    return t->spec.d_o == LAB_D_O_NORMAL && lab_attention_turnable(t);
}

/* The sign is the highest bit in every type. */
static void turn_row(const lab_tensors *t, int64_t b, int64_t h, int64_t i) {
    const att_problem *p = &t->spec.problem;
    const size_t size = att_dtype_size(p->dtype_o);
    unsigned char *at = (unsigned char *)(uintptr_t)t->args.d_o +
                        att_backward_ref_index_d_o(p, &t->args, b, h, i) * (int64_t)size;
    for (int64_t c = 0; c < p->d_v; c++)
        at[(size_t)(c + 1) * size - 1] ^= 0x80;
}

/* The row of a head that is certainly flipped. */
static int64_t surely_turned(uint64_t seed, int64_t head, int64_t rows) {
    lab_random random;
    lab_random_seed(&random, seed, (uint64_t)STREAM_DRAWN + ((uint64_t)head << 16));
    return lab_random_below(&random, rows);
}

void lab_backward_turn(lab_tensors *t, uint64_t seed) {
    const att_problem *p = &t->spec.problem;
    lab_random random;
    lab_random_seed(&random, seed, STREAM_TURN);
    for (int64_t b = 0; b < p->batch && lab_backward_turnable(t); b++)
        for (int64_t h = 0; h < p->heads_q; h++) {
            const int64_t rows = att_ref_len_q(p, &t->args, b);
            const int64_t sure = rows ? surely_turned(seed, b * p->heads_q + h, rows) : 0;
            uint64_t bits = 0;
            for (int64_t i = 0; i < rows; i++, bits >>= 1) {
                if (i % 64 == 0)
                    bits = lab_random_bits(&random);
                if (bits & 1 || i == sure)
                    turn_row(t, b, h, i);
            }
        }
}

/* One row of every query head, one key of every K/V head. */
void lab_backward_drawn(lab_tensors *t, uint64_t seed,
                        void (*visit)(lab_tensors *t, lab_row row, void *context),
                        void *context) {
    const att_problem *p = &t->spec.problem;
    lab_random random;
    lab_random_seed(&random, seed, STREAM_KEYS);
    for (int64_t b = 0; b < p->batch && lab_backward_turnable(t); b++) {
        const int64_t rows = att_ref_len_q(p, &t->args, b);
        const int64_t start = att_ref_start_k(p, &t->args, b);
        const int64_t keys = att_ref_len_k(p, &t->args, b) - start;
        for (int64_t h = 0; h < p->heads_q && rows > 0; h++)
            visit(
                t,
                (lab_row){b, h, surely_turned(seed, b * p->heads_q + h, rows), LAB_SET_QUERIES},
                context);
        for (int64_t h = 0; h < p->heads_kv && keys > 0; h++)
            visit(t, (lab_row){b, h, start + lab_random_below(&random, keys), LAB_SET_KEYS},
                  context);
    }
}
