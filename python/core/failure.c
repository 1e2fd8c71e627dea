/* failure.c: mistakes in a call become ValueError; what the machine refuses becomes
 * attest.Error. */
#include "python/core/failure.h"

#include <stdbool.h>
#include <stdio.h>
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

/* The argument for a word of the library; NULL: it has the same name, or is not an array. */
static const char *argument_of(const char *word, size_t length, bool first) {
    static const char *const names[][2] = {
        {"part_o", "parts_o"}, {"part_lse", "parts_lse"}, {"o", "out"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i][0]) == length && !memcmp(names[i][0], word, length) &&
            (first || length > 1)) /* elsewhere in a sentence o may be an output */
            return names[i][1];
    return NULL;
}

void *failure_raise(att_status status) {
    char text[2 * sizeof att_last_error()->text];
    size_t used = 0;
    for (const char *word = failure_text(status); *word;) {
        const size_t length = strcspn(word, " "), spaces = strspn(word + length, " ");
        const char *name = argument_of(word, length, used == 0);
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s%.*s",
                                 name ? (int)strlen(name) : (int)length, name ? name : word,
                                 (int)spaces, word + length);
        word += length + spaces;
    }
    text[used] = '\0';
    PyErr_SetString(class_of(status), text);
    return NULL;
}
