/* quick_call.c: calls a C function without arguments through its pointer and its self
 * object. */
#include "python/core/quick_call.h"

int quick_call_set(quick_call *q, PyObject *asked) {
    *q = (quick_call){.asked = asked};
    if (asked && PyCFunction_Check(asked) && PyCFunction_GetFlags(asked) == METH_NOARGS)
        q->direct = PyCFunction_GetFunction(asked);
    if (!asked || !PyTuple_Check(asked))
        return 0;
    return PyArg_ParseTuple(asked, "O!OO", &PyDict_Type, &q->dictionary, &q->key, &q->usual)
               ? 0
               : -1;
}

/* Takes the reference. */
static int truth(PyObject *value) {
    int is_true = -1;
    if (value)
        is_true = value == Py_False || value == Py_None ? 0 : PyObject_IsTrue(value);
    Py_XDECREF(value);
    return is_true;
}

static int differs(const quick_call *q) {
    PyObject *found = PyDict_GetItemWithError(q->dictionary, q->key); /* borrowed */
    return found == q->usual ? 0 : !found && PyErr_Occurred() ? -1 : 1;
}

int quick_call_true(const quick_call *q) {
    if (q->direct)
        return truth(q->direct(PyCFunction_GetSelf(q->asked), NULL));
    return q->dictionary ? differs(q) : truth(PyObject_CallFunctionObjArgs(q->asked, NULL));
}

int quick_call_true_of(const quick_call *q, PyObject *object) {
    if (q->direct)
        return truth(q->direct(object, NULL));
    PyObject *name = PyObject_GetAttrString(q->asked, "__name__");
    PyObject *value = name ? PyObject_CallMethodObjArgs(object, name, NULL) : NULL;
    Py_XDECREF(name);
    return truth(value);
}
