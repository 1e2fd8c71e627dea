/* jax_operation.h: a call from XLA into the library, and what differs between the
 * operations. */
#ifndef ATTEST_PYTHON_JAX_OPERATION_H
#define ATTEST_PYTHON_JAX_OPERATION_H

#include "attest.h"
#include "python/core/plan_cache.h"
#include "python/core/xla_ffi.h"

#include <stdbool.h>

typedef struct jax_operation jax_operation;

/* Addresses of the parts of a merge. */
typedef struct jax_merge_parts {
    const void *o[ATT_MERGE_PARTS_MAX];
    const float *lse[ATT_MERGE_PARTS_MAX];
} jax_merge_parts;

typedef struct jax_call {
    const jax_operation *operation;
    const xla_frame *frame;
    bool gpu;
    int32_t index; /* of the GPU; 0 on the CPU */
    union {
        size_t size; /* the first field of every problem */
        att_problem attention;
        att_merge_problem merge;
        att_moe_problem moe;
    } problem;
    union {
        att_args attention;
        att_merge_args merge;
        att_moe_args moe;
    } args;
    jax_merge_parts parts;
    att_launch launch;
} jax_call;

/* How an operation is planned and run; and its arrays, which read() finds in the frame and puts
 * into `args`. On a GPU it also sets their alignment in the problem. */
struct jax_operation {
    const plan_operation *plan;
    att_status (*run)(const att_plan *plan, const jax_call *call, void *workspace,
                      void *stream);
    xla_error *(*read)(jax_call *call);
};

extern const jax_operation jax_of_attention, jax_of_backward, jax_of_merge, jax_of_moe;

/* An XLA error with this text, for a handler to return. */
xla_error *jax_fail(const jax_call *call, int code, const char *message);

/* The memory of an argument, NULL if there is none with this index; and of a result, which must
 * exist. */
const void *jax_argument(const jax_call *call, int64_t i);
void *jax_result(const jax_call *call, int64_t i);

/* The alignment in bytes of all these addresses, at most 16. NULL is aligned. */
int64_t jax_alignment(const void *const *addresses, int count);

#endif
