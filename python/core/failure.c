/* failure.c: mistakes in a call become ValueError, what the machine refuses attest.Error. */
#include "python/core/failure.h"

#include <string.h>

PyObject *failure_error, *failure_unsupported;

static int add(PyObject *module, const char *name, PyObject *type) {
    if (!type)
        return -1;
    Py_INCREF(type);
    if (PyModule_AddObject(module, name, type)) {
        Py_DECREF(type);
        return -1;
    }
    return 0;
}

int failure_setup(PyObject *module) {
    failure_error = PyErr_NewExceptionWithDoc(
        "attest.Error",
        "The machine or the library refused: no such device, a CUDA call that failed.",
        PyExc_RuntimeError, NULL);
    if (add(module, "Error", failure_error))
        return -1;
    PyObject *bases = PyTuple_Pack(2, failure_error, PyExc_NotImplementedError);
    if (!bases)
        return -1;
    failure_unsupported =
        PyErr_NewExceptionWithDoc("attest.UnsupportedError",
                                  "A valid problem that no kernel of the device serves; the "
                                  "text names the nearest kernel.",
                                  bases, NULL);
    Py_DECREF(bases);
    return add(module, "UnsupportedError", failure_unsupported);
}

static PyObject *class_of(att_status status) {
    switch (status) {
    case ATT_E_ARG:
    case ATT_E_STRUCT:
    case ATT_E_OVERFLOW:
    case ATT_E_ALIAS:
    case ATT_E_DATA:
        return PyExc_ValueError;
    case ATT_E_MEMORY:
        return PyExc_MemoryError;
    case ATT_E_UNSUPPORTED:
        return failure_unsupported;
    default:
        return failure_error;
    }
}

const char *failure_text(att_status status) {
    const att_error *latest = att_last_error();
    return latest->status == status ? latest->text : att_status_name(status);
}

/* The library's o is the argument `out`; the other arrays have one name. */
void *failure_raise(att_status status) {
    const char *text = failure_text(status);
    if (!strncmp(text, "o ", 2))
        PyErr_Format(class_of(status), "out%s", text + 1);
    else
        PyErr_SetString(class_of(status), text);
    return NULL;
}
