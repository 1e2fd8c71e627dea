/* row_strips.c: index of rows across sets and batch entries of any length. */
#include "lab/tensors/row_strips.h"

#include <stdlib.h>

#include "base/checked.h"
#include "lab/tensors/output_rows.h"

static int64_t rows_of(const lab_row_strips *s, int set, int64_t b) {
    const lab_tensors *t = s->tensors;
    return t->spec.operation->rows(&t->spec, &t->any, set, b);
}

/* The number of batch entries in all sets that are asked for. */
static int64_t list_sets(lab_row_strips *s) {
    const lab_spec *spec = &s->tensors->spec;
    const lab_operation *operation = spec->operation;
    int64_t entries = 0;
    for (int i = 0; i < LAB_SETS_MAX; i++) {
        s->first[i] = entries;
        if (i < operation->sets && !operation->is_empty(spec) &&
            lab_set_is_asked(&s->outputs, i))
            s->set[i] = operation->set(spec, i);
        entries += s->set[i].batch;
    }
    s->first[LAB_SETS_MAX] = entries;
    return entries;
}

bool lab_row_strips_open(lab_row_strips *s, const lab_tensors *t) {
    *s = (lab_row_strips){.tensors = t, .outputs = t->spec.operation->outputs(&t->spec)};
    const int64_t entries = list_sets(s);
    s->before = malloc((size_t)(entries + 1) * sizeof *s->before);
    if (!s->before)
        return false;
    for (int i = 0; i < LAB_SETS_MAX; i++)
        for (int64_t b = 0; b < s->set[i].batch; b++) {
            s->before[s->first[i] + b] = s->rows;
            s->rows += s->set[i].heads * rows_of(s, i, b);
        }
    s->before[entries] = s->rows;
    s->count = att_ceil_div(s->rows, LAB_STRIP_ROWS);
    return true;
}

void lab_row_strips_close(lab_row_strips *s) {
    free(s->before);
    *s = (lab_row_strips){.tensors = NULL};
}

lab_row lab_row_strips_row(const lab_row_strips *s, int64_t n) {
    int64_t low = 0, high = s->first[LAB_SETS_MAX]; /* the entry is in [low, high) */
    int set = 0;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (s->before[middle] <= n)
            low = middle;
        else
            high = middle;
    }
    while (low >= s->first[set + 1])
        set++;
    const int64_t b = low - s->first[set], rows = rows_of(s, set, b);
    const int64_t within = n - s->before[low];
    return (lab_row){b, within / rows, within % rows, set};
}

int64_t lab_strip_first(const lab_row_strips *s, int64_t strip, lab_row *row) {
    const int64_t first = strip * LAB_STRIP_ROWS;
    *row = lab_row_strips_row(s, first);
    return att_min(LAB_STRIP_ROWS, s->rows - first);
}

void lab_strip_next(const lab_row_strips *s, lab_row *row) {
    const int64_t rows = rows_of(s, row->set, row->b);
    if (++row->i < rows)
        return;
    row->i = 0;
    if (++row->h < s->set[row->set].heads)
        return;
    const int64_t n =
        s->before[s->first[row->set] + row->b + 1]; /* the first of the next entry */
    if (n < s->rows)
        *row = lab_row_strips_row(s, n);
}
