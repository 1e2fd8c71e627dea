/* merge_parts.c: the parts of a merge, checked against the first of them. */
#include "python/core/array_check.h"
#include "python/core/merge_call.h"

#include <string.h>

/* Put the sizes of the first part's O into the problem. */
static int read_sizes(merge_call *m) {
    const tensor *o = &m->parts_o.parts[0];
    att_merge_problem *p = &m->shape;
    const bool packed = o->ndim == 3;
    p->batch = packed ? 1 : o->shape[0];
    p->heads = o->shape[packed ? 1 : m->axis_head];
    p->seq = o->shape[packed ? 0 : m->axis_seq];
    p->d = o->shape[o->ndim - 1];
    return p->d < 1 ? array_wrong_shape(o, "a head dimension of 1 or more") : 0;
}

static int check_part(const tensor *t, const tensor *first) {
    char own[TENSOR_TEXT], other[TENSOR_TEXT];
    if (array_check_device(t, first))
        return -1;
    if (t->ndim == first->ndim &&
        !memcmp(t->shape, first->shape, (size_t)t->ndim * sizeof *t->shape))
        return 0;
    PyErr_Format(PyExc_ValueError, "%s has the shape %s; expected that of %s, %s", t->name,
                 tensor_shape_text(t, own), first->name, tensor_shape_text(first, other));
    return -1;
}

static int check_o(merge_call *m) {
    const tensor *first = &m->parts_o.parts[0];
    char own[TENSOR_TEXT], other[TENSOR_TEXT];
    const att_dtype dtype = array_dtype(first);
    if (!dtype || dtype == ATT_BOOL8)
        return array_wrong_type(first, "float32, float16 or bfloat16");
    m->shape.dtype = m->shape.dtype_o = dtype;
    for (Py_ssize_t i = 0; i < m->parts_o.count; i++) {
        const tensor *t = &m->parts_o.parts[i];
        if (array_dtype(t) != dtype) {
            PyErr_Format(PyExc_TypeError, "%s is %s, %s is %s: parts must have one dtype",
                         t->name, tensor_type_text(t, own), first->name,
                         tensor_type_text(first, other));
            return -1;
        }
        if (check_part(t, first) || array_check_rows(t))
            return -1;
    }
    return 0;
}

/* The log-sums of each part are float32, (batch, heads, rows), or (heads, rows) for packed
 * rows. */
static int check_lse(const merge_call *m) {
    const tensor *o = &m->parts_o.parts[0];
    tensor wanted = {.name = o->name, .ndim = o->ndim - 1, .device = o->device};
    const int64_t sizes[] = {m->shape.batch, m->shape.heads, m->shape.seq};
    memcpy(wanted.shape, sizes + 3 - wanted.ndim, (size_t)wanted.ndim * sizeof *sizes);
    for (Py_ssize_t i = 0; i < m->parts_lse.count; i++) {
        const tensor *t = &m->parts_lse.parts[i];
        char fits[TENSOR_TEXT];
        if (array_dtype(t) != ATT_F32)
            return array_wrong_type(t, "float32");
        if (array_check_device(t, &wanted))
            return -1;
        if (t->ndim != wanted.ndim ||
            memcmp(t->shape, wanted.shape, (size_t)t->ndim * sizeof *t->shape) != 0)
            return array_wrong_shape(t, tensor_shape_text(&wanted, fits));
        if (tensor_count(t) && array_check_forwards(t))
            return -1;
    }
    return 0;
}

int merge_parts_check(merge_call *m) {
    if (array_read_layout(m->given[MERGE_LAYOUT], &m->axis_seq, &m->axis_head) ||
        part_list_read(&m->parts_o, "parts_o", m->given[MERGE_PARTS_O], 3,
                       m->axis_seq == 1 ? "(batch, rows, heads, head dimension)"
                                        : "(batch, heads, rows, head dimension)") ||
        part_list_read(&m->parts_lse, "parts_lse", m->given[MERGE_PARTS_LSE], 2,
                       "(batch, heads, rows)"))
        return -1;
    if (m->parts_lse.count != m->parts_o.count) {
        PyErr_Format(PyExc_ValueError,
                     "parts_lse has %zd parts, parts_o %zd: expected the same number",
                     m->parts_lse.count, m->parts_o.count);
        return -1;
    }
    m->frame = framework_of(m->parts_o.first, "parts_o");
    return !m->frame || read_sizes(m) || check_o(m) || check_lse(m) ? -1 : 0;
}

merge_strides merge_strides_of(const merge_call *m, const tensor *o, const tensor *lse) {
    const att_merge_problem *p = &m->shape;
    const bool packed = o->ndim == 3;
    const int64_t *so = o->strides, *sl = lse->strides;
    merge_strides s = {.o = {packed ? 0 : so[0], so[packed ? 1 : m->axis_head],
                             so[packed ? 0 : m->axis_seq], 1},
                       .lse = {packed ? 0 : sl[0], sl[packed ? 0 : 1], sl[packed ? 1 : 2], 1}};
    if (p->batch <= 1)
        s.o.batch = s.lse.batch = 0;
    if (p->heads <= 1)
        s.o.head = s.lse.head = 0;
    if (p->seq <= 1)
        s.o.row = s.lse.row = 0;
    return s;
}
