/* backward_forward.c: O and LSE of a backward problem. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "attention/ref/oracle.h"
#include "attention/ref/plain.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "lab/backward/backward_lab.h"
#include "lab/base/random.h"
#include "lab/base/workers.h"

enum { STREAM_CHECKED = 6500, CHECKED_ROWS = 24 };

/* The oracle's budget of multiply-adds for all rows. */
static const double oracle_work = 3e7;

typedef struct forward {
    lab_tensors *t;
    const att_problem *p;
    att_args *args;
    int64_t longest; /* keys of the longest sequence */
    size_t scratch_bytes;
    double *logits, *o;
} forward;

static void store_row(const forward *f, int64_t b, int64_t h, int64_t i, double *logits,
                      double *o) {
    const int64_t at = att_ref_index_o(f->p, f->args, b, h, i);
    double lse;
    att_ref_row(f->p, f->args, b, h, i, logits, o, &lse);
    for (int64_t c = 0; c < f->p->d_v; c++)
        att_store(f->args->o, f->p->dtype_o, at + c, (float)o[c]);
    f->args->lse[att_ref_index_lse(f->p, f->args, b, h, i)] = (float)lse;
}

/* The rows of a batch entry, in strips that are computed in parallel. */
enum { STRIP_ROWS = 16 };

typedef struct entry {
    const forward *f;
    int64_t b, rows; /* of a head */
    atomic_bool failed;
} entry;

static void store_strip(void *context, int64_t strip) {
    entry *e = context;
    const forward *f = e->f;
    double *logits = malloc(f->scratch_bytes);
    if (!logits) {
        atomic_store(&e->failed, true);
        return;
    }
    const int64_t end = att_min((strip + 1) * STRIP_ROWS, f->p->heads_q * e->rows);
    for (int64_t n = strip * STRIP_ROWS; n < end; n++)
        store_row(f, e->b, n / e->rows, n % e->rows, logits, logits + f->longest);
    free(logits);
}

static bool store_all(const forward *f, lab_message *why) {
    bool ok = true;
    for (int64_t b = 0; ok && b < f->p->batch; b++) {
        entry e = {.f = f, .b = b, .rows = att_ref_len_q(f->p, f->args, b)};
        lab_workers_run(att_ceil_div(f->p->heads_q * e.rows, STRIP_ROWS), store_strip, &e);
        ok = !atomic_load(&e.failed) || lab_fail(why, "no memory for the forward pass");
    }
    return ok;
}

/* ---------------------------------------------------------------- the library */

static bool failed(lab_message *why) {
    return lab_fail(why, "O and LSE of the problem: %s", att_last_error()->text);
}

static bool run_plan(const forward *f, const att_plan *plan, lab_message *why) {
    const size_t bytes = att_plan_workspace(plan);
    void *workspace = bytes ? aligned_alloc(ATT_WORKSPACE_ALIGN, bytes) : NULL;
    if (bytes && !workspace)
        return lab_fail(why, "no memory for the workspace of the forward pass");
    att_args args = *f->args;
    args.launch = NULL;
    args.d_o = NULL;
    args.d_q = args.d_k = args.d_v = args.d_bias = NULL;
    args.d_sinks = args.d_alibi = NULL;
    const att_status status = att_plan_run(plan, &args, workspace, NULL);
    free(workspace);
    return status == ATT_OK || failed(why);
}

static bool compute_all(const forward *f, lab_message *why) {
    const att_context_options options = {.size = sizeof options,
                                         .device = ATT_DEVICE_CPU,
                                         .flags = ATT_ALLOW_UNATTESTED,
                                         .kernel = "*",
                                         .rows = ""};
    att_context *ctx = NULL;
    att_plan *plan = NULL;
    bool ok = att_context_create(&ctx, &options) == ATT_OK || failed(why);
    ok = ok && (att_plan_create(&plan, ctx, f->p) == ATT_OK || failed(why));
    ok = ok && run_plan(f, plan, why);
    att_plan_destroy(plan);
    att_context_destroy(ctx);
    return ok;
}

/* Far above any rounding, far below any mistake: eight ulp at the size of V, of which O is a
 * mean. */
static bool is_near(double got, double want, att_dtype dtype) {
    const double step = dtype == ATT_F32 ? 0x1p-16 : dtype == ATT_F16 ? 0x1p-8 : 0x1p-5;
    return isnan(want) ? isnan(got)
                       : got == want || fabs(got - want) <= step * (1.0 + fabs(want));
}

static bool check_row(const forward *f, int64_t b, int64_t h, int64_t i, lab_message *why) {
    const int64_t at = att_ref_index_o(f->p, f->args, b, h, i);
    double lse;
    att_ref_row(f->p, f->args, b, h, i, f->logits, f->o, &lse);
    bool ok =
        is_near((double)f->args->lse[att_ref_index_lse(f->p, f->args, b, h, i)], lse, ATT_F32);
    for (int64_t c = 0; c < f->p->d_v; c++)
        ok = ok && is_near((double)att_load(f->args->o, f->p->dtype_o, at + c), f->o[c],
                           f->p->dtype_o);
    return ok || lab_fail(why, "the forward pass is wrong in b=%lld h=%lld row=%lld",
                          (long long)b, (long long)h, (long long)i);
}

static bool check_some(const forward *f, uint64_t seed, lab_message *why) {
    lab_random random;
    lab_random_seed(&random, seed, STREAM_CHECKED);
    for (int n = 0; n < CHECKED_ROWS; n++) {
        const int64_t b = lab_random_below(&random, f->p->batch);
        const int64_t h = lab_random_below(&random, f->p->heads_q);
        const int64_t rows = att_ref_len_q(f->p, f->args, b);
        if (rows > 0 && !check_row(f, b, h, lab_random_below(&random, rows), why))
            return false;
    }
    return true;
}

bool lab_backward_forward(lab_tensors *t, uint64_t seed, lab_message *why) {
    lab_work work;
    lab_attention_work(&work, &t->spec);
    forward f = {.t = t, .p = &t->spec.problem, .args = &t->args};
    for (int64_t b = 0; b < f.p->batch; b++)
        f.longest = att_max(f.longest, att_ref_len_k(f.p, f.args, b));
    f.scratch_bytes = (size_t)(f.longest + f.p->d_v + 1) * sizeof *f.logits;
    f.logits = malloc(f.scratch_bytes);
    if (!f.logits)
        return lab_fail(why, "no memory for the forward pass");
    f.o = f.logits + f.longest;
    bool ok = true;
    if (work.flops / 2.0 <= oracle_work)
        ok = store_all(&f, why);
    else
        ok = compute_all(&f, why) && check_some(&f, seed, why);
    free(f.logits);
    return ok;
}
