/* backward_fill.c: contents of the inputs: those of attention, the gradient of O, then O and
 * LSE. */
#include <math.h>

#include "attention/ref/oracle.h"
#include "backward/ref/backward_oracle.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "lab/backward/backward_lab.h"
#include "lab/base/random.h"

enum { STREAM_D_O = 6000 };

static float factor_of(const lab_spec *spec) {
    const bool f16 = spec->problem.dtype_o == ATT_F16 || spec->problem.dtype == ATT_F16 ||
                     spec->problem.dtype_grad == ATT_F16;
    switch (spec->d_o) {
    case LAB_D_O_TINY:
        return f16 ? 0x1p-20f : 0x1p-120f;
    case LAB_D_O_HUGE:
        return f16 ? 0x1p7f : 0x1p90f;
    case LAB_D_O_ZERO:
        return 0.0f;
    default:
        return 1.0f;
    }
}

/* Rows that see no key do not affect any gradient except a sink's. */
static bool is_read(const lab_tensors *t, int64_t b, int64_t i) {
    const att_problem *p = &t->spec.problem;
    int64_t lo, hi;
    const att_ref_sequence s = lab_spec_sequence(&t->spec, b);
    att_ref_visible(p, &s, i, &lo, &hi);
    return lo < hi || t->spec.data != LAB_DATA_NAN_MASKED || p->gradients & ATT_D_SINKS;
}

static void fill_d_o(lab_tensors *t, uint64_t seed) {
    const att_problem *p = &t->spec.problem;
    const float factor = factor_of(&t->spec);
    lab_random random;
    lab_random_seed(&random, seed, STREAM_D_O);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < lab_spec_len_q(&t->spec, b); i++) {
                const int64_t at = att_backward_ref_index_d_o(p, &t->args, b, h, i);
                for (int64_t c = 0; is_read(t, b, i) && c < p->d_v; c++)
                    att_store((void *)(uintptr_t)t->args.d_o, p->dtype_o, at + c,
                              factor * lab_random_normal(&random));
            }
}

bool lab_backward_fill(lab_tensors *t, uint64_t seed, lab_message *why) {
    if (!lab_attention_fill(t, seed, why))
        return false;
    if (lab_spec_is_empty(&t->spec))
        return true;
    fill_d_o(t, seed);
    return lab_backward_forward(t, seed, why);
}
