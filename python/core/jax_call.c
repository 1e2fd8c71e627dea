/* jax_call.c: the handlers, which take their plans from the cache that Python's calls use. */
#include "python/core/jax_call.h"
#include "python/core/array_check.h"
#include "python/core/failure.h"
#include "python/core/launch_record.h"
#include "python/core/plan_cache.h"
#include "python/core/xla_ffi.h"
#include "attest.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAYS = 11 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static att_launch latest; /* under the lock */

typedef struct jax_operation jax_operation;

typedef struct jax_call {
    const jax_operation *operation;
    const xla_frame *frame;
    bool gpu;
    int32_t index; /* of the GPU; 0 on the CPU */
    att_problem problem;
    att_args args;
    att_launch launch;
} jax_call;

/* Attention, or its gradients: the arrays that come after those that both take, plan and run. */
struct jax_operation {
    const plan_operation *plan;
    att_status (*run)(const att_plan *plan, const att_args *args, void *workspace,
                      void *stream);
    xla_error *(*read_rest)(jax_call *c, int64_t next);
};

static xla_error *fail(const jax_call *c, int code, const char *message) {
    xla_error_args args = {.size = sizeof args, .message = message, .code = code};
    /* cppcheck-suppress returnDanglingLifetime ; what comes back is XLA's own */
    return c->frame->api->error_create(&args);
}

static xla_error *fail_status(const jax_call *c, att_status status) {
    const int code = status == ATT_E_UNSUPPORTED ? XLA_UNIMPLEMENTED
                     : status == ATT_E_MEMORY    ? XLA_RESOURCE_EXHAUSTED
                     : status == ATT_E_ARG       ? XLA_INVALID_ARGUMENT
                                                 : XLA_INTERNAL;
    return fail(c, code, failure_text(status));
}

/* ------------------------------------------------------------------------ what is asked */

static xla_error *read_problem(jax_call *c) {
    const xla_attributes *all = &c->frame->attributes;
    for (int64_t i = 0; i < all->count; i++) {
        const xla_array *array = all->values[i];
        const xla_text *name = all->names[i];
        if (name->length != strlen("problem") ||
            memcmp(name->data, "problem", name->length) != 0)
            continue;
        if (all->types[i] != XLA_ATTRIBUTE_ARRAY || array->type != XLA_S64 ||
            array->count * sizeof(int64_t) != sizeof c->problem)
            break;
        memcpy(&c->problem, array->data, sizeof c->problem);
        if (c->problem.size == sizeof c->problem)
            return NULL;
        break;
    }
    return fail(c, XLA_INVALID_ARGUMENT,
                "the problem was described by another version of attest: compile it again");
}

/* The arrays that the problem has, in the order of attention()'s arguments. */
static xla_error *read_arrays(jax_call *c) {
    const uint32_t has = c->problem.features;
    const void **const places[ARRAYS] = {
        &c->args.q,
        &c->args.k,
        &c->args.v,
        has & ATT_ALIBI ? (const void **)&c->args.alibi : NULL,
        has & ATT_BIAS ? &c->args.bias : NULL,
        has & ATT_SINKS ? (const void **)&c->args.sinks : NULL,
        has & ATT_CU_SEQLENS_Q ? (const void **)&c->args.cu_seqlens_q : NULL,
        has & ATT_CU_SEQLENS_K ? (const void **)&c->args.cu_seqlens_k : NULL,
        has & ATT_LENS_K ? (const void **)&c->args.lens_k : NULL,
        has & ATT_STARTS_K ? (const void **)&c->args.starts_k : NULL,
        has & ATT_PAGED ? (const void **)&c->args.page_table : NULL,
    };
    const xla_values *in = &c->frame->arguments;
    int64_t next = 0;
    c->args = (att_args){.size = sizeof c->args, .launch = &c->launch};
    for (int i = 0; i < ARRAYS; i++)
        if (places[i]) {
            if (next >= in->count || in->types[next] != XLA_BUFFER)
                return fail(c, XLA_INVALID_ARGUMENT, "an array of the problem is missing");
            *places[i] = ((const xla_buffer *)in->values[next++])->data;
        }
    return c->operation->read_rest(c, next);
}

static int64_t common_alignment(const void *const *addresses, int count) {
    uintptr_t bits = 0;
    for (int i = 0; i < count; i++)
        bits |= (uintptr_t)addresses[i];
    return array_alignment(bits);
}

static void *result_at(const jax_call *c, int64_t i) {
    return ((const xla_buffer *)c->frame->results.values[i])->data;
}

static xla_error *read_outputs(jax_call *c, int64_t next) {
    const bool lse = c->problem.features & ATT_LSE;
    if (next != c->frame->arguments.count || c->frame->results.count != (lse ? 2 : 1))
        return fail(c, XLA_INVALID_ARGUMENT, "there are more arrays than the problem has");
    c->args.o = result_at(c, 0);
    if (lse)
        c->args.lse = result_at(c, 1);
    const att_args *a = &c->args;
    const void *const all[] = {a->q, a->k, a->v, a->o, a->bias};
    if (c->gpu)
        c->problem.alignment = common_alignment(all, sizeof all / sizeof *all);
    return NULL;
}

