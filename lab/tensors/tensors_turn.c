/* tensors_turn.c: inputs turned by their operation; the answers of turned rows listed and poisoned. */
#include "lab/tensors/tensors_turn.h"

#include <string.h>

#include "base/dtype.h"

bool lab_tensors_turnable(const lab_tensors *t) {
    return t->spec.operation->turnable(t);
}

void lab_tensors_turn(lab_tensors *t, uint64_t seed) {
    t->spec.operation->turn(t, seed);
}

typedef struct row_list {
    lab_row *rows;
    size_t count;
    int64_t seen, step;
} row_list;

static void count_row(lab_tensors *t, lab_row row, void *context) {
    (void)t, (void)row;
    ++*(int64_t *)context;
}

static void list_row(lab_tensors *t, lab_row row, void *context) {
    row_list *list = context;
    (void)t;
    if (list->seen++ % list->step == 0 && list->count < LAB_TURNED)
        list->rows[list->count++] = row;
}

size_t lab_tensors_turned_rows(lab_tensors *t, uint64_t seed, lab_row *rows) {
    int64_t total = 0;
    t->spec.operation->drawn(t, seed, count_row, &total);
    row_list list = {.rows = rows, .step = 1 + total / LAB_TURNED};
    t->spec.operation->drawn(t, seed, list_row, &list);
    return list.count;
}

static void poison_row(lab_tensors *t, lab_row row, void *context) {
    (void)context;
    const lab_answer at = t->spec.operation->answer(&t->spec, &t->any, row);
    memset(at.o, LAB_POISON, (size_t)at.d * att_dtype_size(at.dtype));
    if (at.lse)
        memset(at.lse, LAB_POISON, sizeof(float));
}

void lab_tensors_mark(lab_tensors *t, uint64_t seed) {
    const lab_operation *operation = t->spec.operation;
    operation->drawn(t, seed, poison_row, NULL);
    for (int64_t b = 0; b < operation->batch(&t->spec); b++)
        if (operation->heads(&t->spec) > 0 && operation->rows(&t->spec, &t->any, b) > 0) {
            poison_row(t, (lab_row){b, 0, 0}, NULL);
            break;
        }
}
