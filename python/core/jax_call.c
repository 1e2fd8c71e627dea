/* jax_call.c: the handlers, which share the plan cache with Python's calls. */
#include "python/core/jax_call.h"
#include "python/core/array_check.h"
#include "python/core/failure.h"
#include "python/core/jax_operation.h"
#include "python/core/launch_record.h"

#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static att_launch latest; /* protected by the lock */

xla_error *jax_fail(const jax_call *c, int code, const char *message) {
    xla_error_args args = {.size = sizeof args, .message = message, .code = code};
    /* cppcheck-suppress returnDanglingLifetime ; the returned error is owned by XLA */
    return c->frame->api->error_create(&args);
}

const void *jax_argument(const jax_call *c, int64_t i) {
    const xla_values *in = &c->frame->arguments;
    return i < in->count ? ((const xla_buffer *)in->values[i])->data : NULL;
}

void *jax_result(const jax_call *c, int64_t i) {
    return ((const xla_buffer *)c->frame->results.values[i])->data;
}

int64_t jax_alignment(const void *const *addresses, int count) {
    uintptr_t bits = 0;
    for (int i = 0; i < count; i++)
        bits |= (uintptr_t)addresses[i];
    return array_alignment(bits);
}

static xla_error *fail_status(const jax_call *c, att_status status) {
    const int code = status == ATT_E_UNSUPPORTED ? XLA_UNIMPLEMENTED
                     : status == ATT_E_MEMORY    ? XLA_RESOURCE_EXHAUSTED
                     : status == ATT_E_ARG       ? XLA_INVALID_ARGUMENT
                                                 : XLA_INTERNAL;
    return jax_fail(c, code, failure_text(status));
}

/* ------------------------------------------------------------------------ what is asked */

static xla_error *read_problem(jax_call *c) {
    const xla_attributes *all = &c->frame->attributes;
    const size_t bytes = c->operation->plan->problem_bytes;
    for (int64_t i = 0; i < all->count; i++) {
        const xla_array *array = all->values[i];
        const xla_text *name = all->names[i];
        if (name->length != strlen("problem") ||
            memcmp(name->data, "problem", name->length) != 0)
            continue;
        if (all->types[i] != XLA_ATTRIBUTE_ARRAY || array->type != XLA_S64 ||
            array->count * sizeof(int64_t) != bytes)
            break;
        memcpy(&c->problem, array->data, bytes);
        if (c->problem.size == bytes)
            return NULL;
        break;
    }
    return jax_fail(c, XLA_INVALID_ARGUMENT,
                    "the problem was described by another version of attest: compile it again");
}

static xla_error *find_place(jax_call *c) {
    const xla_api *api = c->frame->api;
    xla_ordinal_args args = {.size = sizeof args, .context = c->frame->context};
    if (!c->gpu || api->size < offsetof(xla_api, device_ordinal) + sizeof api->device_ordinal)
        return NULL;
    xla_error *error = api->device_ordinal(&args);
    if (error)
        return error; /* cppcheck-suppress returnDanglingLifetime */
    if (args.ordinal < 0 || args.ordinal >= DEVICE_CONTEXTS_GPUS)
        return jax_fail(c, XLA_INVALID_ARGUMENT, "there is no such GPU");
    c->index = args.ordinal;
    return NULL;
}

/* ---------------------------------------------------------------------------------- run */

/* XLA's threads flush subnormal numbers to 0, the library's own threads do not: results must
 * not depend on which thread computes a row. */
static att_status run_exactly(const jax_call *c, const cached_plan *plan, void *space) {
    fenv_t xlas;
    fegetenv(&xlas);
    fesetenv(FE_DFL_ENV);
    const att_status status = c->operation->run(plan->plan, c, space, NULL);
    fesetenv(&xlas);
    return status;
}

static xla_error *run_on_cpu(jax_call *c, const cached_plan *plan, att_status *status) {
    size_t bytes = plan->workspace;
    bytes = (bytes + ATT_WORKSPACE_ALIGN - 1) / ATT_WORKSPACE_ALIGN * ATT_WORKSPACE_ALIGN;
    void *space = bytes ? aligned_alloc(ATT_WORKSPACE_ALIGN, bytes) : NULL;
    if (bytes && !space)
        return jax_fail(c, XLA_RESOURCE_EXHAUSTED, "no memory for the workspace");
    *status = run_exactly(c, plan, space);
    free(space);
    return NULL;
}

/* XLA's memory is released in stream order, so it may be released before the kernel has run. It
 * is requested with the largest alignment that XLA offers, which is less than that of a
 * workspace. */
