/* references.c: rows and orders of summation distributed over the processors. */
#include "lab/verify/references.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lab/base/workers.h"
#include "lab/tensors/output_rows.h"

size_t lab_references_bytes(int64_t count, int64_t width, int most) {
    return (size_t)count * (size_t)width * (2 * sizeof(double) + (size_t)most * sizeof(float));
}

int64_t lab_references_width(const lab_outputs *outputs, int sets) {
    int64_t width = 1;
    for (int i = 0; i < sets; i++)
        if (lab_set_is_asked(outputs, i))
            width = att_max(width, lab_outputs_width(outputs, i));
    return width;
}

static void wipe_and_free(void *memory, size_t bytes) {
    if (memory)
        explicit_bzero(memory, bytes);
    free(memory);
}

void lab_references_free(lab_references *r) {
    const size_t values = (size_t)r->count * (size_t)r->width;
    wipe_and_free(r->oracle, values * 2 * sizeof *r->oracle);
    wipe_and_free(r->plain, values * (size_t)r->most * sizeof *r->plain);
    *r = (lab_references){.count = 0};
}

typedef struct asking {
    lab_references *out;
    const lab_tensors *tensors;
    const lab_row *rows;
    int64_t scratch;    /* numbers that a row needs */
    int64_t piece;      /* answers per work item */
    int64_t answers;    /* one per row from the oracle and one per row and order */
    atomic_bool failed; /* out of memory */
} asking;

/* Answer n: row n / (1 + most), from the oracle or in one of the orders. */
static void answer(const asking *a, int64_t n, double *scratch) {
    const lab_tensors *t = a->tensors;
    const lab_operation *operation = t->spec.operation;
    const lab_references *r = a->out;
    const int64_t at = n / (1 + r->most);
    const int order = (int)(n % (1 + r->most)) - 1;
    const lab_row row = a->rows[at];
    if (order < 0)
        operation->oracle(&t->spec, &t->any, row, scratch, r->oracle + at * 2 * r->width,
                          r->oracle + (at * 2 + 1) * r->width);
    else if (order < r->orders[row.set])
        operation->plain(&t->spec, &t->any, row, order, (float *)scratch,
                         r->plain + (order * r->count + at) * r->width);
}

static void answer_some(void *context, int64_t piece) {
    asking *a = context;
    const size_t bytes = (size_t)(a->scratch + 1) * sizeof(double);
    double *scratch = malloc(bytes);
    if (!scratch) {
        atomic_store(&a->failed, true);
        return;
    }
    const int64_t end = att_min((piece + 1) * a->piece, a->answers);
    for (int64_t n = piece * a->piece; n < end; n++)
        answer(a, n, scratch);
    wipe_and_free(scratch, bytes);
}

bool lab_references_make(lab_references *out, const lab_tensors *t, const lab_row *rows,
                         int64_t count, const int orders[LAB_SETS_MAX]) {
    const lab_operation *operation = t->spec.operation;
    const lab_outputs outputs = operation->outputs(&t->spec);
    *out = (lab_references){.count = count};
    if (count == 0)
        return true;
    for (int i = 0; i < operation->sets; i++) {
        out->orders[i] = orders[i];
        out->most = orders[i] > out->most ? orders[i] : out->most;
    }
    out->width = lab_references_width(&outputs, operation->sets);
    const size_t values = (size_t)count * (size_t)out->width;
    out->oracle = calloc(values, 2 * sizeof *out->oracle); /* the size of a value that has none
                                                            * is 0 */
    out->plain = malloc(values * (size_t)out->most * sizeof *out->plain + 1);
    asking a = {.out = out,
                .tensors = t,
                .rows = rows,
                .scratch = operation->scratch(&t->spec, &t->any),
                .answers = count * (1 + out->most)};
    a.piece = att_max(1, a.answers / (16 * LAB_WORKERS_MOST));
    if (out->oracle && out->plain)
        lab_workers_run(att_ceil_div(a.answers, a.piece), answer_some, &a);
    if (out->oracle && out->plain && !atomic_load(&a.failed))
        return true;
    lab_references_free(out);
    return false;
}
