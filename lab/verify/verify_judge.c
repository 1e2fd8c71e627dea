/* verify_judge.c: checks the answers of a run against the oracle and the bar. */
#include "lab/verify/verify.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "lab/base/clean_text.h"
#include "lab/base/entropy.h"
#include "lab/base/workers.h"
#include "lab/tensors/output_rows.h"
#include "lab/tensors/row_strips.h"
#include "lab/tensors/verify_rows.h"
#include "lab/verify/reference_store.h"

/* If no more rows than this are judged, the plain reference is computed in every order of
 * summation: one order may be lucky, and all columns of a row share the rounding of its
 * scores. */
enum { FEW_ROWS = 8 };

/* Rows per work item; the most rows that look wrong to judge in addition to the sample; bytes
 * of answers held at a time. */
enum { WEIGHED_ROWS = 16, ODD_MOST = 64, ANSWER_BYTES = 64 << 20 };

static const int64_t default_work = 100000000;

/* The place of the largest error, or of the first value that breaks a rule. */
typedef struct place {
    lab_row row;
    int64_t col;
    double got, want;
} place;

/* One output tensor as far as checked. */
typedef struct tally {
    double kernel, plain, largest;                 /* max errors, max |oracle| */
    double kernel_squares, plain_squares, squares; /* sums over the errors, over the oracle */
    double count;                                  /* the number of values in those sums */
    place worst;
    bool broken; /* a NaN or infinity out of place, at `breach` */
    place breach;
} tally;

typedef struct tallies {
    tally of[LAB_OUTPUTS_MAX];
} tallies;

typedef struct judge {
    const lab_tensors *tensors;
    const lab_verify_options *options;
    lab_outputs outputs;
    int orders[LAB_SETS_MAX]; /* of the plain reference, for rows of each set */
    tallies sum;
} judge;

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

static double load_answer(const lab_output *output, const void *row, int64_t index) {
    if (output->is_integer)
        return (double)((const int32_t *)row)[index * output->step];
    return (double)att_load(row, output->dtype, index * output->step);
}

static double as_stored(double x, att_dtype dtype) {
    float stored;
    att_store(&stored, dtype, 0, (float)x);
    return (double)att_load(&stored, dtype, 0);
}

/* What must hold where the oracle, rounded to the output's dtype, is not finite. */
static bool special_agrees(double got, double want, bool is_log) {
    if (isnan(want))
        return isnan(got);
    return got == want || (!is_log && isnan(got)); /* inf * 0 in an intermediate step is allowed
                                                    * in O */
}

/* The assumed error of the plain reference. Where terms cancel it may round both alike and be
 * right by luck, so the error is taken to be at least half an ulp of their size. */
static double plain_error_of(double plain, double want, double size) {
    return fmax(fabs(plain - want), 0x1p-24 * size);
}

