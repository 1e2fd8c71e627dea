/* verify_judge.c: the answers of a run against the oracle and the bar. */
#include "lab/verify/verify.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "lab/base/clean_text.h"
#include "lab/base/entropy.h"
#include "lab/base/float_state.h"
#include "lab/tensors/verify_rows.h"

/* Where no more rows than that are judged, the plain reference is computed in every order: one of them may be lucky, and all columns
 * of a row share the rounding of its scores. */
enum { MAX_THREADS = 16, FEW_ROWS = 8 };

static const int64_t default_work = 100000000;

/* Where an answer is furthest off, or the first that may not be what it is. */
typedef struct place {
    lab_row row;
    int64_t col;
    double got, want;
} place;

/* One output tensor as seen so far. */
typedef struct tally {
    double kernel, plain, largest;                 /* max errors, max |oracle| */
    double kernel_squares, plain_squares, squares; /* sums over the errors, over the oracle */
    double count;                                  /* values in those sums */
    place worst;
    bool broken; /* a NaN or infinity out of place, at `breach` */
    place breach;
} tally;

typedef struct judge {
    const lab_tensors *tensors;
    const lab_rows *rows;
    int64_t scratch; /* numbers that the oracle needs beside a row */
    int64_t d;
    atomic_llong next;
    atomic_bool out_of_memory;
} judge;

typedef struct worker {
    judge *shared;
    tally o, lse;
    lab_row at;   /* where the search for odd rows is */
    int odd_left; /* how many more of them to judge */
} worker;

enum { ODD_MOST = 64 };

/* ----------------------------------------------------------------- one value */

static double ulp(att_dtype dtype, double x) {
    if (x == 0.0 || !isfinite(x))
        return 0.0;
    const int exponent = ilogb(x);
    switch (dtype) {
    case ATT_F16:
        return ldexp(1.0, (exponent < -14 ? -14 : exponent) - 10);
    case ATT_BF16:
        return ldexp(1.0, (exponent < -126 ? -126 : exponent) - 7);
    default:
        return ldexp(1.0, (exponent < -126 ? -126 : exponent) - 23);
    }
}

static double as_stored(double x, att_dtype dtype) {
    float stored;
    att_store(&stored, dtype, 0, (float)x);
    return (double)att_load(&stored, dtype, 0);
}

/* What must hold where the oracle, rounded to the output's dtype, is not finite. */
static bool special_agrees(double got, double want, bool is_lse) {
    if (isnan(want))
        return isnan(got);
    return got == want || (!is_lse && isnan(got)); /* inf * 0 on the way is allowed in O */
}

static void weigh(tally *t, att_dtype dtype, bool is_lse, place at, double plain) {
    if (!isfinite(as_stored(at.want, dtype))) {
        if (!special_agrees(at.got, as_stored(at.want, dtype), is_lse) && !t->broken) {
            t->broken = true;
            t->breach = at;
        }
        return;
    }
    if (!isfinite(at.got)) {
        if (!t->broken)
            t->breach = at;
        t->broken = true;
        return;
    }
    const double error = fabs(at.got - at.want);
    if (error > t->kernel || t->largest == 0.0) {
        t->kernel = error;
        t->worst = at;
    }
    t->largest = fmax(t->largest, fabs(at.want));
    if (!isfinite(plain))
        return;
    const double plain_error = fabs(plain - at.want);
    t->plain = fmax(t->plain, plain_error);
    t->kernel_squares += error * error;
    t->plain_squares += plain_error * plain_error;
    t->squares += at.want * at.want;
    t->count += 1.0;
}

/* The plain reference in another order, for the bar alone. */
static void weigh_plain(tally *t, att_dtype dtype, double want, double plain) {
    if (isfinite(as_stored(want, dtype)) && isfinite(plain))
        t->plain = fmax(t->plain, fabs(plain - want));
}

static void merge(tally *into, const tally *from) {
    if (from->kernel >= into->kernel) {
        into->kernel = from->kernel;
        into->worst = from->worst;
    }
    into->plain = fmax(into->plain, from->plain);
    into->largest = fmax(into->largest, from->largest);
    into->kernel_squares += from->kernel_squares;
    into->plain_squares += from->plain_squares;
    into->squares += from->squares;
    into->count += from->count;
    if (from->broken && !into->broken) {
        into->broken = true;
        into->breach = from->breach;
    }
}

/* ---------------------------------------------------------------------- rows */

