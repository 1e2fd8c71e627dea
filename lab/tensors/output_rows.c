/* output_rows.c: counts and walks rows, and visits their bytes. */
#include "lab/tensors/output_rows.h"

bool lab_set_is_asked(const lab_outputs *outputs, int set) {
    for (int i = 0; i < outputs->count; i++)
        if (outputs->list[i].set == set && !outputs->list[i].absent)
            return true;
    return false;
}

int64_t lab_set_count(const lab_tensors *t, int set) {
    const lab_operation *operation = t->spec.operation;
    const lab_outputs outputs = operation->outputs(&t->spec);
    if (operation->is_empty(&t->spec) || !lab_set_is_asked(&outputs, set))
        return 0;
    const lab_row_set all = operation->set(&t->spec, set);
    int64_t count = 0;
    for (int64_t b = 0; b < all.batch; b++)
        count += all.heads * operation->rows(&t->spec, &t->any, set, b);
    return count;
}

/* --------------------------------------------------------------------- walks */

static void enter_entry(lab_row_walk *w, int64_t b) {
    const lab_tensors *t = w->tensors;
    w->row = (lab_row){.b = b, .set = w->row.set};
    w->rows = b < w->set.batch ? t->spec.operation->rows(&t->spec, &t->any, w->row.set, b) : 0;
}

static void enter_set(lab_row_walk *w, int set) {
    const lab_spec *spec = &w->tensors->spec;
    w->row.set = set;
    w->set = (lab_row_set){.batch = 0};
    if (set < spec->operation->sets && lab_set_is_asked(&w->outputs, set))
        w->set = spec->operation->set(spec, set);
    enter_entry(w, 0);
}

void lab_walk_start(lab_row_walk *w, const lab_tensors *t) {
    *w = (lab_row_walk){.tensors = t, .outputs = t->spec.operation->outputs(&t->spec)};
    enter_set(w, t->spec.operation->is_empty(&t->spec) ? t->spec.operation->sets : 0);
    w->row.i = -1;
}

bool lab_walk_next(lab_row_walk *w) {
    w->row.i++;
    while (w->row.set < w->tensors->spec.operation->sets) {
        if (w->row.b >= w->set.batch) {
            enter_set(w, w->row.set + 1);
        } else if (w->rows == 0 || w->row.h >= w->set.heads) {
            enter_entry(w, w->row.b + 1);
        } else if (w->row.i >= w->rows) {
            w->row.h++;
            w->row.i = 0;
        } else {
            return true;
        }
    }
    return false;
}

/* --------------------------------------------------------------------- bytes */

void lab_visit_output(const lab_tensors *t, const lab_output *output, int index, lab_row row,
                      lab_visit_bytes *visit, void *context) {
    const size_t element = att_dtype_size(output->dtype);
    unsigned char *at = t->spec.operation->answer(&t->spec, &t->any, index, row);
    if (output->step == 1)
        visit(context, at, (size_t)output->d * element);
    for (int64_t c = 0; output->step != 1 && c < output->d; c++)
        visit(context, at + (size_t)(c * output->step) * element, element);
}

void lab_visit_row(const lab_tensors *t, const lab_outputs *outputs, lab_row row,
                   lab_visit_bytes *visit, void *context) {
    for (int i = 0; i < outputs->count; i++)
        if (outputs->list[i].set == row.set && !outputs->list[i].absent)
            lab_visit_output(t, &outputs->list[i], i, row, visit, context);
}