static void weigh(tally *t, const lab_output *output, place at, double plain, double size) {
    const double want = as_stored(at.want, output->dtype);
    if (!isfinite(want)) {
        if (!special_agrees(at.got, want, output->is_log) && !t->broken) {
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
    const double plain_error = plain_error_of(plain, at.want, size);
    t->plain = fmax(t->plain, plain_error);
    t->kernel_squares += error * error;
    t->plain_squares += plain_error * plain_error;
    t->squares += at.want * at.want;
    t->count += 1.0;
}

/* Add the plain reference in another order, for the bar only. */
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

/* Rows, their right answers, and a tally per work item. The tallies are added in the order of
 * the items, so that the sums do not depend on the threads. */
typedef struct weighing {
    const judge *judge;
    const lab_row *rows;
    const lab_references *right;
    tallies *pieces;
} weighing;

/* Weigh the answers of row n and those of the plain reference; for one of the further orders
 * only the latter. */
static void weigh_row(const weighing *w, int64_t n, int order, tallies *into) {
    const lab_tensors *t = w->judge->tensors;
    const lab_outputs *outputs = &w->judge->outputs;
    const lab_row row = w->rows[n];
    const double *oracle = lab_references_oracle(w->right, n);
    const double *sizes = lab_references_sizes(w->right, n);
    const float *plain = lab_references_plain(w->right, n, order);
    for (int i = 0; i < outputs->count; i++) {
        const lab_output *output = &outputs->list[i];
        if (output->set != row.set)
            continue;
        const void *at =
            output->absent ? NULL : t->spec.operation->answer(&t->spec, &t->any, i, row);
        for (int64_t c = 0; at && c < output->d; c++) {
            const place here = {row, c, load_answer(output, at, c), oracle[c]};
            if (order > 0)
                weigh_plain(&into->of[i], output->dtype, oracle[c], (double)plain[c]);
            else
                weigh(&into->of[i], output, here, (double)plain[c], sizes[c]);
        }
        oracle += output->d;
        sizes += output->d;
        plain += output->d;
    }
}

static void weigh_piece(void *context, int64_t piece) {
    const weighing *w = context;
    const int64_t end = att_min((piece + 1) * WEIGHED_ROWS, w->right->count);
    for (int64_t n = piece * WEIGHED_ROWS; n < end; n++)
        for (int order = 0; order < w->right->orders[w->rows[n].set]; order++)
            weigh_row(w, n, order, &w->pieces[piece]);
}

static bool weigh_rows(judge *j, const lab_row *rows, const lab_references *right) {
    const int64_t pieces = att_ceil_div(right->count, WEIGHED_ROWS);
    const size_t bytes = (size_t)pieces * sizeof(tallies);
    weighing w = {j, rows, right, calloc(1, bytes + 1)};
    if (!w.pieces)
        return false;
    lab_workers_run(pieces, weigh_piece, &w);
    for (int64_t n = 0; n < pieces; n++)
        for (int i = 0; i < j->outputs.count; i++)
            merge(&j->sum.of[i], &w.pieces[n].of[i]);
    explicit_bzero(w.pieces, bytes);
    free(w.pieces);
    return true;
}

/* Judge rows whose answers fit in memory at a time; false if memory ran out. */
static bool judge_batch(judge *j, const lab_row *rows, int64_t count) {
    lab_reference_store *store = j->options ? j->options->store : NULL;
    const lab_reference_question question = {j->tensors, j->options ? j->options->seed : 0,
                                             rows, count, j->orders};
    const lab_references *known = store ? lab_reference_store_find(store, &question) : NULL;
    if (known)
        return weigh_rows(j, rows, known);
    lab_references made;
    if (!lab_references_make(&made, j->tensors, rows, count, j->orders))
        return false;
    const bool ok = weigh_rows(j, rows, &made);
    if (!ok || !store || !lab_reference_store_keep(store, &question, &made))
        lab_references_free(&made);
    return ok;
}

static bool judge_rows(judge *j, const lab_row *rows, int64_t count) {
    const lab_operation *operation = j->tensors->spec.operation;
    const int64_t width = lab_references_width(&j->outputs, operation->sets);
    const int64_t each = (int64_t)lab_references_bytes(1, width, operation->orders);
    const int64_t room = att_max(1, ANSWER_BYTES / each);
    bool ok = true;
    for (int64_t n = 0; ok && n < count; n += room)
        ok = judge_batch(j, rows + n, att_min(room, count - n));
    return ok;
}

/* ------------------------------------------------------- rows that look wrong by themselves */

typedef struct look {
    const lab_output *output;
    bool poisoned, finite;
} look;

/* A number is finite unless all bits of its exponent are set. */
static bool is_finite(const void *at, att_dtype dtype, size_t bytes) {
    const uint16_t special = dtype == ATT_F16 ? 0x7c00 : 0x7f80;
    bool finite = true;
    if (dtype == ATT_F32) {
        for (size_t c = 0; c < bytes / sizeof(float); c++)
            finite &= isfinite(att_load(at, dtype, (int64_t)c)) != 0;
        return finite;
    }
    for (size_t c = 0; c < bytes / sizeof(uint16_t); c++) {
        uint16_t bits;
        memcpy(&bits, (const unsigned char *)at + c * sizeof bits, sizeof bits);
        finite &= (bits & special) != special;
    }
    return finite;
}

static void look_at(void *context, void *at, size_t bytes) {
    look *l = context;
    const unsigned char *byte = at;
    const bool is_integer = l->output->is_integer;
    size_t n = 0;
    while (l->poisoned && n < bytes &&
           byte[n] == (is_integer ? LAB_POISON_INTEGER : LAB_POISON))
        n++;
    l->poisoned = l->poisoned && n == bytes;
    l->finite = l->finite && (is_integer || is_finite(at, l->output->dtype, bytes));
}

/* The findings in a strip of rows: the first row that was not written and its output, and the
 * rows that are not finite. */
typedef struct sight {
    const char *unwritten; /* the output's name; NULL: all were written */
    lab_row first_unwritten;
    int odd;
    lab_row *odd_rows; /* at most ODD_MOST; NULL if none */
    bool failed;       /* out of memory */
} sight;

typedef struct looks {
    lab_row_strips strips;
    sight *seen; /* one per strip */
} looks;

static void note_odd(sight *s, lab_row row) {
    if (s->odd == ODD_MOST)
        return;
    if (!s->odd_rows)
        s->odd_rows = malloc(ODD_MOST * sizeof *s->odd_rows);
    s->failed = !s->odd_rows;
    if (s->odd_rows)
        s->odd_rows[s->odd++] = row;
}

/* A row that is still all poison was never written; this is visible without the oracle.
 * Logarithms of a row without keys are not finite. */
static void look_at_row(sight *s, const lab_row_strips *strips, lab_row row) {
    bool finite = true;
    for (int i = 0; i < strips->outputs.count; i++) {
        const lab_output *o = &strips->outputs.list[i];
        look l = {.output = o, .poisoned = true, .finite = true};
        if (o->set != row.set || o->absent || o->is_log || o->d == 0)
            continue;
        lab_visit_output(strips->tensors, o, i, row, look_at, &l);
        finite = finite && l.finite;
        if (l.poisoned && !s->unwritten) {
            s->unwritten = o->name;
            s->first_unwritten = row;
        }
    }
    if (!finite)
        note_odd(s, row);
}

static void look_at_strip(void *context, int64_t strip) {
    const looks *l = context;
    lab_row row;
    for (int64_t n = lab_strip_first(&l->strips, strip, &row); n > 0; n--) {
        look_at_row(&l->seen[strip], &l->strips, row);
        lab_strip_next(&l->strips, &row);
    }
}

/* Scan all rows and judge the first ODD_MOST of those with a NaN or an infinity. *unwritten: an
 * output with a row that was not written; NULL: none. */
static bool judge_what_looks_wrong(judge *j, const char **unwritten, lab_row *where) {
    looks l;
    lab_row odd[ODD_MOST];
    int count = 0;
    *unwritten = NULL;
    if (!lab_row_strips_open(&l.strips, j->tensors))
        return false;
    l.seen = calloc((size_t)l.strips.count + 1, sizeof *l.seen);
    bool ok = l.seen != NULL;
    if (ok)
        lab_workers_run(l.strips.count, look_at_strip, &l);
    for (int64_t i = 0; l.seen && i < l.strips.count; i++) {
        const sight *s = &l.seen[i];
        ok = ok && !s->failed;
        if (s->unwritten && !*unwritten) {
            *unwritten = s->unwritten;
            *where = s->first_unwritten;
        }
        for (int n = 0; n < s->odd && count < ODD_MOST; n++)
            odd[count++] = s->odd_rows[n];
        free(s->odd_rows);
    }
    free(l.seen);
    lab_row_strips_close(&l.strips);
    return ok && judge_rows(j, odd, count);
}

/* ------------------------------------------------------------------- verdict */

__attribute__((format(printf, 2, 3))) static void fail(lab_verify_result *r, const char *format,
                                                       ...) {
    if (r->outcome == LAB_FAIL && r->message[0])
        return; /* the first failure is the one to report */
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

/* With fewer values an average says little. */
static const double fewest_averaged = 256.0;

/* Only for 16-bit outputs, where the output's own rounding makes up most of every error. In
 * float32 the rounding of the scores does, which all columns of a row share: a few rows are
 * then too few to average over. */
static void conclude_average(lab_verify_result *r, lab_errors *e, const tally *t,
                             att_dtype dtype) {
    e->kernel_rms = root_mean(t->kernel_squares, t->count);
    e->plain_rms = root_mean(t->plain_squares, t->count);
    e->bar_rms =
        fmax(2.0 * e->plain_rms, ulp(dtype, root_mean(t->squares, t->count))) + (double)FLT_MIN;
    if (dtype != ATT_F32 && t->count >= fewest_averaged && e->kernel_rms > e->bar_rms)
        fail(r,
             "%s: its values are off by %.3g (root mean square), the bar is %.3g: less precise "
             "than the type's own rounding makes them",
             e->name, e->kernel_rms, e->bar_rms);
}

double lab_bar_of(const lab_output *output, double plain, double largest) {
    const double at = output->is_log ? fmax(largest, 1.0) : largest;
    if (output->is_integer)
        return 0.0;
    return 2.0 * plain + 4.0 * ulp(output->dtype, at) + (double)FLT_MIN;
}

double lab_error_share(const lab_errors *errors) {
    if (errors->bar > 0.0)
        return errors->kernel / errors->bar;
    return errors->kernel > 0.0 ? (double)INFINITY : 0.0;
}

const lab_errors *lab_worst_error(const lab_verify_result *result) {
    const lab_errors *worst = &result->error[0];
    for (int i = 1; i < result->outputs; i++)
        if (lab_error_share(&result->error[i]) > lab_error_share(worst))
            worst = &result->error[i];
    return worst;
}

/* The sign of a NaN means nothing: print "nan", never "-nan". */
static double shown(double value) {
    return isnan(value) ? (double)NAN : value;
}

static void conclude(lab_verify_result *r, lab_errors *e, const lab_output *output,
                     const tally *t) {
    e->kernel = t->kernel;
    e->plain = t->plain;
    e->largest = t->largest;
    e->bar = lab_bar_of(output, t->plain, t->largest);
    const place *at = t->broken ? &t->breach : &t->worst;
    if (t->broken)
        fail(r, "%s[b=%lld h=%lld row=%lld col=%lld] is %g, the oracle has %g", e->name,
             (long long)at->row.b, (long long)at->row.h, (long long)at->row.i,
             (long long)at->col, shown(at->got), shown(at->want));
    else if (e->kernel > e->bar)
        fail(r,
             "%s[b=%lld h=%lld row=%lld col=%lld] is %.9g, the oracle has %.9g: error %.3g is "
             "above "
             "the bar %.3g",
             e->name, (long long)at->row.b, (long long)at->row.h, (long long)at->row.i,
             (long long)at->col, at->got, at->want, e->kernel, e->bar);
    if (!output->is_log && !output->is_integer)
        conclude_average(r, e, t, output->dtype);
}

void lab_verify_list_outputs(lab_verify_result *r, const lab_spec *spec) {
    const lab_outputs outputs = spec->operation->outputs(spec);
    r->outputs = outputs.count;
    for (int i = 0; i < outputs.count; i++)
        r->error[i] = (lab_errors){.name = outputs.list[i].name};
}

void lab_verify_outputs(lab_verify_result *r, const lab_tensors *t,
                        const lab_verify_options *options) {
    const lab_operation *operation = t->spec.operation;
    const int64_t max_work = options && options->max_work ? options->max_work : default_work;
    lab_verify_list_outputs(r, &t->spec);
    r->rows_seed = options && options->rows_seed ? *options->rows_seed : lab_entropy() >> 1;
    lab_rows rows;
    const bool chosen = options && options->rows
                            ? lab_rows_copy(&rows, options->rows, options->row_count)
                            : lab_rows_choose(&rows, t, r->rows_seed, max_work);
    if (!chosen) {
        fail(r, "no memory for the list of rows to check");
        return;
    }
    r->rows_total = rows.total;
    r->rows_checked = rows.count;

    judge j = {.tensors = t, .options = options, .outputs = operation->outputs(&t->spec)};
    for (int i = 0; i < operation->sets; i++)
        j.orders[i] = rows.of_set[i] > FEW_ROWS ? 1 : operation->orders;
    const char *unwritten = NULL;
    lab_row where;
    bool ok = judge_rows(&j, rows.list, rows.count);
    if (ok && rows.count < rows.total) /* rows outside the sample may still look wrong */
        ok = judge_what_looks_wrong(&j, &unwritten, &where);
    if (!ok)
        fail(r, "no memory for the oracle");
    else if (unwritten)
        fail(r, "%s[b=%lld h=%lld row=%lld] was not written", unwritten, (long long)where.b,
             (long long)where.h, (long long)where.i);
    for (int i = 0; i < j.outputs.count; i++)
        if (!j.outputs.list[i].absent)
            conclude(r, &r->error[i], &j.outputs.list[i], &j.sum.of[i]);
    lab_rows_free(&rows);
}
