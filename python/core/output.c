/* output.c: checks of `out`, and arrays returned to the caller. */
#include "python/core/output.h"

#include <string.h>

int output_take(tensor *o, PyObject *out, const int64_t *shape, int ndim, const tensor *first) {
    char own[TENSOR_TEXT], wanted[TENSOR_TEXT];
    const framework *frame = framework_of(out, "out");
    if (!frame || tensor_borrow(o, "out", out))
        return -1;
    if (frame->immutable || o->read_only) {
        PyErr_SetString(PyExc_ValueError, "out is read-only");
        return -1;
    }
    if (o->ndim != ndim || memcmp(o->shape, shape, (size_t)ndim * sizeof *shape) != 0) {
        tensor fits = {.ndim = ndim};
        memcpy(fits.shape, shape, (size_t)ndim * sizeof *shape);
        PyErr_Format(PyExc_ValueError, "out has the shape %s; expected %s",
                     tensor_shape_text(o, own), tensor_shape_text(&fits, wanted));
        return -1;
    }
    if (array_check_device(o, first))
        return -1;
    const att_dtype dtype = array_dtype(o);
    return dtype && dtype != ATT_BOOL8 ? 0
                                       : array_wrong_type(o, "float32, float16 or bfloat16");
}

/* Which of two axes of an array is the outer one in memory: 1 the first, -1 the second, 0 if
 * its strides do not tell. */
static int compare_axes(const tensor *like, int a, int b) {
    const int64_t first = like->strides[a], second = like->strides[b];
    if (first == 0 || second == 0)
        return 0;
    return first != second ? (first > second ? 1 : -1) : like->shape[a] > like->shape[b];
}

/* The axes of `like` except its last, innermost first, sorted as torch.empty_like() does. */
static void sort_axes(int order[3], const tensor *like) {
    for (int i = 0; i < 3; i++)
        order[i] = 2 - i;
    for (int i = 1; i < 3; i++)
        for (int inner = i - 1, outer = i; inner >= 0; inner--) {
            const int side = compare_axes(like, order[inner], order[outer]);
            if (side < 0)
                break;
            if (side == 0)
                continue;
            const int axis = order[inner];
            order[inner] = order[outer];
            order[outer] = axis;
            outer = inner;
        }
}

/* attest/_torch_operator.py has the same rule. */
void output_lay_out(int64_t *strides, const int64_t *shape, int ndim, const tensor *like) {
    tensor_contiguous(strides, shape, ndim);
    if (ndim != 4)
        return;
    int order[3];
    sort_axes(order, like);
    int64_t step = shape[3] ? shape[3] : 1;
    for (int i = 0; i < 3; i++) {
        strides[order[i]] = step;
        step *= shape[order[i]] ? shape[order[i]] : 1;
    }
}

PyObject *output_finish(const framework *frame, PyObject *made, att_dtype dtype) {
    if (frame->finish)
        return PyObject_CallFunction(frame->finish, "Os", made, array_dtype_name(dtype));
    Py_INCREF(made);
    return made;
}

PyObject *output_pair(PyObject *o, PyObject *lse) {
    if (!o || !lse)
        return o;
    PyObject *both = PyTuple_Pack(2, o, lse);
    Py_DECREF(lse);
    Py_DECREF(o);
    return both;
}
