/* attention.c: attention() from its arguments to the answer; explain() half of the way. */
#include "python/core/attention.h"
#include "python/core/failure.h"
#include "python/core/plan_calls.h"
#include "python/core/workspace.h"

#include <stdlib.h>
#include <time.h>

static _Thread_local att_launch latest;

static att_device device_of(const call *c) {
    return tensor_on_gpu(c->tensors[ARG_Q].device) ? ATT_DEVICE_CUDA : ATT_DEVICE_CPU;
}

static int32_t index_of(const call *c) {
    return tensor_on_gpu(c->tensors[ARG_Q].device) ? c->tensors[ARG_Q].device.id : 0;
}

static cached_plan *plan_of(const call *c) {
    const plan_key key = {&plan_of_attention, device_of(c), index_of(c), &c->problem};
    return plan_for(&key);
}

/* All that att_plan_run() takes. 0, or -1 with an error; workspace_give() after use. */
static int prepare(call *c, const cached_plan *plan, workspace *space, void **stream) {
    *stream = NULL;
    if (device_of(c) == ATT_DEVICE_CUDA &&
        tensor_stream(stream, c->frame, c->given[ARG_Q], c->tensors[ARG_Q].device))
        return -1;
    c->args.launch = &latest;
    return outputs_create(c, workspace_beside_o(c, plan->workspace)) ||
                   workspace_take(space, c, plan->workspace)
               ? -1
               : 0;
}

/* Without the GIL: other Python threads go on. */
static int run(call *c, const cached_plan *plan) {
    workspace space;
    void *stream;
    att_status status;
    if (prepare(c, plan, &space, &stream))
        return -1;
    Py_BEGIN_ALLOW_THREADS status = att_plan_run(plan->plan, &c->args, space.data, stream);
    Py_END_ALLOW_THREADS workspace_give(&space);
    if (status != ATT_OK)
        failure_raise(status);
    return status == ATT_OK ? 0 : -1;
}

/* What the caller gets of an array that was made for it. */
static PyObject *finished(const call *c, PyObject *made, const char *dtype) {
    if (c->frame->finish)
        return PyObject_CallFunction(c->frame->finish, "Os", made, dtype);
    Py_INCREF(made);
    return made;
}

static PyObject *answer(const call *c) {
    static const char *const names[] = {
        [ATT_F32] = "float32", [ATT_F16] = "float16", [ATT_BF16] = "bfloat16"};
    PyObject *o;
    if (c->given[ARG_OUT]) {
        o = c->o_object;
        Py_INCREF(o);
    } else {
        o = finished(c, c->o_object, names[c->problem.dtype_o]);
    }
    if (!o || !c->return_lse)
        return o;
    PyObject *lse = finished(c, c->lse_object, "float32");
    PyObject *both = lse ? PyTuple_Pack(2, o, lse) : NULL;
    Py_XDECREF(lse);
    Py_DECREF(o);
    return both;
}

PyObject *call_finish(call *c) {
    PyObject *result = NULL;
    if (outputs_build(c))
        return NULL;
    cached_plan *plan = plan_of(c);
    if (!plan)
        return NULL;
    if (!run(c, plan))
        result = answer(c);
    plan_cache_give(plan);
    return result;
}

PyObject *attention(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    (void)self;
    call c = {.frame = NULL};
    PyObject *result = NULL;
    if (!arguments_read(&c, "attention", args, count, names) && !problem_build(&c))
        result = call_finish(&c);
    call_drop(&c);
    return result;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* `times` runs of a plan, one after the other; seconds of one. -1 with an error. */
static double time_runs(call *c, const cached_plan *plan, long times) {
    workspace space;
    void *stream;
    att_status status = ATT_OK;
    if (prepare(c, plan, &space, &stream))
        return -1;
    const double start = now();
    for (long i = 0; i < times && status == ATT_OK; i++)
        status = att_plan_run(plan->plan, &c->args, space.data, stream);
    const double spent = now() - start;
    workspace_give(&space);
    if (status != ATT_OK)
        failure_raise(status);
    return status == ATT_OK ? spent / (double)times : -1;
}

PyObject *run_seconds(PyObject *self, PyObject *const *args, Py_ssize_t count,
                      PyObject *names) {
    (void)self;
    call c = {.frame = NULL};
    const long times = count > 0 ? PyLong_AsLong(args[0]) : 0;
    double seconds = -1;
    if (times < 1) {
        PyErr_SetString(PyExc_ValueError, "run_seconds() needs how many runs, 1 or more");
        return NULL;
    }
    if (!arguments_read(&c, "run_seconds", args + 1, count - 1, names) && !problem_build(&c) &&
        !outputs_build(&c)) {
        cached_plan *plan = plan_of(&c);
        if (plan) {
            seconds = time_runs(&c, plan, times);
            plan_cache_give(plan);
        }
    }
    call_drop(&c);
    return seconds < 0 ? NULL : PyFloat_FromDouble(seconds);
}

PyObject *explain(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    (void)self;
    call c = {.frame = NULL};
    PyObject *result = NULL;
    char *text = NULL;
    kept_context *kept = NULL;
    if (arguments_read(&c, "explain", args, count, names) || problem_build(&c) ||
        outputs_build(&c))
        goto done;
    kept = context_for(device_of(&c), index_of(&c));
    if (!kept)
        goto done;
    text = malloc(ATT_EXPLAIN_MAX);
    if (!text) {
        PyErr_NoMemory();
        goto done;
    }
    att_status status = att_context_explain(kept->context, &c.problem, text, ATT_EXPLAIN_MAX);
    result = status == ATT_OK ? PyUnicode_FromString(text) : failure_raise(status);
done:
    free(text);
    if (kept)
        device_context_give(kept);
    call_drop(&c);
    return result;
}

PyObject *launch_tuple(const att_launch *launch) {
    if (!launch->kernel)
        Py_RETURN_NONE;
    return Py_BuildValue("(s(III)(III)KIs)", launch->kernel, launch->grid[0], launch->grid[1],
                         launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
                         (unsigned long long)launch->shared_bytes, launch->registers,
                         launch->code_sha256);
}

PyObject *last_launch(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return launch_tuple(&latest);
}
