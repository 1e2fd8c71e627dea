/* tensors_turn.c: inputs turned by their operation; the answers of turned rows listed and
 * poisoned. */
#include "lab/tensors/tensors_turn.h"

#include "lab/tensors/output_rows.h"

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
    lab_tensors_poison_row(t, row);
}

void lab_tensors_mark(lab_tensors *t, uint64_t seed) {
    lab_row_walk walk;
    t->spec.operation->drawn(t, seed, poison_row, NULL);
    lab_walk_start(&walk, t);
    if (lab_walk_next(&walk))
        lab_tensors_poison_row(t, walk.row);
}
