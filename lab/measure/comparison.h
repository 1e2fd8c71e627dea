/* comparison.h: two result files, problem by problem, into verdicts.
 *
 * Results are compared where they are alike in everything but what is being compared: device, driver,
 * compiler, subject, kernel, instruction set, threads, cache mode and timer. Unlike ones are refused with
 * the field at fault, unless the caller allows that field to differ. The machine code of a kernel may
 * differ freely: that is what a later build changes. */
#ifndef LAB_COMPARISON_H
#define LAB_COMPARISON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"
#include "lab/measure/results.h"
#include "lab/statistics/verdict.h"

/* Fields in which results must agree; 1u << LAB_KEY_* allows one to differ. */
typedef enum lab_key {
    LAB_KEY_DEVICE,   /* the GPU's name, or the processor's */
    LAB_KEY_DRIVER,   /* of a GPU */
    LAB_KEY_COMPILER, /* of this program, which made the CPU's kernels */
    LAB_KEY_SUBJECT,  /* "attest", or a peer with its version */
    LAB_KEY_KERNEL,
    LAB_KEY_ISA,
    LAB_KEY_THREADS,
    LAB_KEY_MODE,  /* "warm", "cold" */
    LAB_KEY_TIMER, /* "cpu", "graph", "events", "latency" */
    LAB_KEY_COUNT
} lab_key;

/* Bits of a list of names with commas, "kernel,driver"; false and `why` where one is unknown. */
bool lab_keys_parse(unsigned *bits, const char *list, lab_message *why);

typedef struct lab_comparison_row {
    const lab_result *a, *b;
    bool lost; /* A was timed and B was not: a wrong answer, a refusal; no verdict */
    lab_verdict verdict;
} lab_comparison_row;

typedef struct lab_comparison {
    lab_comparison_row *rows; /* in the order of B */
    size_t count;
    size_t of[4];          /* verdicts by lab_verdict_kind */
    size_t lost;           /* rows without a verdict */
    size_t only_a, only_b; /* timed results whose problem the other file does not have */
    double minimum_effect;
    double ratio; /* geometric mean of B's times over A's, over the verdicts; 1 for none */
    double worst_effect; /* the largest effect */
} lab_comparison;

/* Whether the files are of machines alike enough to be compared; else why not. */
bool lab_compare_machines(const lab_results *a, const lab_results *b, unsigned allowed,
                          lab_message *why);

/* Compare B with A, its baseline. `minimum_effect` 0 means what the processes of both files show for
 * nothing: the 95 % quantile, over problems, of how far the medians of two processes lie apart, divided by
 * the root of the fewer processes of the two sides, and at least LAB_MINIMUM_EFFECT;
 * LAB_MINIMUM_EFFECT_ALONE where no result is of several processes.
 * Fails with the reason where unlike things would be compared or where there is nothing to compare.
 * `a` and `b` must outlive the comparison. */
bool lab_compare(lab_comparison *out, const lab_results *a, const lab_results *b,
                 unsigned allowed, double minimum_effect, uint64_t seed, lab_message *why);
void lab_comparison_free(lab_comparison *comparison);

/* No SLOWER, no AMBIGUOUS, nothing lost. */
bool lab_comparison_holds(const lab_comparison *comparison);

/* The comparison as JSON: minimum effect, tallies, one row a pair. */
json_t *lab_json_comparison(const lab_comparison *comparison);

#endif
