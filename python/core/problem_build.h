/* problem_build.h: turns the arguments of a Python call into an att_problem and its
 * pointers. */
#ifndef ATTEST_PYTHON_PROBLEM_BUILD_H
#define ATTEST_PYTHON_PROBLEM_BUILD_H

#include "attest.h"
#include "python/core/arguments.h"
#include "python/core/array_check.h"

/* The arguments of attention() and explain(), in the order of their names in
 * attention_arguments.c. */
typedef enum argument {
    ARG_Q,
    ARG_K,
    ARG_V,
    ARG_CAUSAL,
    ARG_SCALE,
    ARG_WINDOW,
    ARG_ALIGN,
    ARG_SOFTCAP,
    ARG_ALIBI,
    ARG_BIAS,
    ARG_SINKS,
    ARG_CU_SEQLENS_Q,
    ARG_CU_SEQLENS_K,
    ARG_MAX_SEQLEN_Q,
    ARG_MAX_SEQLEN_K,
    ARG_LENS_K,
    ARG_STARTS_K,
    ARG_Q_OFFSET,
    ARG_K_OFFSET,
    ARG_PAGE_TABLE,
    ARG_RETURN_LSE,
    ARG_OUT,
    ARG_LAYOUT,
    ARG_COUNT
} argument;

typedef struct call {
    PyObject *given[ARG_COUNT]; /* borrowed from the caller; NULL if absent or None */
    tensor tensors[ARG_COUNT];  /* those that are arrays */
    framework *frame;           /* of q */
    bool described;             /* arrays are given as (dtype, device, shape), without memory */
    int axis_seq, axis_head;    /* for a 4-dimensional q, k or v */
    int64_t o_shape[TENSOR_DIMS], lse_shape[TENSOR_DIMS];
    int o_ndim, lse_ndim;
    bool return_lse;
    att_problem problem;
    att_args args;
    tensor o, lse;
    PyObject *o_object, *lse_object; /* owned */
} call;

/* Everything but the outputs: opens the arrays, checks them against each other, fills problem
 * and args. Returns 0, or -1 with an error that names the argument and what is expected. Call
 * call_drop() afterwards in either case. */
int problem_build(call *c);

/* Put O and, if requested, the LSE into the problem: the caller's, or new ones. New ones are
 * made now, unless the framework has an exchange table: then their layout is known already. */
int outputs_build(call *c);

/* Make those that were not made yet and put them into args and *_object; with `spare` bytes
 * after O, recorded in its tensor. */
int outputs_create(call *c, size_t spare);

/* The same for a call that is only described: both outputs contiguous, without memory. Returns
 * 0, or -1 with an error. */
int outputs_describe(call *c);

/* Strides of an array of O's shape, or of the LSE's, by the names of their axes. */
att_strides strides_of_output(const call *c, const int64_t *strides);
att_strides strides_of_lse(const call *c, const int64_t *strides);

/* From the problem to the answer: outputs, plan, run. Returns a new reference, or NULL with an
 * error. */
PyObject *call_finish(call *c);

void call_drop(call *c);

/* Names of the arguments, for messages and for arguments_read(). */
extern const char *const argument_names[ARG_COUNT];
extern const argument_table attention_arguments;

/* Put the options that are not arrays into the problem. Returns 0, or -1 with an error. */
int options_build(call *c);

#endif