static void judge_row(worker *w, lab_row row, double *scratch, float *plain_scratch) {
    const lab_tensors *t = w->shared->tensors;
    const lab_operation *operation = t->spec.operation;
    const lab_answer at = operation->answer(&t->spec, &t->any, row);
    double *oracle = scratch + w->shared->scratch;
    float *plain = plain_scratch + w->shared->scratch;
    double oracle_lse;
    float plain_lse;
    operation->oracle(&t->spec, &t->any, row, scratch, oracle, &oracle_lse);
    operation->plain(&t->spec, &t->any, row, 0, plain_scratch, plain, &plain_lse);

    for (int64_t c = 0; c < at.d; c++) {
        const place here = {row, c, (double)att_load(at.o, at.dtype, c), oracle[c]};
        weigh(&w->o, at.dtype, false, here, (double)plain[c]);
    }
    if (at.lse) {
        const place here = {row, 0, (double)*at.lse, oracle_lse};
        weigh(&w->lse, ATT_F32, true, here, (double)plain_lse);
    }
    if (w->shared->rows->count > FEW_ROWS)
        return;
    for (int order = 1; order < operation->orders; order++) {
        operation->plain(&t->spec, &t->any, row, order, plain_scratch, plain, &plain_lse);
        for (int64_t c = 0; c < at.d; c++)
            weigh_plain(&w->o, at.dtype, oracle[c], (double)plain[c]);
        weigh_plain(&w->lse, ATT_F32, oracle_lse, (double)plain_lse);
    }
}

/* Right answers must not lie about in memory that the next subject is given. */
static void wipe_and_free(void *memory, size_t bytes) {
    if (memory)
        explicit_bzero(memory, bytes);
    free(memory);
}

/* Judge rows as long as `next` gives one. */
static void work_on(worker *w, bool (*next)(worker *w, lab_row *row)) {
    judge *j = w->shared;
    lab_float_default(); /* whatever a subject did to this thread */
    const size_t numbers = (size_t)(j->scratch + j->d);
    double *logits = malloc(numbers * sizeof *logits);
    float *plain_logits = malloc(numbers * sizeof *plain_logits);
    if (!logits || !plain_logits)
        atomic_store(&j->out_of_memory, true);
    for (lab_row row; logits && plain_logits && next(w, &row);)
        judge_row(w, row, logits, plain_logits);
    wipe_and_free(logits, numbers * sizeof *logits);
    wipe_and_free(plain_logits, numbers * sizeof *plain_logits);
}

static bool next_listed(worker *w, lab_row *row) {
    judge *j = w->shared;
    const int64_t n = atomic_fetch_add(&j->next, 1);
    if (n >= j->rows->count)
        return false;
    *row = j->rows->list[n];
    return true;
}

static void *work(void *argument) {
    work_on(argument, next_listed);
    return NULL;
}

/* ------------------------------------------------------- rows that look wrong by themselves */

/* A row that still is all poison was never written; this is seen without the oracle. */
static bool is_unwritten(const lab_tensors *t, lab_row row) {
    const lab_answer at = t->spec.operation->answer(&t->spec, &t->any, row);
    const int64_t bytes = at.d * (int64_t)att_dtype_size(at.dtype);
    const unsigned char *byte = at.o;
    int64_t n = 0;
    while (n < bytes && byte[n] == LAB_POISON)
        n++;
    return bytes > 0 && n == bytes;
}

static bool is_finite_row(const lab_tensors *t, lab_row row) {
    const lab_answer at = t->spec.operation->answer(&t->spec, &t->any, row);
    int64_t c = 0;
    while (c < at.d && isfinite(att_load(at.o, at.dtype, c)))
        c++;
    return c == at.d;
}

/* The row after *row; false after the last. */
static bool step(const lab_tensors *t, lab_row *row) {
    const lab_operation *operation = t->spec.operation;
    if (++row->i < operation->rows(&t->spec, &t->any, row->b))
        return true;
    do {
        row->i = 0;
        if (++row->h == operation->heads(&t->spec)) {
            row->h = 0;
            if (++row->b == operation->batch(&t->spec))
                return false;
        }
    } while (operation->rows(&t->spec, &t->any, row->b) == 0);
    return true;
}

/* Rows with a NaN or an infinity, as many as the oracle has time for. */
static bool next_odd(worker *w, lab_row *row) {
    const lab_tensors *t = w->shared->tensors;
    while (w->odd_left > 0 && step(t, &w->at))
        if (!is_finite_row(t, w->at)) {
            *row = w->at;
            w->odd_left--;
            return true;
        }
    return false;
}

static bool find_unwritten(const lab_tensors *t, lab_row *row) {
    *row = (lab_row){.i = -1};
    while (t->spec.operation->batch(&t->spec) > 0 && step(t, row))
        if (is_unwritten(t, *row))
            return true;
    return false;
}

/* ------------------------------------------------------------------- verdict */

__attribute__((format(printf, 2, 3))) static void fail(lab_verify_result *r, const char *format,
                                                       ...) {
    if (r->outcome == LAB_FAIL && r->message[0])
        return; /* the first failure is the one to look at */
    r->outcome = LAB_FAIL;
    va_list list;
    va_start(list, format);
    vsnprintf(r->message, sizeof r->message, format, list);
    va_end(list);
    lab_clean_line(r->message);
}

static double root_mean(double squares, double count) {
    return count > 0.0 ? sqrt(squares / count) : 0.0;
}

/* Fewer values say little of an average. */
static const double fewest_averaged = 256.0;

/* Of 16-bit outputs, whose own rounding is most of every error. In float32 the scores' rounding is, which all columns of a
 * row share: a few rows are then too few to average over. */
