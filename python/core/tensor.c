/* tensor.c: the consumer side of DLPack: through the exchange table if there is one, else
 * through __dlpack__. */
#include "python/core/tensor.h"

#include <stdio.h>
#include <string.h>

bool tensor_on_gpu(dl_device device) {
    return device.type == DL_CUDA || device.type == DL_CUDA_MANAGED;
}

bool tensor_same_device(dl_device a, dl_device b) {
    const bool on_gpu = tensor_on_gpu(a);
    if (on_gpu != tensor_on_gpu(b))
        return false;
    return !on_gpu || a.id == b.id;
}

int64_t tensor_count(const tensor *t) {
    int64_t count = 1;
    for (int i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    return count;
}

void tensor_contiguous(int64_t *strides, const int64_t *shape, int ndim) {
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= shape[i] ? shape[i] : 1;
    }
}

/* The metadata of an array is checked before it is used: sizes of at least 0, element counts
 * and strides far from 2^63. */
static int check_layout(const char *name, const dl_tensor *from) {
    const int64_t most = INT64_MAX / 64;
    int64_t count = 1;
    for (int i = 0; i < from->ndim; i++) {
        const int64_t size = from->shape[i], step = from->strides ? from->strides[i] : 0;
        int64_t reach = 0;
        const bool fits = size >= 0 &&
                          !__builtin_mul_overflow(count, size ? size : 1, &count) &&
                          (size <= 1 || !__builtin_mul_overflow(size - 1, step, &reach));
        if (fits && count <= most && reach <= most && reach >= -most)
            continue;
        PyErr_Format(PyExc_ValueError,
                     "%s: axis %d of %lld elements, %lld apart, does not fit in memory", name,
                     i, (long long)size, (long long)step);
        return -1;
    }
    return 0;
}

/* `most`: the most axes allowed. */
static int fill(tensor *out, const char *name, const dl_tensor *from, int most) {
    if (from->ndim < 0 || from->ndim > most) {
        PyErr_Format(PyExc_ValueError, "%s has %d dimensions; expected at most %d", name,
                     (int)from->ndim, most);
        return -1;
    }
    if (check_layout(name, from))
        return -1;
    out->name = name;
    out->data = from->data ? (char *)from->data + from->byte_offset : NULL;
    out->device = from->device;
    out->type = from->type;
    out->ndim = from->ndim;
    bool empty = false; /* its strides mean nothing, and may be 0 */
    for (int i = 0; i < from->ndim; i++)
        empty |= from->shape[i] == 0;
    for (int i = 0; i < from->ndim; i++)
        out->shape[i] = from->shape[i];
    tensor_contiguous(out->strides, out->shape, out->ndim);
    for (int i = 0; from->strides && !empty && i < from->ndim; i++)
        out->strides[i] = from->strides[i];
    return 0;
}

