/* array_check.c: checks of one array. */
#include "python/core/array_check.h"

att_dtype array_dtype(const tensor *t) {
    const dl_type type = t->type;
    if (type.lanes != 1)
        return 0;
    if (type.code == DL_FLOAT)
        return type.bits == 32 ? ATT_F32 : type.bits == 16 ? ATT_F16 : 0;
    if (type.code == DL_BOOL && type.bits == 8)
        return ATT_BOOL8;
    return type.code == DL_BFLOAT && type.bits == 16 ? ATT_BF16 : 0;
}

const char *array_dtype_name(att_dtype dtype) {
    return dtype == ATT_F32    ? "float32"
           : dtype == ATT_F16  ? "float16"
           : dtype == ATT_BF16 ? "bfloat16"
                               : "";
}

int array_wrong_type(const tensor *t, const char *fits) {
    char text[TENSOR_TEXT];
    PyErr_Format(PyExc_TypeError, "%s is %s; expected %s", t->name, tensor_type_text(t, text),
                 fits);
    return -1;
}

int array_wrong_shape(const tensor *t, const char *fits) {
    char text[TENSOR_TEXT];
    PyErr_Format(PyExc_ValueError, "%s has the shape %s; expected %s", t->name,
                 tensor_shape_text(t, text), fits);
    return -1;
}

int array_check_device(const tensor *t, const tensor *first) {
    char here[TENSOR_TEXT], there[TENSOR_TEXT];
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST &&
        !tensor_on_gpu(t->device)) {
        PyErr_Format(PyExc_ValueError, "%s is on %s; expected cpu or cuda", t->name,
                     tensor_device_text(t->device, here));
        return -1;
    }
    if (!tensor_same_device(t->device, first->device)) {
        PyErr_Format(PyExc_ValueError, "%s is on %s, %s is on %s: they must be on one device",
                     t->name, tensor_device_text(t->device, here), first->name,
                     tensor_device_text(first->device, there));
        return -1;
    }
    return 0;
}

int array_check_contiguous(const tensor *t, const char *axis) {
    const int last = t->ndim - 1;
    if (!tensor_count(t) || t->shape[last] <= 1 || t->strides[last] == 1)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "%s has a stride of %lld along %s; expected 1: make it contiguous", t->name,
                 (long long)t->strides[last], axis);
    return -1;
}

int array_check_rows(const tensor *t) {
    return tensor_count(t) && (array_check_contiguous(t, "the head dimension, its last") ||
                               array_check_forwards(t))
               ? -1
               : 0;
}

int array_check_forwards(const tensor *t) {
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] > 1 && t->strides[i] < 0) {
            PyErr_Format(PyExc_ValueError, "%s has negative strides: make it contiguous",
                         t->name);
            return -1;
        }
    return 0;
}

int array_read_layout(PyObject *layout, int *axis_seq, int *axis_head) {
    const bool text = layout && PyUnicode_Check(layout);
    const bool bshd = text && !PyUnicode_CompareWithASCIIString(layout, "bshd");
    if (layout && !bshd && (!text || PyUnicode_CompareWithASCIIString(layout, "bhsd"))) {
        PyErr_Format(PyExc_ValueError, "layout is %R; expected 'bhsd' or 'bshd'", layout);
        return -1;
    }
    *axis_seq = bshd ? 1 : 2;
    *axis_head = bshd ? 2 : 1;
    return 0;
}
