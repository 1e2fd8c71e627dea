/* comparison.h: compares two result files, problem by problem, and gives verdicts.
 *
 * Two results are compared if they agree in everything except what is being compared: device,
 * driver, compiler, subject, kernel, instruction set, threads, cache mode and timer. Otherwise
 * they are refused with the field at fault, unless the caller allows that field to differ. The
 * machine code of a kernel may differ: that is what a later build changes. */
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
    LAB_KEY_COMPILER, /* of this program, which built the CPU kernels */
    LAB_KEY_SUBJECT,  /* "attest", or a peer with its version */
    LAB_KEY_KERNEL,
    LAB_KEY_ISA,
    LAB_KEY_THREADS,
    LAB_KEY_MODE,  /* "warm", "cold" */
    LAB_KEY_TIMER, /* "cpu", "graph", "events", "latency" */
    LAB_KEY_COUNT
} lab_key;

/* Parse a comma-separated list of names, "kernel,driver", into bits; false with `why` if one is
 * unknown. */
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
    double ratio; /* geometric mean of B's times over A's, over the verdicts; 1 if none */
    double worst_effect; /* the largest effect */
} lab_comparison;

/* Whether the files come from machines similar enough to be compared; if not, `why` gives the
 * reason. */
bool lab_compare_machines(const lab_results *a, const lab_results *b, unsigned allowed,
                          lab_message *why);

/* Compare B with A, its baseline. `minimum_effect` 0 means: estimate it from the noise between
 * the processes of both files. That is the 95 % quantile, over problems, of the distance
 * between the medians of two processes, divided by the square root of the smaller number of
 * processes of the two sides, and at least LAB_MINIMUM_EFFECT; LAB_MINIMUM_EFFECT_ALONE if no
 * result comes from several processes. Fails with the reason if results that are not comparable
 * would be compared, or if there is nothing to compare. `a` and `b` must outlive the
 * comparison. */
bool lab_compare(lab_comparison *out, const lab_results *a, const lab_results *b,
                 unsigned allowed, double minimum_effect, uint64_t seed, lab_message *why);
void lab_comparison_free(lab_comparison *comparison);

/* True if there is no SLOWER, no AMBIGUOUS and nothing lost. */
bool lab_comparison_holds(const lab_comparison *comparison);

/* The comparison as JSON: minimum effect, tallies, one row per pair. */
json_t *lab_json_comparison(const lab_comparison *comparison);

#endif
