/* curve.c: the speed of problems that differ only in size. */
#include "lab/measure/curve.h"

static const double most_below = 0.15;

static bool is_alike(const att_problem *a, const att_problem *b) {
    return a->dtype == b->dtype && a->dtype_o == b->dtype_o && a->d_qk == b->d_qk &&
           a->d_v == b->d_v && a->causal == b->causal && a->features == b->features &&
           a->window_left == b->window_left && a->window_right == b->window_right &&
           a->softcap == b->softcap && a->heads_q * b->heads_kv == b->heads_q * a->heads_kv;
}

/* Longer, or equally long with more heads. */
static bool is_larger(const att_problem *a, const att_problem *b) {
    if (a->seq_q != b->seq_q || a->seq_k != b->seq_k)
        return b->seq_q >= a->seq_q && b->seq_k >= a->seq_k;
    return b->batch * b->heads_q > a->batch * a->heads_q;
}

void lab_curve_next(const lab_bench_case *cases, size_t count, size_t step, size_t from,
                    size_t *end) {
    size_t i = from + step;
    while (i < count) {
        const lab_spec *a = cases[i - step].spec, *b = cases[i].spec;
        if (a->operation != &lab_operation_attention || b->operation != a->operation ||
            !is_alike(&a->problem, &b->problem) || !is_larger(&a->problem, &b->problem))
            break;
        i += step;
    }
    *end = i < count ? i : count;
}

static double speed_of(const lab_bench_case *c) {
    return c->timed ? lab_bench_gflops(c, c->ns.median) : 0.0;
}

double lab_fall(double before, double here, double after) {
    double fall = 0.0;
    if (here > 0.0 && here < (1.0 - most_below) * before)
        fall = 1.0 - here / before;
    if (here > 0.0 && here < before && here < (1.0 - most_below) * after &&
        1.0 - here / after > fall)
        fall = 1.0 - here / after;
    return fall;
}

double lab_curve_fall(const lab_bench_case *cases, size_t step, size_t from, size_t end,
                      size_t i) {
    const double before = i >= from + step ? speed_of(&cases[i - step]) : 0.0;
    const double after = i + step < end ? speed_of(&cases[i + step]) : 0.0;
    return lab_fall(before, speed_of(&cases[i]), after);
}
