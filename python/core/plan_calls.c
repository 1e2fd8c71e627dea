/* plan_calls.c: waiting for a plan releases the GIL, so that other Python threads continue. */
#include "python/core/plan_calls.h"
#include "python/core/failure.h"

static int check_index(int32_t index) {
    if (index >= 0 && index < DEVICE_CONTEXTS_GPUS)
        return 0;
    PyErr_Format(PyExc_ValueError, "there is no device cuda:%d", (int)index);
    return -1;
}

cached_plan *plan_for(const plan_key *key) {
    cached_plan *plan;
    att_status status;
    if (check_index(key->index))
        return NULL;
    plan = plan_cache_find(key);
    if (plan)
        return plan;
    Py_BEGIN_ALLOW_THREADS status = plan_cache_take(&plan, key);
    Py_END_ALLOW_THREADS if (status != ATT_OK) return failure_raise(status);
    return plan;
}

kept_context *context_for(att_device device, int32_t index) {
    kept_context *kept;
    att_status status;
    if (check_index(index))
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = device_context_take(&kept, device, index);
    Py_END_ALLOW_THREADS if (status != ATT_OK) return failure_raise(status);
    return kept;
}

/* Plans of the old context are removed after it: one that is just being made then notices that
 * the context was replaced. */
PyObject *set_threads(PyObject *self, PyObject *count) {
    (void)self;
    const long wanted = PyLong_AsLong(count);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    if (wanted < 0 || wanted > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "count is %ld; expected 1 or more, or 0 for the default",
                     wanted);
        return NULL;
    }
    device_context_threads((int32_t)wanted);
    plan_cache_forget(ATT_DEVICE_CPU);
    Py_RETURN_NONE;
}

PyObject *cache_info(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    const plan_cache_counts counts = plan_cache_count();
    return Py_BuildValue("(KKii)", (unsigned long long)counts.hits,
                         (unsigned long long)counts.misses, counts.plans,
                         (int)PLAN_CACHE_LIMIT);
}

PyObject *cache_clear(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    plan_cache_reset();
    Py_RETURN_NONE;
}
