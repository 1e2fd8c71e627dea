/* framework.c: one record per array type, made when the type is first seen. */
#include "python/core/framework.h"

static framework *known; /* protected by the GIL; one per array type in use */

static const dl_exchange *find_exchange(PyObject *type) {
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    if (!capsule) {
        PyErr_Clear();
        return NULL;
    }
    const dl_exchange *exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule); /* the table itself lives as long as the type */
    PyErr_Clear();
    while (exchange && exchange->version.major > 1)
        exchange = exchange->previous;
    return exchange && exchange->tensor_from_object ? exchange : NULL;
}

/* An attribute of the adapter, or NULL if it has none. */
static PyObject *optional(PyObject *adapter, const char *name) {
    PyObject *value = PyObject_GetAttrString(adapter, name);
    if (!value)
        PyErr_Clear();
    return value;
}

static int describe(framework *made, const char *name) {
    PyObject *module = PyImport_ImportModule("attest._frameworks");
    if (!module)
        return -1;
    PyObject *adapter = PyObject_CallMethod(module, "adapter", "Os", made->type, name);
    Py_DECREF(module);
    if (!adapter)
        return -1;
    made->refuse = optional(adapter, "refuse");
    made->refuse_if = optional(adapter, "refuse_if");
    const int failed =
        quick_call_set(&made->refuse_apart, optional(adapter, "refuse_apart")) ||
        quick_call_set(&made->refuse_when, optional(adapter, "refuse_when")) ||
        quick_call_set(&made->refuse_if_when, optional(adapter, "refuse_if_when"));
    made->refuse_seldom = made->refuse_apart.asked && made->refuse_when.asked &&
                          made->refuse_if && made->refuse_if_when.asked;
    made->export = optional(adapter, "export");
    made->empty = optional(adapter, "empty");
    made->finish = optional(adapter, "finish");
    made->stream = optional(adapter, "stream");
    PyObject *immutable = optional(adapter, "immutable");
    made->immutable = immutable && PyObject_IsTrue(immutable) == 1;
    Py_XDECREF(immutable);
    Py_DECREF(adapter);
    return failed ? -1 : 0;
}

framework *framework_of(PyObject *object, const char *name) {
    PyObject *type = (PyObject *)Py_TYPE(object);
    for (framework *each = known; each; each = each->next)
        if (each->type == type)
            return each;
    framework *made = PyMem_Malloc(sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    *made = (framework){.type = type, .versioned = true};
    if (describe(made, name)) {
        PyMem_Free(made);
        return NULL;
    }
    made->exchange = find_exchange(type);
    Py_INCREF(type);
    made->next = known;
    known = made;
    return made;
}
