/* api_calls.h: calls of the public API for both API harnesses, with what must hold for every
 * result. */
#ifndef FUZZ_API_CALLS_H
#define FUZZ_API_CALLS_H

#include "attest.h"
#include "tests/fuzz/attention_case.h"
#include "tests/fuzz/merge_case.h"
#include "tests/fuzz/moe_case.h"
#include "tests/fuzz/random_input.h"

/* How a context's results are obtained and judged. */
typedef struct api_ground {
    att_context *ctx;
    bool may_fail;   /* a driver call may fail: ATT_E_CUDA and ATT_E_MEMORY are results too */
    bool may_refuse; /* valid problems may be unsupported */
    bool is_cpu; /* wrong lengths and page ids are refused, and only elements are aligned; on a
                  * GPU neither is tried */
    att_status (*attend)(const att_plan *plan, attention_case *c);
    att_status (*merge)(const att_plan *plan, merge_case *c);
    /* The relative error that a kernel makes in a weight; negative: its answers are not
     * compared. */
    double (*weight_error)(const att_problem *problem, const char *kernel);
    bool judges_merge; /* whether the results of merges are compared */
} api_ground;

/* One attention: problem, plan, arrays, run, judgement. */
void api_attention(const api_ground *ground, random_input *in);
void api_merge(const api_ground *ground, random_input *in);

/* A mixture of experts, on the CPU. */
void api_moe(const api_ground *ground, random_input *in);

/* Contexts with options that may be wrong. */
void api_context(random_input *in, att_device device);

/* The last error must be this one, and name its field. */
void api_check_error(att_status status);

#endif
