/* moe_call.c: moe() from its arguments to the answer. */
#include "python/core/moe_call.h"
#include "python/core/arguments.h"
#include "python/core/failure.h"
#include "python/core/launch_record.h"
#include "python/core/plan_calls.h"
#include "python/core/workspace.h"

static PyObject *interned[MOE_COUNT];
static const argument_table arguments = {moe_argument_names, interned, MOE_COUNT, MOE_W2 + 1,
                                         "x, w1 and w2"};

static int create(moe_call *m, moe_output which, const char *name, int ndim,
                  const int64_t *shape, const char *dtype) {
    const tensor_plan wanted = {.ndim = ndim, .shape = shape, .dtype = dtype};
    m->object[which] = tensor_create(&m->output[which], name, m->frame, m->given[MOE_X],
                                     m->array[MOE_X].device, &wanted);
    return m->object[which] ? 0 : -1;
}

static int build_outputs(moe_call *m) {
    att_moe_problem *p = &m->problem;
    const int64_t rows[] = {p->tokens, p->hidden}, slots[] = {p->tokens, p->experts_per_token},
                  counts[] = {p->experts + 1};
    PyObject *out = m->given[MOE_OUT];
    if (out) {
        tensor *y = &m->output[MOE_Y];
        if (output_take(y, out, rows, 2, &m->array[MOE_X]) ||
            array_check_contiguous(y, "its last axis") || array_check_forwards(y))
            return -1;
        p->dtype_y = array_dtype(y);
        p->y_row = y->shape[0] > 1 ? y->strides[0] : p->hidden;
        m->object[MOE_Y] = out;
        Py_INCREF(out);
    } else if (create(m, MOE_Y, "the output", 2, rows, array_dtype_name(p->dtype))) {
        return -1;
    }
    if (!m->return_routing)
        return 0;
    return create(m, MOE_OUT_IDS, "the ids", 2, slots, "int32") ||
                   create(m, MOE_OUT_WEIGHTS, "the weights", 2, slots, "float32") ||
                   create(m, MOE_OUT_COUNTS, "the counts", 1, counts, "int32")
               ? -1
               : 0;
}

static int64_t common_alignment(const moe_call *m) {
    const tensor *in = m->array;
    return array_alignment((uintptr_t)in[MOE_X].data | (uintptr_t)in[MOE_W1].data |
                           (uintptr_t)in[MOE_W2].data | (uintptr_t)in[MOE_W3].data |
                           (uintptr_t)m->output[MOE_Y].data);
}

static att_moe_args arguments_of(const moe_call *m) {
    const tensor *in = m->array, *out = m->output;
    return (att_moe_args){.size = sizeof(att_moe_args),
                          .x = in[MOE_X].data,
                          .logits = in[MOE_LOGITS].data,
                          .w1 = in[MOE_W1].data,
                          .w2 = in[MOE_W2].data,
                          .w3 = in[MOE_W3].data,
                          .b1 = in[MOE_B1].data,
                          .b2 = in[MOE_B2].data,
                          .b3 = in[MOE_B3].data,
                          .correction = in[MOE_CORRECTION].data,
                          .mask = in[MOE_MASK].data,
                          .given_ids = in[MOE_IDS].data,
                          .given_weights = in[MOE_WEIGHTS].data,
                          .y = out[MOE_Y].data,
                          .ids = out[MOE_OUT_IDS].data,
                          .weights = out[MOE_OUT_WEIGHTS].data,
                          .counts = out[MOE_OUT_COUNTS].data,
                          .launch = launch_record()};
}

static int run(moe_call *m) {
    const dl_device device = m->array[MOE_X].device;
    const bool gpu = tensor_on_gpu(device);
    const workspace_place place = {m->frame, m->given[MOE_X], device};
    const plan_key key = {&plan_of_moe, gpu ? ATT_DEVICE_CUDA : ATT_DEVICE_CPU,
                          gpu ? device.id : 0, &m->problem};
    const att_moe_args args = arguments_of(m);
    workspace scratch;
    void *stream = NULL;
    att_status status;
    if (gpu) {
        m->problem.alignment = common_alignment(m);
        if (tensor_stream(&stream, m->frame, m->given[MOE_X], device))
            return -1;
    }
    cached_plan *plan = plan_for(&key);
    if (!plan)
        return -1;
    if (workspace_take(&scratch, &place, plan->workspace)) {
        plan_cache_give(plan);
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS status = att_moe_run(plan->plan, &args, scratch.data, stream);
    Py_END_ALLOW_THREADS workspace_give(&scratch);
    plan_cache_give(plan);
    if (status != ATT_OK)
        failure_raise(status);
    return status == ATT_OK ? 0 : -1;
}

/* y, or (y, ids, weights, counts). */
static PyObject *answer(const moe_call *m) {
    PyObject *finished[MOE_OUTPUTS] = {NULL}, *result = NULL;
    const int count = m->return_routing ? MOE_OUTPUTS : 1;
    const att_dtype dtypes[MOE_OUTPUTS] = {m->problem.dtype_y, 0, ATT_F32, 0};
    bool failed = false;
    for (int i = 0; i < count && !failed; i++) {
        if (i == MOE_Y && m->given[MOE_OUT]) {
            finished[i] = m->object[i];
            Py_INCREF(finished[i]);
        } else {
            finished[i] = output_finish(m->frame, m->object[i], dtypes[i]);
        }
        failed = !finished[i];
    }
    if (!failed && !m->return_routing) {
        result = finished[MOE_Y];
        finished[MOE_Y] = NULL;
    } else if (!failed) {
        result = PyTuple_Pack(MOE_OUTPUTS, finished[MOE_Y], finished[MOE_OUT_IDS],
                              finished[MOE_OUT_WEIGHTS], finished[MOE_OUT_COUNTS]);
    }
    for (int i = 0; i < count; i++)
        Py_XDECREF(finished[i]);
    return result;
}

static void drop(moe_call *m) {
    for (int i = 0; i < MOE_ARRAYS; i++)
        tensor_drop(&m->array[i]);
    for (int i = 0; i < MOE_OUTPUTS; i++) {
        tensor_drop(&m->output[i]);
        Py_CLEAR(m->object[i]);
    }
}

PyObject *moe(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    (void)self;
    moe_call m = {.frame = NULL};
    PyObject *result = NULL;
    if (!arguments_read(m.given, &arguments, "moe", args, count, names) &&
        (m.frame = framework_of(m.given[MOE_X], "x")) && !moe_problem_build(&m) &&
        !build_outputs(&m) && !run(&m))
        result = answer(&m);
    drop(&m);
    return result;
}

PyObject *describe_moe(PyObject *self, PyObject *const *args, Py_ssize_t count,
                       PyObject *names) {
    (void)self;
    moe_call m = {.described = true};
    const att_moe_problem *p = &m.problem;
    PyObject *result = NULL;
    if (!arguments_read(m.given, &arguments, "moe", args, count, names) &&
        !moe_problem_build(&m)) {
        const int64_t rows[] = {p->tokens, p->hidden}, counts[] = {p->experts + 1},
                      slots[] = {p->tokens, p->experts_per_token};
        result = Py_BuildValue(
            "([(Ns)(Ns)(Ns)(Ns)]y#)", tensor_shape_tuple(rows, 2), array_dtype_name(p->dtype),
            tensor_shape_tuple(slots, 2), "int32", tensor_shape_tuple(slots, 2), "float32",
            tensor_shape_tuple(counts, 1), "int32", (const char *)p, (Py_ssize_t)sizeof *p);
    }
    drop(&m);
    return result;
}