static dl_type type_of_name(const char *dtype) {
    static const struct {
        const char *name;
        dl_type type;
    } known[] = {{"float32", {DL_FLOAT, 32, 1}},   {"float16", {DL_FLOAT, 16, 1}},
                 {"bfloat16", {DL_BFLOAT, 16, 1}}, {"uint8", {DL_UINT, 8, 1}},
                 {"bool", {DL_BOOL, 8, 1}},        {"int32", {DL_INT, 32, 1}},
                 {"int64", {DL_INT, 64, 1}},       {"float64", {DL_FLOAT, 64, 1}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(dtype, known[i].name))
            return known[i].type;
    return (dl_type){UINT8_MAX, 0, 0}; /* not a supported type */
}

/* Re-raise the current error with its first line and the name of the argument. */
static void blame(const char *name) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text = PyObject_Str(value ? value : type);
    PyObject *lines = text ? PyUnicode_Splitlines(text, 0) : NULL;
    PyObject *first = lines && PyList_Size(lines) > 0 ? PyList_GetItem(lines, 0) : type;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: %S", name, first);
    Py_XDECREF(lines);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* 0 is not a stream in this protocol; 1 is the default stream. */
static PyObject *stream_argument(framework *frame, PyObject *object) {
    PyObject *stream = PyObject_CallFunctionObjArgs(frame->stream, object, NULL);
    if (!stream || stream == Py_None || PyObject_IsTrue(stream))
        return stream;
    Py_DECREF(stream);
    return PyLong_FromLong(1);
}

/* The named arguments of __dlpack__. Without a stream they are the same every time. */
static PyObject *method_arguments(framework *frame, PyObject *object) {
    static PyObject *always;
    if (!always && !(always = Py_BuildValue("{s:(ii)}", "max_version", 1, 0)))
        return NULL;
    if (!frame->stream) {
        Py_INCREF(always);
        return always;
    }
    PyObject *named = frame->versioned ? PyDict_Copy(always) : PyDict_New();
    PyObject *stream = named ? stream_argument(frame, object) : NULL;
    if (!stream || PyDict_SetItemString(named, "stream", stream))
        Py_CLEAR(named);
    Py_XDECREF(stream);
    return named;
}

static PyObject *call_method(framework *frame, PyObject *object, PyObject *method) {
    static PyObject *none;
    if (!frame->versioned && !frame->stream)
        return PyObject_CallObject(method, NULL);
    if (!none && !(none = PyTuple_New(0)))
        return NULL;
    PyObject *named = method_arguments(frame, object);
    PyObject *capsule = named ? PyObject_Call(method, none, named) : NULL;
    Py_XDECREF(named);
    return capsule;
}

static PyObject *make_capsule(framework *frame, PyObject *object) {
    static PyObject *name;
    if (!name && !(name = PyUnicode_InternFromString("__dlpack__")))
        return NULL;
    PyObject *method = PyObject_GetAttr(object, name);
    if (!method)
        return NULL;
    PyObject *capsule = call_method(frame, object, method);
    if (!capsule && frame->versioned && PyErr_ExceptionMatches(PyExc_TypeError)) {
        /* From before DLPack had versions; or both ways fail, and the plain way gives the
         * reason. */
        PyErr_Clear();
        frame->versioned = false;
        capsule = call_method(frame, object, method);
        frame->versioned = !capsule;
    }
    Py_DECREF(method);
    return capsule;
}

/* The capsule is kept unused: dropping it frees its memory. */
static int open_capsule(tensor *out, const char *name, PyObject *capsule, int most) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        const dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (managed->version.major > 1) {
            PyErr_Format(PyExc_TypeError, "%s uses DLPack version %u; expected version 1", name,
                         managed->version.major);
            return -1;
        }
        out->read_only = managed->flags & DL_READ_ONLY;
        return fill(out, name, &managed->tensor, most);
    }
    const dl_managed_plain *managed = PyCapsule_GetPointer(capsule, "dltensor");
    return managed ? fill(out, name, &managed->tensor, most) : -1;
}

/* What __dlpack__ of this framework's release cannot export, its adapter can: *stands_for is
 * the type of the elements if it is not that of the capsule. Takes the current error. */
