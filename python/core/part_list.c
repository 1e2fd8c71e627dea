/* part_list.c: both forms become one list of views. */
#include "python/core/part_list.h"
#include "python/core/array_check.h"

#include <stdio.h>
#include <string.h>

static int reserve(part_list *list, Py_ssize_t count) {
    if (count < 1) {
        PyErr_Format(PyExc_ValueError, "%s has no parts; expected one or more", list->name);
        return -1;
    }
    list->count = count;
    list->parts = PyMem_Calloc((size_t)count, sizeof *list->parts);
    list->names = PyMem_Calloc((size_t)count, sizeof *list->names);
    if (list->parts && list->names)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static bool fits_axes(const tensor *t, int least) {
    return t->ndim == least || t->ndim == least + 1;
}

/* A new tuple: nobody can remove an array from it while a kernel reads the array. */
static int read_listed(part_list *list, PyObject *given, int least, const char *fits) {
    list->keep = PySequence_Tuple(given);
    if (!list->keep || reserve(list, PyTuple_Size(list->keep)))
        return -1;
    list->first = PyTuple_GetItem(list->keep, 0);
    for (Py_ssize_t i = 0; i < list->count; i++) {
        snprintf(list->names[i], PART_NAME, "%s[%lld]", list->name, (long long)i);
        if (tensor_borrow(&list->parts[i], list->names[i], PyTuple_GetItem(list->keep, i)))
            return -1;
        if (!fits_axes(&list->parts[i], least))
            return array_wrong_shape(&list->parts[i], fits);
    }
    return 0;
}

static tensor part_of(const tensor *stack, const char *name, Py_ssize_t i) {
    tensor part = *stack;
    const int64_t bytes = stack->type.bits / 8 * stack->type.lanes;
    part.name = name;
    part.keep = NULL; /* owned by the stack */
    part.ndim = stack->ndim - 1;
    if (part.data)
        part.data = (char *)part.data + i * stack->strides[0] * bytes;
    memmove(part.shape, part.shape + 1, (size_t)part.ndim * sizeof *part.shape);
    memmove(part.strides, part.strides + 1, (size_t)part.ndim * sizeof *part.strides);
    return part;
}

static int read_stacked(part_list *list, PyObject *given, int least, const char *fits) {
    list->first = given;
    if (tensor_borrow_stack(&list->stack, list->name, given))
        return -1;
    if (!fits_axes(&list->stack, least + 1)) {
        char text[TENSOR_TEXT];
        PyErr_Format(PyExc_ValueError,
                     "%s has the shape %s; expected a list of arrays, or one array with the "
                     "parts along axis 0, each %s",
                     list->name, tensor_shape_text(&list->stack, text), fits);
        return -1;
    }
    if (reserve(list, (Py_ssize_t)list->stack.shape[0]))
        return -1;
    snprintf(list->names[0], PART_NAME, "a part of %s", list->name);
    for (Py_ssize_t i = 0; i < list->count; i++)
        list->parts[i] = part_of(&list->stack, list->names[0], i);
    return 0;
}

int part_list_read(part_list *list, const char *name, PyObject *given, int least,
                   const char *fits) {
    *list = (part_list){.name = name};
    return PyList_Check(given) || PyTuple_Check(given) ? read_listed(list, given, least, fits)
                                                       : read_stacked(list, given, least, fits);
}

void part_list_drop(part_list *list) {
    for (Py_ssize_t i = 0; list->parts && i < list->count; i++)
        tensor_drop(&list->parts[i]);
    tensor_drop(&list->stack);
    PyMem_Free(list->parts);
    PyMem_Free(list->names);
    Py_CLEAR(list->keep);
    *list = (part_list){.name = NULL};
}
