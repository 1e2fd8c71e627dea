/* verify.h: one problem run by a subject and judged against the float64 oracle.
 *
 * The bar, for each output, over the rows checked:
 *     max |kernel - oracle|  <=  2 * max |plain - oracle|  +  4 ulp at max |oracle|  +  FLT_MIN
 * where plain is the operation's same-dtype reference, such as src/attention/ref/plain.h; and for outputs of 16 bits, where 256 values or more are
 * checked, so that less precision than the type has is not lost among the few ulp of the largest,
 *     rms(kernel - oracle)  <=  max(2 * rms(plain - oracle), 1 ulp at rms(oracle))  +  FLT_MIN
 * Where terms cancel (lab_output.is_difference), |plain - oracle| is taken to be at least 2^-24 of their size.
 * For a logarithm, such as LSE, the ulp is taken at
 * 1 where max |oracle| is smaller: its absolute error is the relative error of the sum behind it.
 * Integers, such as ids of experts, must be those of the oracle.
 * Where the oracle is NaN the answer must be NaN, where it is infinite the same infinity or, but in a logarithm,
 * NaN; no other answer may be non-finite. Where rows are sampled, all others are still looked at: one that
 * was not written fails, one that is not finite is judged too. */
#ifndef LAB_VERIFY_H
#define LAB_VERIFY_H

#include <stdint.h>

#include "attest.h"
#include "lab/problem/spec.h"
#include "lab/subject/subject.h"
#include "lab/tensors/tensors.h"

typedef enum lab_outcome {
    LAB_PASS,
    LAB_FAIL,   /* a wrong answer, a broken guard, a run that differs from its repeat ... */
    LAB_REFUSED /* the subject says that it does not serve the problem: ATT_E_UNSUPPORTED, no other error; or, with
                 * the status ATT_OK, this machine has not the memory for the laboratory's own copy */
} lab_outcome;

/* What it means that a subject could not be prepared: a refusal, or, of any other error, a failure. */
lab_outcome lab_outcome_of(att_status status);

typedef struct lab_verify_options {
    uint64_t seed; /* of the inputs */
    int repeats;   /* runs that must agree bit by bit; 0: 2 */
    int64_t
        max_work; /* multiply-adds the oracle may spend; above it rows are sampled; 0: 1e8 */
    struct lab_reference_store
        *store; /* answers of the references, shared by kernels; NULL: none */
    /* Which rows are judged where there is not the work for all. NULL: nobody knows before the run, since they are
     * drawn from the operating system's entropy after it; the result has the seed. */
    const uint64_t *rows_seed;
    /* lab_verify_outputs(): judge these rows alone. */
    const struct lab_row *rows;
    size_t row_count;
} lab_verify_options;

/* Of one output: max |x - oracle| of the kernel and of plain, and the bar made from the second and from max |oracle|; but of a
 * logarithm also the root mean squares. */
typedef struct lab_errors {
    const char *name; /* of the output */
    double kernel, plain, largest, bar;
    double kernel_rms, plain_rms, bar_rms;
} lab_errors;

typedef struct lab_verify_result {
    lab_outcome outcome;
    att_status status; /* of the call that failed, else ATT_OK */
    char kernel[64]; /* the id from the launch record; the name of a subject that keeps none */
    att_launch launch; /* of the last run; no kernel where there was nothing to do */
    int outputs;
    lab_errors error[LAB_OUTPUTS_MAX]; /* zero where the output is not asked for */
    int64_t rows_checked, rows_total;  /* of all sets: of attention, (batch, head, query row) */
    uint64_t rows_seed;                /* that they were drawn by; below 2^63 */
    double run_seconds;                /* the fastest of the runs */
    char message[512]; /* "" where all holds; else what failed, where, with values */
} lab_verify_result;

/* Prepare the subject for the problem, run it on fresh tensors and check everything. `options` may be
 * NULL. */
void lab_verify_subject(lab_verify_result *result, const lab_subject *subject,
                        const lab_spec *spec, const lab_verify_options *options);

/* The same for the library on this context. */
void lab_verify_spec(lab_verify_result *result, att_context *ctx, const lab_spec *spec,
                     const lab_verify_options *options);

/* The bar for errors of an output: `plain` is the error of the plain reference, `largest` max |oracle|. */
double lab_bar_of(const lab_output *output, double plain, double largest);

/* How much of the bar an error takes; an error where the bar is 0 takes all of it and more. Then the output that takes the most, the
 * first of equals. */
double lab_error_share(const lab_errors *errors);
const lab_errors *lab_worst_error(const lab_verify_result *result);

/* What is said of a subject whose outputs change after its run has returned. */
extern const char lab_late_answer[];

/* Names the outputs of the problem in the result, without errors. */
void lab_verify_list_outputs(lab_verify_result *result, const lab_spec *spec);

/* Judge the outputs that `tensors` hold now; fills error, rows and, on a failure, outcome and
 * message, and leaves the rest of the result as it is. */
void lab_verify_outputs(lab_verify_result *result, const lab_tensors *tensors,
                        const lab_verify_options *options);

#endif