/* O, the LSE and d_o, then the gradients that the problem asks for. */
static xla_error *read_gradients(jax_call *c, int64_t next) {
    const xla_values *in = &c->frame->arguments;
    const uint32_t asked = c->problem.gradients;
    void **const places[] = {&c->args.d_q,
                             &c->args.d_k,
                             &c->args.d_v,
                             asked & ATT_D_BIAS ? &c->args.d_bias : NULL,
                             asked & ATT_D_SINKS ? (void **)&c->args.d_sinks : NULL,
                             asked & ATT_D_ALIBI ? (void **)&c->args.d_alibi : NULL};
    enum { GRADIENTS = sizeof places / sizeof *places, FROM_FORWARD = 3 };
    int64_t results = 0;
    for (int i = 0; i < GRADIENTS; i++)
        results += places[i] != NULL;
    if (in->count != next + FROM_FORWARD || c->frame->results.count != results)
        return fail(c, XLA_INVALID_ARGUMENT,
                    "there are not the arrays that the gradients need");
    c->args.o = ((const xla_buffer *)in->values[next])->data;
    c->args.lse = ((const xla_buffer *)in->values[next + 1])->data;
    c->args.d_o = ((const xla_buffer *)in->values[next + 2])->data;
    results = 0;
    for (int i = 0; i < GRADIENTS; i++)
        if (places[i])
            *places[i] = result_at(c, results++);
    const att_args *a = &c->args;
    const void *const all[] = {a->q,   a->k,   a->v,   a->o,   a->bias,
                               a->d_o, a->d_q, a->d_k, a->d_v, a->d_bias};
    if (c->gpu)
        c->problem.alignment = common_alignment(all, sizeof all / sizeof *all);
    return NULL;
}

static const jax_operation of_attention = {&plan_of_attention, att_plan_run, read_outputs};
static const jax_operation of_backward = {&plan_of_backward, att_backward_run, read_gradients};

static xla_error *find_place(jax_call *c) {
    const xla_api *api = c->frame->api;
    xla_ordinal_args args = {.size = sizeof args, .context = c->frame->context};
    if (!c->gpu || api->size < offsetof(xla_api, device_ordinal) + sizeof api->device_ordinal)
        return NULL;
    xla_error *error = api->device_ordinal(&args);
    if (error)
        return error; /* cppcheck-suppress returnDanglingLifetime */
    if (args.ordinal < 0 || args.ordinal >= DEVICE_CONTEXTS_GPUS)
        return fail(c, XLA_INVALID_ARGUMENT, "there is no such GPU");
    c->index = args.ordinal;
    return NULL;
}

/* ---------------------------------------------------------------------------------- run */

static xla_error *run_on_cpu(jax_call *c, const cached_plan *plan, att_status *status) {
    size_t bytes = plan->workspace;
    bytes = (bytes + ATT_WORKSPACE_ALIGN - 1) / ATT_WORKSPACE_ALIGN * ATT_WORKSPACE_ALIGN;
    void *space = bytes ? aligned_alloc(ATT_WORKSPACE_ALIGN, bytes) : NULL;
    if (bytes && !space)
        return fail(c, XLA_RESOURCE_EXHAUSTED, "no memory for the workspace");
    *status = c->operation->run(plan->plan, &c->args, space, NULL);
    free(space);
    return NULL;
}

/* XLA's memory is given back in the order of its stream, so that it may be given back before the kernel has run. It is
 * asked for with the most alignment that XLA grants, which is less than a workspace has. */
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
    *status = c->operation->run(plan->plan, &c->args, aligned, stream.stream);
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
        error = read_arrays(&c);
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

/* Registration asks for the version: ours is that of whoever asks, as far as it is 0.x. Older releases of JAX do not say what they
 * have: 0.1 then, the oldest with all that is used here but for the GPU's number, which is looked for (find_place()). */
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

static xla_error *handle_cpu(xla_frame *frame) {
    return handle(frame, &of_attention, false);
}

static xla_error *handle_gpu(xla_frame *frame) {
    return handle(frame, &of_attention, true);
}

static xla_error *handle_backward_cpu(xla_frame *frame) {
    return handle(frame, &of_backward, false);
}

static xla_error *handle_backward_gpu(xla_frame *frame) {
    return handle(frame, &of_backward, true);
}

/* ------------------------------------------------------------------------------- Python */

static PyObject *capsule_of(xla_error *(*handler)(xla_frame *)) {
    void *pointer;
    _Static_assert(sizeof pointer == sizeof handler, "functions fit a pointer");
    memcpy(&pointer, &handler, sizeof pointer);
    return PyCapsule_New(pointer, "xla._CUSTOM_CALL_TARGET", NULL);
}

PyObject *jax_handlers(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("{s:N,s:N}", "cpu", capsule_of(handle_cpu), "CUDA",
                         capsule_of(handle_gpu));
}

PyObject *jax_backward_handlers(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("{s:N,s:N}", "cpu", capsule_of(handle_backward_cpu), "CUDA",
                         capsule_of(handle_backward_gpu));
}

PyObject *jax_last_launch(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    pthread_mutex_lock(&lock);
    const att_launch seen = latest;
    pthread_mutex_unlock(&lock);
    return launch_tuple(&seen);
}
