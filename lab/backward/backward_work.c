/* backward_work.c: the work of a problem: five products over pairs of rows and keys, and
 * bytes. */
#include "backward/backward.h"
#include "lab/backward/backward_lab.h"

static double elements_of(lab_extents n, int64_t col) {
    return (double)n.batch * (double)n.head * (double)n.row * (double)col;
}

/* Q·K, d_o·V, and the three sums: of the five products, three have d_qk columns and two d_v. O
 * and d_o are read besides Q, K and V, and a gradient is written for each of the latter. */
void lab_backward_work(lab_work *work, const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const double grad = (double)att_dtype_size(p->dtype_grad),
                 out = (double)att_dtype_size(p->dtype_o);
    const lab_extents q = lab_extents_q(spec), k = lab_extents_k(spec);
    lab_attention_work(work, spec);
    work->flops = 2.0 * work->pairs * (3.0 * (double)p->d_qk + 2.0 * (double)p->d_v);
    work->bytes +=
        elements_of(q, p->d_v) * out + elements_of(q, 1) * (double)sizeof(float) +
        (elements_of(q, p->d_qk) + elements_of(k, p->d_qk) + elements_of(k, p->d_v)) * grad;
    if (p->gradients & ATT_D_BIAS) {
        lab_tensor_size list[LAB_TENSORS_MAX];
        int count;
        if (lab_backward_sizes(spec, list, &count))
            work->bytes += list[LAB_D_BIAS].touched;
    }
}
