/* quick_call.c: a function in C without arguments is its pointer and the object that it belongs to. */
#include "python/core/quick_call.h"

void quick_call_set(quick_call *q, PyObject *asked) {
    *q = (quick_call){.asked = asked};
    if (asked && PyCFunction_Check(asked) && PyCFunction_GetFlags(asked) == METH_NOARGS)
        q->direct = PyCFunction_GetFunction(asked);
}

/* Takes the reference. */
static int truth(PyObject *value) {
    int is_true = -1;
    if (value)
        is_true = value == Py_False || value == Py_None ? 0 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return is_true;
}

static int differs(PyObject *triple) {
    PyObject *dictionary = PyTuple_GetItem(triple, 0), *key = PyTuple_GetItem(triple, 1);
    PyObject *found = key ? PyDict_GetItemWithError(dictionary, key) : NULL; /* borrowed */
    PyObject *usual = PyTuple_GetItem(triple, 2);
    return PyErr_Occurred() ? -1 : found != usual;
}

int quick_call_true(const quick_call *q) {
    if (q->direct)
        return truth(q->direct(PyCFunction_GetSelf(q->asked), NULL));
    return PyTuple_Check(q->asked) ? differs(q->asked)
                                   : truth(PyObject_CallFunctionObjArgs(q->asked, NULL));
}

int quick_call_true_of(const quick_call *q, PyObject *object) {
    if (q->direct)
        return truth(q->direct(object, NULL));
    PyObject *name = PyObject_GetAttrString(q->asked, "__name__");
    PyObject *value = name ? PyObject_CallMethodObjArgs(object, name, NULL) : NULL;
    Py_XDECREF(name);
    return truth(value);
}
