/* moe_turn.c: draws tokens by a seed and flips the signs of their x. Their experts stay the
 * same: the weights of other experts may not be in a cache, which would make a call slower. */
#include "base/checked.h"
#include "base/dtype.h"
#include "lab/base/random.h"
#include "lab/moe/moe_lab.h"

enum { STREAM_TURNED = 8200, TURNED_MOST = 8 };

/* Every token must have an expert in this call. */
bool lab_moe_turnable(const lab_tensors *t) {
    const lab_moe_spec *m = &t->spec.moe;
    const att_moe_problem *p = &m->problem;
    return m->data == LAB_MOE_NORMAL && p->tokens > 0 && !(p->features & ATT_MOE_MASK) &&
           p->local_experts == p->experts;
}

/* One token out of each eighth of the tokens. */
void lab_moe_drawn(lab_tensors *t, uint64_t seed,
                   void (*visit)(lab_tensors *t, lab_row row, void *context), void *context) {
    const int64_t tokens = t->spec.moe.problem.tokens;
    const int64_t count = lab_moe_turnable(t) ? att_min(tokens, TURNED_MOST) : 0;
    lab_random random;
    lab_random_seed(&random, seed, STREAM_TURNED);
    for (int64_t n = 0; n < count; n++) {
        const int64_t begin = n * tokens / count, end = (n + 1) * tokens / count;
        visit(t,
              (lab_row){.i = begin + lab_random_below(&random, end - begin),
                        .set = LAB_MOE_SET_TOKENS},
              context);
    }
}

/* The sign is the highest bit in every type. */
static void turn_token(lab_tensors *t, lab_row row, void *context) {
    const att_moe_problem *p = &t->spec.moe.problem;
    const size_t size = att_dtype_size(p->dtype);
    unsigned char *x = t->buffer[LAB_MOE_X].data + row.i * p->x_row * (int64_t)size;
    (void)context;
    for (int64_t c = 0; c < p->hidden; c++)
        x[(size_t)(c + 1) * size - 1] ^= 0x80;
}

void lab_moe_turn(lab_tensors *t, uint64_t seed) {
    lab_moe_drawn(t, seed, turn_token, NULL);
}