static PyObject *export_otherwise(tensor *out, framework *frame, PyObject *object,
                                  dl_type *stands_for) {
    PyObject *type, *value, *trace, *substitute, *capsule = NULL;
    const char *dtype = "";
    int read_only = 0;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *answer = PyObject_CallFunctionObjArgs(frame->export, object, NULL);
    if (answer && answer != Py_None &&
        PyArg_ParseTuple(answer, "Osp", &substitute, &dtype, &read_only)) {
        capsule = make_capsule(frame, substitute);
        if (*dtype)
            *stands_for = type_of_name(dtype);
    }
    Py_XDECREF(answer);
    if (!capsule) {
        PyErr_Clear();
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    out->read_only = read_only;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return capsule;
}

static int borrow_by_method(tensor *out, const char *name, framework *frame, PyObject *object,
                            int most) {
    bool read_only = false;
    dl_type stands_for = {.bits = 0};
    PyObject *capsule = make_capsule(frame, object);
    if (!capsule && frame->export) {
        capsule = export_otherwise(out, frame, object, &stands_for);
        read_only = out->read_only;
    }
    if (!capsule) {
        blame(name);
        return -1;
    }
    if (open_capsule(out, name, capsule, most)) {
        Py_DECREF(capsule);
        return -1;
    }
    out->keep = capsule;
    out->read_only |= read_only;
    if (stands_for.bits)
        out->type = stands_for;
    return 0;
}

static int borrow_by_exchange(tensor *out, const char *name, framework *frame, PyObject *object,
                              int most) {
    dl_tensor from;
    if (frame->exchange->tensor_from_object(object, &from)) {
        blame(name);
        return -1;
    }
    return fill(out, name, &from, most);
}

static bool is_dense(const tensor *t) {
    return t->ndim > 0 && t->shape[t->ndim - 1] > 1 && t->strides[t->ndim - 1] == 1;
}

/* Whether the framework's `refuse` must be called: 1, 0, or -1 with an error. */
static int in_doubt(framework *frame, PyObject *object, const tensor *t) {
    int doubt = quick_call_true(&frame->refuse_when);
    if (!doubt && !is_dense(t))
        doubt = quick_call_true_of(&frame->refuse_apart, object);
    if (doubt)
        return doubt;
    doubt = quick_call_true(&frame->refuse_if_when);
    if (doubt <= 0)
        return doubt;
    PyObject *value = PyObject_GetAttr(object, frame->refuse_if);
    doubt = value == Py_False ? 0 : value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return doubt;
}

/* `t` has the shape and strides of the array if `refuse` is called only in some cases. */
static int refused(const char *name, framework *frame, PyObject *object, const tensor *t) {
    const int doubt = frame->refuse_seldom ? in_doubt(frame, object, t) : 1;
    if (doubt <= 0)
        return doubt;
    PyObject *why = PyObject_CallFunctionObjArgs(frame->refuse, object, NULL);
    if (why && why != Py_None)
        PyErr_Format(PyExc_TypeError, "%s %S", name, why);
    int result = why == Py_None ? 0 : -1;
    Py_XDECREF(why);
    return result;
}

static int borrow(tensor *out, const char *name, PyObject *object, int most) {
    *out = (tensor){.name = name};
    framework *frame = framework_of(object, name);
    if (!frame)
        return -1;
    if (frame->exchange)
        return borrow_by_exchange(out, name, frame, object, most) ||
                       (frame->refuse && refused(name, frame, object, out))
                   ? -1
                   : 0;
    if (frame->refuse && refused(name, frame, object, out)) /* __dlpack__ would give a worse
                                                             * message */
        return -1;
    return borrow_by_method(out, name, frame, object, most);
}

int tensor_borrow(tensor *out, const char *name, PyObject *object) {
    return borrow(out, name, object, TENSOR_AXES);
}

int tensor_borrow_stack(tensor *out, const char *name, PyObject *object) {
    return borrow(out, name, object, TENSOR_DIMS);
}

int tensor_describe(tensor *out, const char *name, PyObject *object) {
    const char *dtype, *device;
    PyObject *shape;
    int64_t sizes[TENSOR_DIMS] = {0};
    if (!PyTuple_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s is not (dtype, device, shape)", name);
        return -1;
    }
    if (!PyArg_ParseTuple(object, "ssO!", &dtype, &device, &PyTuple_Type, &shape))
        return -1;
    const Py_ssize_t ndim = PyTuple_Size(shape);
    for (Py_ssize_t i = 0; i < ndim && i < TENSOR_DIMS; i++)
        sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    if (PyErr_Occurred())
        return -1;
    *out = (tensor){.name = name};
    const dl_tensor from = {.device = {!strcmp(device, "cuda") ? DL_CUDA : DL_CPU, 0},
                            .ndim = (int32_t)ndim,
                            .type = type_of_name(dtype),
                            .shape = sizes};
    return fill(out, name, &from, TENSOR_AXES);
}

void tensor_drop(tensor *t) {
    Py_CLEAR(t->keep);
}

static void set_error(void *context, const char *kind, const char *message) {
    (void)context;
    (void)kind;
    PyErr_SetString(PyExc_MemoryError, message);
}

static dl_managed *allocate(const char *name, framework *frame, dl_tensor *prototype) {
    dl_managed *managed = NULL;
    if (frame->exchange->allocate(prototype, &managed, NULL, set_error)) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_MemoryError, "%s could not be allocated", name);
        return NULL;
    }
    return managed;
}

dl_managed *tensor_reserve(const char *name, framework *frame, dl_device device, size_t bytes) {
    int64_t size = (int64_t)bytes;
    dl_tensor prototype = {
        .device = device, .ndim = 1, .type = type_of_name("uint8"), .shape = &size};
    return allocate(name, frame, &prototype);
}

static int64_t count_of(const tensor_plan *wanted) {
    int64_t count = 1;
    for (int i = 0; i < wanted->ndim; i++)
        count *= wanted->shape[i];
    return count;
}

/* Memory for the elements and the spare bytes after them, as an array whose axes except the
 * last are 1. */
static dl_managed *allocate_flat(tensor *out, const char *name, framework *frame,
                                 dl_device device, const tensor_plan *wanted) {
    const dl_type type = type_of_name(wanted->dtype);
    const size_t element = type.bits / 8, bytes = (size_t)count_of(wanted) * element;
    const size_t all = wanted->spare ? bytes + SPARE_ALIGN + wanted->spare : bytes;
    int64_t sizes[TENSOR_DIMS] = {1, 1, 1, 1, 1};
    sizes[wanted->ndim - 1] = (int64_t)((all + element - 1) / element);
    dl_tensor prototype = {
        .device = device, .ndim = wanted->ndim, .type = type, .shape = sizes};
    dl_managed *managed = allocate(name, frame, &prototype);
    if (!managed || !wanted->spare)
        return managed;
    const uintptr_t end = (uintptr_t)managed->tensor.data + managed->tensor.byte_offset + bytes;
    out->spare = (void *)((end + SPARE_ALIGN - 1) & ~(uintptr_t)(SPARE_ALIGN - 1));
    return managed;
}

