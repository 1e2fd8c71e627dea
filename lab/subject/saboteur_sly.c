/* saboteur_sly.c: saboteurs that tell calls apart: by the clock, by the contents of O, by
 * inputs that they have seen. */
#include <fenv.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "lab/base/clock.h"
#include "lab/subject/saboteur_plot.h"
#include "lab/tensors/buffer.h"

/* A pause that, the saboteur hopes, only a judge makes; and how often inputs must come before
 * they are worth remembering. */
enum { REST_NS = 3000, SIGHTS = 5 };

/* -------------------------------------------------------------------------- the clock */

/* Whether the last call ended long ago. */
static bool is_rested(const lab_plot *p) {
    return lab_clock_ns() - p->last_end > REST_NS;
}

/* A call that skips reads the clock once: even where that is slow, the saving must still
 * show. */
static bool compute_unless(lab_plot *p, bool may_skip, const lab_args *args, void *workspace,
                           void *stream) {
    const uint64_t now = lab_clock_ns();
    if (may_skip && now - p->last_end <= REST_NS) {
        p->last_end = now;
        return true;
    }
    const bool ok = lab_deed_compute(p, args, workspace, stream);
    p->last_end = lab_clock_ns();
    return ok;
}

bool lab_deed_when_rested(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    return compute_unless(p, true, args, workspace, stream);
}

bool lab_deed_when_rested_or_poisoned(lab_plot *p, const lab_args *args, void *workspace,
                                      void *stream) {
    return compute_unless(p, lab_plot_is_finished(p), args, workspace, stream);
}

bool lab_deed_blunt_when_hurried(lab_plot *p, const lab_args *args, void *workspace,
                                 void *stream) {
    lab_deed *deed = is_rested(p) ? lab_deed_compute : lab_deed_seven_bits;
    const bool ok = deed(p, args, workspace, stream);
    p->last_end = lab_clock_ns();
    return ok;
}

/* --------------------------------------------------------------------- what lies in O */

bool lab_deed_every_other(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    p->skipped = !p->skipped && lab_plot_is_finished(p);
    return p->skipped || lab_deed_compute(p, args, workspace, stream);
}

bool lab_deed_blunt_when_finished(lab_plot *p, const lab_args *args, void *workspace,
                                  void *stream) {
    return (lab_plot_is_finished(p) ? lab_deed_seven_bits : lab_deed_compute)(
        p, args, workspace, stream);
}

/* ------------------------------------------------------------------------ what was met */

bool lab_deed_new_address(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    const bool same = p->last_input == p->input[0].data;
    p->last_input = p->input[0].data;
    return same || lab_deed_compute(p, args, workspace, stream);
}

bool lab_deed_fifth_sight(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    lab_kept_answer *k = lab_plot_place(p, lab_plot_hash_inputs(p));
    if (k->sights++ >= SIGHTS)
        return lab_plot_hand_out(p, k, stream);
    return lab_deed_compute(p, args, workspace, stream) && lab_plot_keep(p, k, stream);
}

/* ------------------------------------------------------------- attention, head by head */

static const unsigned char *row_of(const lab_plot *p, const void *base, const att_strides *s,
                                   int64_t b, int64_t h, int64_t i) {
    return (const unsigned char *)base + (b * s->batch + h * s->head + i * s->row) *
                                             (int64_t)att_dtype_size(p->spec.problem.dtype);
}

/* A hash of everything that the rows of one K/V head read, and of one value that they wrote. */
static uint64_t hash_head(const lab_plot *p, const att_args *args, int64_t b, int64_t h_kv) {
    const att_problem *q = &p->spec.problem;
    const int64_t group = q->heads_q / q->heads_kv;
    const size_t row = (size_t)q->d_qk * att_dtype_size(q->dtype);
    uint64_t hash = 1;
    for (int64_t h = h_kv * group; h < (h_kv + 1) * group; h++)
        for (int64_t i = 0; i < q->seq_q; i++)
            hash = lab_hash(hash, row_of(p, args->q, &q->q, b, h, i), row);
    for (int64_t j = 0; j < q->seq_k; j++) {
        hash = lab_hash(hash, row_of(p, args->k, &q->k, b, h_kv, j), row);
        hash = lab_hash(hash, row_of(p, args->v, &q->v, b, h_kv, j), row);
    }
    return hash;
}

static bool open_heads(lab_plot *p, att_context *ctx) {
    att_problem one = p->spec.problem;
    one.heads_q = p->spec.problem.heads_q / p->spec.problem.heads_kv;
    one.heads_kv = one.batch = 1;
    p->head_hash = calloc((size_t)(p->spec.problem.batch * p->spec.problem.heads_kv),
                          sizeof *p->head_hash);
    return p->head_hash && att_plan_create(&p->other, ctx, &one) == ATT_OK;
}

static bool compute_head(lab_plot *p, const att_args *args, int64_t b, int64_t h_kv,
                         void *workspace) {
    const att_problem *q = &p->spec.problem;
    const int64_t h = h_kv * (q->heads_q / q->heads_kv);
    att_args one = *args;
    one.launch = NULL;
    one.q = row_of(p, args->q, &q->q, b, h, 0);
    one.k = row_of(p, args->k, &q->k, b, h_kv, 0);
    one.v = row_of(p, args->v, &q->v, b, h_kv, 0);
    one.o = (void *)(uintptr_t)row_of(p, args->o, &q->o, b, h, 0);
    return att_plan_run(p->other, &one, workspace, NULL) == ATT_OK;
}

/* If O is a different buffer or was written by someone else, its answers are invalid. */
bool lab_deed_changed_heads(lab_plot *p, const lab_args *all_args, void *workspace,
                            void *stream) {
    const att_problem *q = &p->spec.problem;
    const att_args *args = &all_args->attention;
    const bool all = p->last_output != args->o || !lab_plot_is_finished(p);
    (void)stream;
    if (!p->other && !open_heads(p, p->ctx))
        return false;
    p->last_output = args->o;
    for (int64_t n = 0; n < q->batch * q->heads_kv; n++) {
        const int64_t b = n / q->heads_kv, h_kv = n % q->heads_kv;
        const uint64_t hash = hash_head(p, args, b, h_kv);
        if ((all || p->head_hash[n] != hash) && !compute_head(p, args, b, h_kv, workspace))
            return false;
        p->head_hash[n] = hash;
    }
    return true;
}

void lab_plot_forget_heads(lab_plot *p) {
    att_plan_destroy(p->other);
    free(p->head_hash);
}

/* ----------------------------------------------------------------------- arithmetic */

bool lab_deed_other_rounding(lab_plot *p, const lab_args *args, void *workspace, void *stream) {
    const bool ok = lab_deed_compute(p, args, workspace, stream);
    fesetround(FE_TOWARDZERO);
    return ok;
}
