/* tensor.h: an array of the caller's, looked into without a copy; and new ones of the same framework. */
#ifndef ATTEST_PYTHON_TENSOR_H
#define ATTEST_PYTHON_TENSOR_H

#include "python/core/framework.h"

enum {
    TENSOR_DIMS = 5, /* that an array may have: four, and one of arrays that are stacked */
    TENSOR_AXES = 4  /* of an array that is not stacked */
};

typedef struct tensor {
    const char *name; /* of the argument */
    PyObject *keep; /* the capsule that the memory lives by, or NULL: the caller's array does */
    void *data;
    dl_device device;
    dl_type type;
    int ndim;
    bool read_only;
    int64_t shape[TENSOR_DIMS], strides[TENSOR_DIMS];
    void *spare; /* of a new array: the memory that was asked for behind it */
} tensor;

/* Look into `object`. 0, or -1 with an error that names the argument. tensor_drop() after use. The second takes an
 * array with one axis more. */
int tensor_borrow(tensor *out, const char *name, PyObject *object);
int tensor_borrow_stack(tensor *out, const char *name, PyObject *object);

/* An array that is not there yet, from (dtype, device, shape): ("bfloat16", "cpu", (2, 8, 512, 64)). Contiguous, without memory. */
int tensor_describe(tensor *out, const char *name, PyObject *object);

/* Strides of a contiguous array. */
void tensor_contiguous(int64_t *strides, const int64_t *shape, int ndim);

/* Let go of what tensor_borrow() took; fine on a zeroed tensor. */
void tensor_drop(tensor *t);

/* A new array of the framework and device of `like`, which is an array of `frame`. A new reference, and its memory in
 * *out, which tensor_drop() lets go of. dtype is "float32", "float16", "bfloat16" or "uint8". */
typedef struct tensor_plan {
    int ndim;
    const int64_t *shape;
    const char *dtype;
    /* Only of a framework with an exchange table: */
    const int64_t *strides; /* dense, in any order of the axes; NULL: contiguous */
    size_t spare; /* bytes behind the array, which live as long; aligned to SPARE_ALIGN */
} tensor_plan;

enum { SPARE_ALIGN = 64 };

PyObject *tensor_create(tensor *out, const char *name, framework *frame, PyObject *like,
                        dl_device device, const tensor_plan *wanted);

/* `bytes` of memory of the framework's own, which has an exchange table, in its current stream's order. NULL with an error.
 * The deleter of what is returned lets go of it. */
dl_managed *tensor_reserve(const char *name, framework *frame, dl_device device, size_t bytes);

/* The stream that an array's framework works on now. Only for arrays on a GPU. 0, or -1 with an error. */
int tensor_stream(void **stream, framework *frame, PyObject *array, dl_device device);

bool tensor_on_gpu(dl_device device);
bool tensor_same_device(dl_device a, dl_device b); /* of those that attest computes on */
int64_t tensor_count(const tensor *t);             /* elements */

/* "float16", "int64" …; "(2, 8, 512, 64)"; "cuda:0". `text` has TENSOR_TEXT bytes and is returned. */
enum { TENSOR_TEXT = 128 };
const char *tensor_type_text(const tensor *t, char *text);
const char *tensor_shape_text(const tensor *t, char *text);
const char *tensor_device_text(dl_device device, char *text);

/* A shape as a tuple. A new reference, or NULL with an error. */
PyObject *tensor_shape_tuple(const int64_t *shape, int ndim);

#endif
