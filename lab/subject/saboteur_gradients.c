/* saboteur_gradients.c: saboteurs of backward: some gradients are right, others are not. */
#include "base/checked.h"
#include "base/dtype.h"
#include "lab/subject/saboteur_plot.h"

/* The outputs of a call, in order, and the number of rows in the tile that is left out. */
enum { OUT_D_Q, OUT_D_K, OUT_D_V, TILE_ROWS = 16 };

/* Returns the gradients of K and V of the first call; d_q is right. */
bool lab_deed_stale_keys(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    lab_kept_answer *first = &p->kept[0];
    if (!lab_deed_compute(p, args, workspace, stream))
        return false;
    if (p->calls == 0)
        return lab_plot_keep(p, first, stream);
    for (int i = OUT_D_K; i <= OUT_D_V; i++)
        if (!lab_hands_copy(&p->hands, p->output[i].data, first->copy[i], p->output[i].bytes,
                            stream))
            return false;
    return true;
}

static bool apart(const lab_spec *spec) {
    return spec->layout != LAB_PACKED;
}

bool lab_idle_stale_keys(const lab_spec *spec) {
    return !apart(spec) || spec->problem.seq_k == 0;
}

/* A few rows of d_v come from the next head. */
bool lab_deed_other_head(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    const att_problem *q = &p->spec.problem;
    const int64_t element = (int64_t)att_dtype_size(q->dtype_grad);
    unsigned char *d_v = args->attention.d_v;
    bool ok = lab_deed_compute(p, args, workspace, stream);
    for (int64_t j = 0; ok && j < att_min(q->seq_k, TILE_ROWS); j++) {
        unsigned char *row = d_v + j * q->grad_v.row * element;
        ok = lab_hands_copy(&p->hands, row, row + q->grad_v.head * element,
                            (size_t)(q->d_v * element), stream);
    }
    return ok;
}

bool lab_idle_other_head(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    return p->heads_kv < 2 || p->seq_k == 0 || p->seq_q == 0 || lab_spec_varies(spec);
}

/* The gradients of K and V miss a tile of rows: they are computed again from a d_o that is zero
 * there; d_q is put aside. */
bool lab_deed_without_a_tile(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    const att_problem *q = &p->spec.problem;
    const int64_t element = (int64_t)att_dtype_size(q->dtype_o);
    lab_args spoilt;
    if (!lab_deed_compute(p, args, workspace, stream) ||
        !lab_plot_copy_inputs(p, &spoilt, args, stream))
        return false;
    if (!p->aside)
        p->aside = lab_hands_take(&p->hands, p->output[OUT_D_Q].bytes + 64);
    if (!p->aside)
        return false;
    unsigned char *d_o = (unsigned char *)(uintptr_t)spoilt.attention.d_o;
    for (int64_t i = att_max(q->seq_q - TILE_ROWS, 0); i < q->seq_q; i++)
        if (!lab_hands_fill(&p->hands, d_o + i * q->grad_o.row * element, 0,
                            (size_t)(q->d_v * element), stream))
            return false;
    spoilt.attention.d_q = (void *)(((uintptr_t)p->aside + 63) & ~(uintptr_t)63);
    return lab_deed_compute(p, &spoilt, workspace, stream);
}

bool lab_idle_without_a_tile(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    return !apart(spec) || p->seq_k == 0 || p->seq_q == 0 || lab_spec_varies(spec);
}

/* Like sums by atomics: the last bit of a value depends on the call. */
bool lab_deed_other_bits(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    const bool ok = lab_deed_compute(p, args, workspace, stream);
    if (p->calls % 2 == 1)
        p->output[OUT_D_Q].data[0] ^= 1;
    return ok;
}
