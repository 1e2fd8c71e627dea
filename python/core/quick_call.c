/* quick_call.c: a function in C without arguments is its pointer and the object that it belongs to. */
#include "python/core/quick_call.h"

void quick_call_set(quick_call *q, PyObject *function) {
    *q = (quick_call){.function = function};
    if (function && PyCFunction_Check(function) &&
        PyCFunction_GetFlags(function) == METH_NOARGS)
        q->direct = PyCFunction_GetFunction(function);
}

/* Takes the reference. */
static int truth(PyObject *value) {
    const int is_true = value == Py_False  ? 0
                        : value == Py_True ? 1
                        : value            ? PyObject_IsTrue(value)
                                           : -1;
    Py_XDECREF(value);
    return is_true;
}

int quick_call_true(const quick_call *q) {
    return truth(q->direct ? q->direct(PyCFunction_GetSelf(q->function), NULL)
                           : PyObject_CallFunctionObjArgs(q->function, NULL));
}

int quick_call_true_of(const quick_call *q, PyObject *object) {
    if (q->direct)
        return truth(q->direct(object, NULL));
    PyObject *name = PyObject_GetAttrString(q->function, "__name__");
    PyObject *value = name ? PyObject_CallMethodObjArgs(object, name, NULL) : NULL;
    Py_XDECREF(name);
    return truth(value);
}