static void conclude_average(lab_verify_result *r, const tally *t, att_dtype dtype) {
    lab_errors *e = &r->o;
    e->kernel_rms = root_mean(t->kernel_squares, t->count);
    e->plain_rms = root_mean(t->plain_squares, t->count);
    e->bar_rms =
        fmax(2.0 * e->plain_rms, ulp(dtype, root_mean(t->squares, t->count))) + (double)FLT_MIN;
    if (dtype != ATT_F32 && t->count >= fewest_averaged && e->kernel_rms > e->bar_rms)
        fail(r,
             "o: its values are off by %.3g (root mean square), the bar is %.3g: less precise "
             "than the type's own rounding makes them",
             e->kernel_rms, e->bar_rms);
}

static double bar_of(double plain, double one_ulp) {
    return 2.0 * plain + 4.0 * one_ulp + (double)FLT_MIN;
}

double lab_bar_of_o(double plain, double largest, att_dtype dtype) {
    return bar_of(plain, ulp(dtype, largest));
}

double lab_bar_of_lse(double plain, double largest) {
    return bar_of(plain, ulp(ATT_F32, fmax(largest, 1.0)));
}

/* A NaN has a sign, which says nothing: "nan", never "-nan". */
static double shown(double value) {
    return isnan(value) ? (double)NAN : value;
}

static void conclude(lab_verify_result *r, lab_errors *e, const char *name, const tally *t,
                     double bar) {
    e->kernel = t->kernel;
    e->plain = t->plain;
    e->largest = t->largest;
    e->bar = bar;
    const place *at = t->broken ? &t->breach : &t->worst;
    if (t->broken)
        fail(r, "%s[b=%lld h=%lld row=%lld col=%lld] is %g, the oracle has %g", name,
             (long long)at->row.b, (long long)at->row.h, (long long)at->row.i,
             (long long)at->col, shown(at->got), shown(at->want));
    else if (e->kernel > e->bar)
        fail(r,
             "%s[b=%lld h=%lld row=%lld col=%lld] is %.9g, the oracle has %.9g: error %.3g is "
             "above "
             "the bar %.3g",
             name, (long long)at->row.b, (long long)at->row.h, (long long)at->row.i,
             (long long)at->col, at->got, at->want, e->kernel, e->bar);
}

static int thread_count(const lab_verify_options *options, int64_t rows) {
    int64_t n = options && options->threads ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    n = att_min(n, MAX_THREADS);
    return (int)att_max(1, att_min(n, rows / 8));
}

void lab_verify_outputs(lab_verify_result *r, const lab_tensors *t,
                        const lab_verify_options *options) {
    const lab_operation *operation = t->spec.operation;
    const lab_output output = operation->output(&t->spec);
    const int64_t max_work = options && options->max_work ? options->max_work : default_work;
    r->o = r->lse = (lab_errors){0};
    r->rows_seed = options && options->rows_seed ? *options->rows_seed : lab_entropy() >> 1;
    lab_rows rows;
    const bool ok = options && options->rows
                        ? lab_rows_copy(&rows, options->rows, options->row_count)
                        : lab_rows_choose(&rows, t, r->rows_seed, max_work);
    if (!ok) {
        fail(r, "no memory for the list of rows to check");
        return;
    }
    r->rows_total = rows.total;
    r->rows_checked = rows.count;

    judge shared = {.tensors = t, .rows = &rows, .d = output.d};
    if (rows.count > 0)
        shared.scratch = operation->scratch(&t->spec, &t->any);
    worker workers[MAX_THREADS] = {{.shared = &shared}};
    pthread_t threads[MAX_THREADS];
    const int wanted = thread_count(options, rows.count);
    int started = 1; /* this thread is a worker too */
    for (int i = 1; i < wanted; i++)
        workers[i].shared = &shared;
    while (started < wanted &&
           pthread_create(&threads[started], NULL, work, &workers[started]) == 0)
        started++;
    work(&workers[0]);
    for (int i = 1; i < started; i++) {
        pthread_join(threads[i], NULL);
        merge(&workers[0].o, &workers[i].o);
        merge(&workers[0].lse, &workers[i].lse);
    }

    lab_row unwritten;
    if (rows.count < rows.total) { /* what the sample left out may still look wrong */
        workers[0].at = (lab_row){.i = -1};
        workers[0].odd_left = ODD_MOST;
        work_on(&workers[0], next_odd);
    }
    if (atomic_load(&shared.out_of_memory))
        fail(r, "no memory for the oracle");
    else if (rows.count < rows.total && find_unwritten(t, &unwritten))
        fail(r, "o[b=%lld h=%lld row=%lld] was not written", (long long)unwritten.b,
             (long long)unwritten.h, (long long)unwritten.i);
    const tally *o = &workers[0].o, *lse = &workers[0].lse;
    conclude(r, &r->o, "o", o, lab_bar_of_o(o->plain, o->largest, output.dtype));
    conclude_average(r, o, output.dtype);
    if (output.lse)
        conclude(r, &r->lse, "lse", lse, lab_bar_of_lse(lse->plain, lse->largest));
    lab_rows_free(&rows);
}
