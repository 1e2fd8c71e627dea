/* tensor.h: a caller's array, opened without a copy; and new arrays of the same framework. */
#ifndef ATTEST_PYTHON_TENSOR_H
#define ATTEST_PYTHON_TENSOR_H

#include "python/core/framework.h"

enum {
    TENSOR_DIMS = 5, /* the most axes of an array: four, and one for stacked arrays */
    TENSOR_AXES = 4  /* of an array that is not stacked */
};

typedef struct tensor {
    const char *name; /* of the argument */
    PyObject *keep;   /* the capsule that owns the memory; NULL: the caller's array does */
    void *data;
    dl_device device;
    dl_type type;
    int ndim;
    bool read_only;
    int64_t shape[TENSOR_DIMS], strides[TENSOR_DIMS];
    void *spare; /* for a new array: the requested memory after it */
} tensor;

/* Open `object`. Returns 0, or -1 with an error that names the argument. Call tensor_drop()
 * afterwards. The second accepts an array with one more axis. */
int tensor_borrow(tensor *out, const char *name, PyObject *object);
int tensor_borrow_stack(tensor *out, const char *name, PyObject *object);

/* An array that does not exist yet, from (dtype, device, shape): ("bfloat16", "cpu", (2, 8,
 * 512, 64)). Contiguous, without memory. */
int tensor_describe(tensor *out, const char *name, PyObject *object);

/* Strides of a contiguous array. */
void tensor_contiguous(int64_t *strides, const int64_t *shape, int ndim);

/* Release what tensor_borrow() took; allowed on a zeroed tensor. */
void tensor_drop(tensor *t);

/* A new array with the framework and device of `like`, which is an array of `frame`. Returns a
 * new reference, with its memory in *out, which tensor_drop() releases. dtype is "float32",
 * "float16", "bfloat16" or "uint8". */
typedef struct tensor_plan {
    int ndim;
    const int64_t *shape;
    const char *dtype;
    /* Only for a framework with an exchange table: */
    const int64_t *strides; /* dense, with any order of the axes; NULL: contiguous */
    size_t spare; /* bytes after the array, with the same lifetime; aligned to SPARE_ALIGN */
} tensor_plan;

enum { SPARE_ALIGN = 64 };

PyObject *tensor_create(tensor *out, const char *name, framework *frame, PyObject *like,
                        dl_device device, const tensor_plan *wanted);

/* `bytes` of memory from the framework, which has an exchange table, in the order of its
 * current stream. NULL with an error. The deleter of the result releases it. */
dl_managed *tensor_reserve(const char *name, framework *frame, dl_device device, size_t bytes);

/* The current stream of an array's framework. Only for arrays on a GPU. Returns 0, or -1 with
 * an error. */
int tensor_stream(void **stream, framework *frame, PyObject *array, dl_device device);

bool tensor_on_gpu(dl_device device);
bool tensor_same_device(dl_device a, dl_device b); /* for devices that attest computes on */
int64_t tensor_count(const tensor *t);             /* elements */

/* "float16", "int64" …; "(2, 8, 512, 64)"; "cuda:0". `text` has TENSOR_TEXT bytes and is
 * returned. */
enum { TENSOR_TEXT = 128 };
const char *tensor_type_text(const tensor *t, char *text);
const char *tensor_shape_text(const tensor *t, char *text);
const char *tensor_device_text(dl_device device, char *text);

/* A shape as a tuple. A new reference, or NULL with an error. */
PyObject *tensor_shape_tuple(const int64_t *shape, int ndim);

#endif
