/* api_calls.h: calls of the public API as both API harnesses make them, with what must hold of every answer. */
#ifndef FUZZ_API_CALLS_H
#define FUZZ_API_CALLS_H

#include "attest.h"
#include "tests/fuzz/random_input.h"

/* How a context's answers are judged. */
typedef struct api_ground {
    att_context *ctx;
    bool
        reads_data; /* wrong lengths and page ids are refused, as on a CPU; else they are not tried */
    bool
        may_fail; /* a call of the driver may fail: ATT_E_CUDA and ATT_E_MEMORY are answers too */
    bool may_refuse; /* valid problems may be unsupported */
    bool element_alignment;
    /* The relative error that a kernel makes in a weight; below 0: its answers are not compared. */
    double (*weight_error)(const att_problem *problem, const char *kernel);
    bool (*merges)(
        const att_merge_problem *problem); /* whether the answers of a merge are compared */
} api_ground;

/* One attention: problem, plan, arrays, run, judgement. */
void api_attention(const api_ground *ground, random_input *in);
void api_merge(const api_ground *ground, random_input *in);

/* Contexts of options that may be wrong. */
void api_context(random_input *in, att_device device);

/* The latest error must be this one, and name its field. */
void api_check_error(att_status status);

#endif