static xla_error *run_on_gpu(jax_call *c, const cached_plan *plan, att_status *status) {
    enum { XLA_ALIGN_MOST = 16 };
    const uintptr_t mask = ATT_WORKSPACE_ALIGN - 1;
    const xla_api *api = c->frame->api;
    const size_t bytes = plan->workspace;
    xla_stream_args stream = {.size = sizeof stream, .context = c->frame->context};
    xla_allocate_args space = {.size = sizeof space,
                               .context = c->frame->context,
                               .bytes = bytes ? bytes + ATT_WORKSPACE_ALIGN : 0,
                               .alignment = XLA_ALIGN_MOST};
    xla_error *error = api->stream_get(&stream);
    if (!error && space.bytes)
        error = api->memory_allocate(&space);
    if (error)
        return error; /* cppcheck-suppress returnDanglingLifetime */
    void *aligned = (void *)(((uintptr_t)space.data + mask) & ~mask);
    *status = c->operation->run(plan->plan, c, aligned, stream.stream);
    if (!space.bytes)
        return NULL;
    xla_free_args done = {.size = sizeof done,
                          .context = c->frame->context,
                          .bytes = space.bytes,
                          .data = space.data};
    return api->memory_free(&done); /* cppcheck-suppress returnDanglingLifetime */
}

static void keep_launch(const att_launch *launch) {
    pthread_mutex_lock(&lock);
    latest = *launch;
    pthread_mutex_unlock(&lock);
}

static xla_error *execute(const xla_frame *frame, const jax_operation *operation, bool gpu) {
    jax_call c = {.operation = operation, .frame = frame, .gpu = gpu};
    cached_plan *plan;
    xla_error *error = read_problem(&c);
    if (!error)
        error = operation->read(&c);
    if (!error)
        error = find_place(&c);
    if (error)
        return error;
    const plan_key key = {operation->plan, gpu ? ATT_DEVICE_CUDA : ATT_DEVICE_CPU, c.index,
                          &c.problem};
    att_status status = plan_cache_take(&plan, &key);
    if (status != ATT_OK)
        return fail_status(&c, status);
    error = gpu ? run_on_gpu(&c, plan, &status) : run_on_cpu(&c, plan, &status);
    plan_cache_give(plan);
    if (!error && status == ATT_OK)
        keep_launch(&c.launch);
    return error || status == ATT_OK ? error : fail_status(&c, status);
}

/* Registration asks for the version: ours is the caller's, as long as it is 0.x. Older releases
 * of JAX do not state theirs: assume 0.1, the oldest with everything that is used here except
 * the GPU's number, for which find_place() searches. */
static bool answer_metadata(const xla_frame *frame) {
    if (!frame->extension || frame->extension->type != XLA_EXTENSION_METADATA)
        return false;
    xla_metadata *asked = ((xla_metadata_extension *)frame->extension)->metadata;
    enum { OLDEST_MINOR = 1 };
    asked->version.major = 0;
    asked->version.minor = frame->api ? frame->api->version.minor : OLDEST_MINOR;
    asked->traits = 0; /* a first call loads its kernel, which a capture does not allow */
    return true;
}

static xla_error *handle(xla_frame *frame, const jax_operation *operation, bool gpu) {
    return answer_metadata(frame) || frame->stage != XLA_STAGE_EXECUTE
               ? NULL
               : execute(frame, operation, gpu);
}

/* XLA passes a handler only the frame: there are two handlers per operation. */
#define HANDLERS(name)                                                                         \
    static xla_error *name##_on_cpu(xla_frame *frame) {                                        \
        return handle(frame, &jax_of_##name, false);                                           \
    }                                                                                          \
    static xla_error *name##_on_gpu(xla_frame *frame) {                                        \
        return handle(frame, &jax_of_##name, true);                                            \
    }

HANDLERS(attention)
HANDLERS(backward)
HANDLERS(merge)
HANDLERS(moe)

/* ------------------------------------------------------------------------------- Python */

typedef xla_error *handler(xla_frame *frame);

static const struct {
    const char *name;
    handler *on_cpu, *on_gpu;
} targets[] = {{"attention", attention_on_cpu, attention_on_gpu},
               {"backward", backward_on_cpu, backward_on_gpu},
               {"merge", merge_on_cpu, merge_on_gpu},
               {"moe", moe_on_cpu, moe_on_gpu}};

static PyObject *capsule_of(handler *function) {
    void *pointer;
    _Static_assert(sizeof pointer == sizeof function, "functions fit a pointer");
    memcpy(&pointer, &function, sizeof pointer);
    return PyCapsule_New(pointer, "xla._CUSTOM_CALL_TARGET", NULL);
}

PyObject *jax_handlers(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    PyObject *all = PyDict_New();
    for (size_t i = 0; all && i < sizeof targets / sizeof *targets; i++) {
        PyObject *each = Py_BuildValue("{s:N,s:N}", "cpu", capsule_of(targets[i].on_cpu),
                                       "CUDA", capsule_of(targets[i].on_gpu));
        if (!each || PyDict_SetItemString(all, targets[i].name, each))
            Py_CLEAR(all);
        Py_XDECREF(each);
    }
    return all;
}

PyObject *jax_last_launch(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    pthread_mutex_lock(&lock);
    const att_launch seen = latest;
    pthread_mutex_unlock(&lock);
    return launch_tuple(&seen);
}
