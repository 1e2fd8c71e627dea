/* backward_call.c: backward() from its arguments to the gradients. */
#include "python/core/backward_call.h"
#include "python/core/failure.h"
#include "python/core/launch_record.h"
#include "python/core/output.h"
#include "python/core/plan_calls.h"
#include "python/core/workspace.h"

#include <stdlib.h>

/* Without the GIL: other Python threads continue. */
static int run(backward_call *b, const cached_plan *plan) {
    call *f = &b->forward;
    const dl_device device = f->tensors[ARG_Q].device;
    const workspace_place place = {f->frame, f->given[ARG_Q], device};
    workspace space;
    void *stream = NULL;
    att_status status;
    if ((tensor_on_gpu(device) && tensor_stream(&stream, f->frame, f->given[ARG_Q], device)) ||
        workspace_take(&space, &place, plan->workspace))
        return -1;
    f->args.launch = launch_record();
    Py_BEGIN_ALLOW_THREADS status = att_backward_run(plan->plan, &f->args, space.data, stream);
    Py_END_ALLOW_THREADS workspace_give(&space);
    if (status != ATT_OK)
        failure_raise(status);
    return status == ATT_OK ? 0 : -1;
}

/* The caller's own arrays are returned as they are. */
static PyObject *finished(const backward_call *b, gradient which) {
    PyObject *made = b->objects[which];
    if (which > GRADIENT_V || !b->given[BACKWARD_OUT])
        return output_finish(b->forward.frame, made, gradient_dtype(b, which));
    Py_INCREF(made);
    return made;
}

static PyObject *answer(const backward_call *b) {
    Py_ssize_t count = 0;
    for (gradient i = GRADIENT_Q; i < GRADIENT_COUNT; i++)
        count += gradient_wanted(b, i);
    PyObject *all = PyTuple_New(count);
    Py_ssize_t next = 0;
    for (gradient i = GRADIENT_Q; all && i < GRADIENT_COUNT; i++) {
        if (!gradient_wanted(b, i))
            continue;
        PyObject *each = finished(b, i);
        if (!each || PyTuple_SetItem(all, next++, each))
            Py_CLEAR(all);
    }
    return all;
}

static plan_key key_of(const backward_call *b) {
    const dl_device device = b->forward.tensors[ARG_Q].device;
    const bool gpu = tensor_on_gpu(device);
    return (plan_key){&plan_of_backward, gpu ? ATT_DEVICE_CUDA : ATT_DEVICE_CPU,
                      gpu ? device.id : 0, &b->forward.problem};
}

PyObject *backward_finish(backward_call *b) {
    PyObject *result = NULL;
    if (gradients_build(b))
        return NULL;
    const plan_key key = key_of(b);
    cached_plan *plan = plan_for(&key);
    if (!plan)
        return NULL;
    if (!run(b, plan))
        result = answer(b);
    plan_cache_give(plan);
    return result;
}

PyObject *backward(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    (void)self;
    backward_call b = {.forward = {.frame = NULL}};
    PyObject *result = NULL;
    if (!backward_build(&b, "backward", args, count, names))
        result = backward_finish(&b);
    backward_drop(&b);
    return result;
}

PyObject *explain_backward(PyObject *self, PyObject *const *args, Py_ssize_t count,
                           PyObject *names) {
    (void)self;
    backward_call b = {.forward = {.frame = NULL}};
    PyObject *result = NULL;
    if (!backward_build(&b, "explain_backward", args, count, names) && !gradients_build(&b)) {
        const plan_key key = key_of(&b);
        kept_context *kept = context_for(key.device, key.index);
        char *text = kept ? malloc(ATT_EXPLAIN_MAX) : NULL;
        if (text) {
            const att_status status =
                att_backward_explain(kept->context, key.problem, text, ATT_EXPLAIN_MAX);
            result = status == ATT_OK ? PyUnicode_FromString(text) : failure_raise(status);
        } else if (kept) {
            PyErr_NoMemory();
        }
        free(text);
        if (kept)
            device_context_give(kept);
    }
    backward_drop(&b);
    return result;
}

static PyObject *shapes_tuple(const backward_call *b) {
    PyObject *all = PyList_New(0);
    for (gradient i = GRADIENT_Q; all && i < GRADIENT_COUNT; i++) {
        if (!gradient_wanted(b, i))
            continue;
        const tensor *like = gradient_like(b, i);
        PyObject *shape = tensor_shape_tuple(like->shape, like->ndim);
        PyObject *each =
            shape ? Py_BuildValue("(Ns)", shape, array_dtype_name(gradient_dtype(b, i))) : NULL;
        if (!each || PyList_Append(all, each))
            Py_CLEAR(all);
        Py_XDECREF(each);
    }
    return all;
}

PyObject *describe_backward(PyObject *self, PyObject *const *args, Py_ssize_t count,
                            PyObject *names) {
    (void)self;
    backward_call b = {.forward = {.described = true}};
    PyObject *result = NULL;
    if (!backward_build(&b, "backward", args, count, names)) {
        gradients_describe(&b);
        PyObject *shapes = shapes_tuple(&b);
        if (shapes)
            result = Py_BuildValue("(Ny#)", shapes, (const char *)&b.forward.problem,
                                   (Py_ssize_t)sizeof b.forward.problem);
    }
    backward_drop(&b);
    return result;
}