/* The new array owns the memory from here on. Its axes get their sizes before anyone else sees
 * it. */
static PyObject *create_by_exchange(tensor *out, const char *name, framework *frame,
                                    dl_device device, const tensor_plan *wanted) {
    dl_managed *managed = allocate_flat(out, name, frame, device, wanted);
    void *object = NULL;
    if (!managed)
        return NULL;
    dl_tensor *made = &managed->tensor;
    if (!made->strides) { /* DLPack has required strides as long as there are such tables */
        managed->deleter(managed);
        PyErr_Format(PyExc_TypeError, "%s was made without strides", name);
        return NULL;
    }
    memcpy(made->shape, wanted->shape, (size_t)wanted->ndim * sizeof *made->shape);
    if (wanted->strides)
        memcpy(made->strides, wanted->strides, (size_t)wanted->ndim * sizeof *made->strides);
    else
        tensor_contiguous(made->strides, made->shape, wanted->ndim);
    if (fill(out, name, made, TENSOR_AXES) ||
        frame->exchange->object_from_managed(managed, &object))
        return NULL;
    return object;
}

static PyObject *create_by_function(tensor *out, const char *name, framework *frame,
                                    PyObject *like, const tensor_plan *wanted) {
    if (!frame->empty) {
        PyErr_Format(PyExc_TypeError, "cannot create an array of %S for %s", frame->type, name);
        return NULL;
    }
    PyObject *sizes = PyTuple_New(wanted->ndim), *object = NULL;
    for (int i = 0; sizes && i < wanted->ndim; i++)
        if (PyTuple_SetItem(sizes, i, PyLong_FromLongLong(wanted->shape[i])))
            goto done;
    object =
        sizes ? PyObject_CallFunction(frame->empty, "OOs", like, sizes, wanted->dtype) : NULL;
    if (object && tensor_borrow(out, name, object))
        Py_CLEAR(object);
done:
    Py_XDECREF(sizes);
    return object;
}

PyObject *tensor_create(tensor *out, const char *name, framework *frame, PyObject *like,
                        dl_device device, const tensor_plan *wanted) {
    *out = (tensor){.name = name};
    PyObject *made = frame->exchange ? create_by_exchange(out, name, frame, device, wanted)
                                     : create_by_function(out, name, frame, like, wanted);
    if (made) /* the type that stands for bfloat16 may have another name */
        out->type = type_of_name(wanted->dtype);
    return made;
}

int tensor_stream(void **stream, framework *frame, PyObject *array, dl_device device) {
    *stream = NULL;
    if (frame->exchange)
        return frame->exchange->current_stream(device.type, device.id, stream);
    if (!frame->stream) {
        PyErr_Format(PyExc_TypeError, "cannot find the current stream of %S", frame->type);
        return -1;
    }
    PyObject *number = PyObject_CallFunctionObjArgs(frame->stream, array, NULL);
    if (number && number != Py_None)
        *stream = PyLong_AsVoidPtr(number);
    Py_XDECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

const char *tensor_type_text(const tensor *t, char *text) {
    static const char *const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex"};
    const bool known = t->type.code < sizeof kinds / sizeof *kinds;
    if (t->type.code == DL_BOOL)
        snprintf(text, TENSOR_TEXT, "bool");
    else
        snprintf(text, TENSOR_TEXT, "%s%d", known ? kinds[t->type.code] : "of DLPack's type ",
                 known ? t->type.bits : t->type.code);
    return text;
}

const char *tensor_shape_text(const tensor *t, char *text) {
    int used = snprintf(text, TENSOR_TEXT, "(");
    for (int i = 0; i < t->ndim; i++)
        used += snprintf(text + used, (size_t)(TENSOR_TEXT - used), i ? ", %lld" : "%lld",
                         (long long)t->shape[i]);
    snprintf(text + used, (size_t)(TENSOR_TEXT - used), t->ndim == 1 ? ",)" : ")");
    return text;
}

PyObject *tensor_shape_tuple(const int64_t *shape, int ndim) {
    PyObject *made = PyTuple_New(ndim);
    for (int i = 0; made && i < ndim; i++)
        if (PyTuple_SetItem(made, i, PyLong_FromLongLong(shape[i])))
            Py_CLEAR(made);
    return made;
}

const char *tensor_device_text(dl_device device, char *text) {
    if (tensor_on_gpu(device))
        snprintf(text, TENSOR_TEXT, "cuda:%d", (int)device.id);
    else if (device.type == DL_CPU || device.type == DL_CUDA_HOST)
        snprintf(text, TENSOR_TEXT, "cpu");
    else
        snprintf(text, TENSOR_TEXT, "a device of DLPack's type %d", (int)device.type);
    return text;
}
