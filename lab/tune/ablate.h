/* ablate.h: what each optimisation of a kernel gains, on one problem.
 *
 * Variants of the kernel, all compiled by NVRTC: every switch on; each one off alone; all off;
 * and from there one more on at a time, in the order of kernels/switches.def. Every variant is
 * verified; their samples are interleaved. The gain of a switch is the change when it alone is
 * off; its cumulative gain is the change when it is turned on after those before it. The two
 * differ if optimisations depend on or replace each other. */
#ifndef LAB_ABLATE_H
#define LAB_ABLATE_H

#include <jansson.h>

#include "lab/measure/bench.h"
#include "lab/statistics/verdict.h"
#include "lab/tune/variant.h"

typedef enum lab_ablation_kind {
    LAB_ALL_ON,
    LAB_ONE_OFF,
    LAB_ALL_OFF,
    LAB_CUMULATIVE
} lab_ablation_kind;

typedef struct lab_ablation_step {
    lab_ablation_kind kind;
    char name[48]; /* "all on", "without SWIZZLE", "all off", "+ SWIZZLE" */
    uint32_t off;
    /* Compared with every switch on; for a cumulative step, with the step before it. */
    bool judged;
    lab_verdict verdict;
    size_t against; /* the step that it was compared with */
} lab_ablation_step;

typedef struct lab_ablation {
    lab_base base;
    lab_ablation_step *steps;
    lab_bench_case *cases;  /* one per step */
    att_context **contexts; /* likewise */
    size_t count;
    lab_verdict last; /* all on compared with the last cumulative step: what the last switch
                       * adds */
    bool last_judged;
} lab_ablation;

/* Ablate the kernel that `ctx` chooses for the problem, which must outlive the result. `stream`
 * is for the progress bar. Fails if the kernel has no switches, a variant's row is refused or
 * memory runs out; a variant that does not compile or gives a wrong answer is a step that says
 * so. After an interrupt (lab/base/interrupt.h) nothing is judged, and steps may be unreached.
 * Call lab_ablation_free() in either case. */
bool lab_ablate(lab_ablation *out, att_context *ctx, const lab_spec *spec,
                const lab_bench_options *options, FILE *stream, lab_message *why);
void lab_ablation_free(lab_ablation *ablation);

/* "all_on", "one_off", "all_off", "cumulative". */
const char *lab_ablation_kind_name(lab_ablation_kind kind);

/* "kernel", "problem", "source_sha256" and "variants", for the document of schema
 * attest-ablation-1. */
json_t *lab_ablation_object(const lab_ablation *ablation);

#endif
