/* attention.c: attention() from its arguments to the answer; explain() stops halfway. */
#include "python/core/attention.h"
#include "python/core/failure.h"
#include "python/core/launch_record.h"
#include "python/core/output.h"
#include "python/core/plan_calls.h"
#include "python/core/workspace.h"

#include <stdlib.h>
#include <time.h>

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

/* Everything that att_plan_run() needs. Returns 0, or -1 with an error; call workspace_give()
 * afterwards. */
static int prepare(call *c, const cached_plan *plan, workspace *space, void **stream) {
    *stream = NULL;
    if (device_of(c) == ATT_DEVICE_CUDA &&
        tensor_stream(stream, c->frame, c->given[ARG_Q], c->tensors[ARG_Q].device))
        return -1;
    c->args.launch = launch_record();
    if (outputs_create(c, workspace_beside_o(c, plan->workspace)))
        return -1;
    *space = (workspace){.data = c->o.spare};
    const workspace_place place = {c->frame, c->given[ARG_Q], c->tensors[ARG_Q].device};
    return c->o.spare ? 0 : workspace_take(space, &place, plan->workspace);
}

/* Without the GIL: other Python threads continue. */
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

static PyObject *answer(const call *c) {
    PyObject *o = c->o_object, *lse = NULL;
    if (c->given[ARG_OUT])
        Py_INCREF(o);
    else
        o = output_finish(c->frame, o, c->problem.dtype_o);
    if (o && c->return_lse && !(lse = output_finish(c->frame, c->lse_object, ATT_F32)))
        Py_CLEAR(o);
    return output_pair(o, lse);
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
    if (!arguments_read(c.given, &attention_arguments, "attention", args, count, names) &&
        !problem_build(&c))
        result = call_finish(&c);
    call_drop(&c);
    return result;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* `times` runs of a plan, one after the other; seconds per run. -1 with an error. */
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
    if (!arguments_read(c.given, &attention_arguments, "run_seconds", args + 1, count - 1,
                        names) &&
        !problem_build(&c) && !outputs_build(&c)) {
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
    if (arguments_read(c.given, &attention_arguments, "explain", args, count, names) ||
        problem_build(&c) || outputs_build(&c))
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
