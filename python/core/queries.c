/* queries.c: devices and kernels as plain tuples; attest/__init__.py names their fields. */
#include "python/core/queries.h"
#include "python/core/array_check.h"
#include "python/core/failure.h"
#include "python/core/plan_calls.h"

static const char *isa_name(att_isa isa) {
    static const char *const names[] = {"",    "portable", "avx2", "avx512", "avx512_bf16",
                                        "amx", "neon"};
    return isa >= ATT_ISA_AUTO && isa <= ATT_ISA_NEON ? names[isa] : "";
}

static PyObject *describe_device(att_device device, int32_t index) {
    kept_context *kept = context_for(device, index);
    att_context_info info = {.size = sizeof info};
    char name[32];
    if (!kept)
        return NULL;
    const att_status status = att_context_query(kept->context, &info);
    device_context_give(kept);
    if (status != ATT_OK)
        return failure_raise(status);
    if (device == ATT_DEVICE_CPU)
        return Py_BuildValue("(sssiiLs)", "cpu", info.name, isa_name(info.isa), info.threads, 0,
                             (long long)0, "");
    PyOS_snprintf(name, sizeof name, "cuda:%d", (int)index);
    return Py_BuildValue("(sssiiLs)", name, info.gpu_name, "", 0, info.compute_capability,
                         (long long)info.memory_bytes, info.gpu_uuid);
}

static int append(PyObject *list, PyObject *item) {
    int failed = !item || PyList_Append(list, item);
    Py_XDECREF(item);
    return failed ? -1 : 0;
}

/* GPUs are found by trying each index; one that does not exist, or is too old, is refused. */
PyObject *devices(PyObject *self, PyObject *unused) {
    enum { MOST = 16 };
    (void)self;
    (void)unused;
    PyObject *list = PyList_New(0);
    if (!list || append(list, describe_device(ATT_DEVICE_CPU, 0)))
        goto fail;
    for (int32_t index = 0; index < MOST; index++) {
        PyObject *found = describe_device(ATT_DEVICE_CUDA, index);
        if (!found && att_last_error()->status == ATT_E_DEVICE)
            PyErr_Clear();
        else if (append(list, found))
            goto fail;
    }
    return list;
fail:
    Py_XDECREF(list);
    return NULL;
}

static PyObject *list_kernels(const att_context *context) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < att_context_kernel_count(context); i++) {
        att_kernel_info info = {.size = sizeof info};
        att_status status = att_kernel_query(context, i, &info);
        if (status != ATT_OK) {
            Py_DECREF(list);
            return failure_raise(status);
        }
        const char *where = info.device == ATT_DEVICE_CPU ? "cpu" : "cuda";
        if (append(list, Py_BuildValue("(ssNsssiiNNs)", info.id, where,
                                       PyBool_FromLong(info.available), info.role, info.summary,
                                       array_dtype_name(info.dtype), info.d_qk, info.d_v,
                                       PyBool_FromLong(info.rung),
                                       PyBool_FromLong(!info.unattested), info.operation))) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyObject *kernels(PyObject *self, PyObject *args) {
    (void)self;
    int device, index;
    if (!PyArg_ParseTuple(args, "ii", &device, &index))
        return NULL;
    kept_context *kept = context_for((att_device)device, index);
    if (!kept)
        return NULL;
    PyObject *list = list_kernels(kept->context);
    device_context_give(kept);
    return list;
}
