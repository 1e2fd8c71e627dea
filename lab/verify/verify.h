/* verify.h: one problem run by a subject and judged against the float64 oracle.
 *
 * The bar, for each output, over the rows checked:
 *     max |kernel - oracle|  <=  2 * max |plain - oracle|  +  4 ulp at max |oracle|  +  FLT_MIN
 * where plain is the operation's same-dtype reference, such as src/attention/ref/plain.h. For
 * 16-bit outputs with at least 256 checked values there is a second bar, so that a loss of
 * precision cannot hide in the few ulp of the largest value:
 *     rms(kernel - oracle)  <=  max(2 * rms(plain - oracle), 1 ulp at rms(oracle))  +  FLT_MIN
 * Where terms cancel (lab_output.is_difference), |plain - oracle| is taken to be at least 2^-24
 * of their size. For a logarithm, such as LSE, the ulp is taken at 1 if max |oracle| is
 * smaller: its absolute error is the relative error of the sum behind it.
 * Integers, such as expert ids, must equal those of the oracle.
 * Where the oracle is NaN the answer must be NaN. Where it is infinite the answer must be the
 * same infinity or, except in a logarithm, NaN. No other answer may be non-finite. If rows are
 * sampled, all others are still scanned: a row that was not written fails, and one that is not
 * finite is judged too. */
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
    LAB_REFUSED /* the subject does not support the problem: ATT_E_UNSUPPORTED, no other error;
                 * or, with the status ATT_OK, this machine lacks the memory for the
                 * laboratory's own copy */
} lab_outcome;

/* The outcome if a subject could not be prepared: a refusal, or for any other error a
 * failure. */
lab_outcome lab_outcome_of(att_status status);

typedef struct lab_verify_options {
    uint64_t seed; /* of the inputs */
    int repeats;   /* runs that must agree bit by bit; 0: 2 */
    int64_t
        max_work; /* multiply-adds the oracle may spend; beyond that rows are sampled; 0: 1e8 */
    struct lab_reference_store
        *store; /* answers of the references, shared between kernels; NULL: none */
    /* The seed that selects the rows to judge if there is not enough work for all. NULL: they
     * are drawn after the run from the operating system's entropy, so that nobody can know them
     * before; the result has the seed. */
    const uint64_t *rows_seed;
    /* lab_verify_outputs(): judge only these rows. */
    const struct lab_row *rows;
    size_t row_count;
} lab_verify_options;

/* For one output: max |x - oracle| of the kernel and of plain, and the bar made from the second
 * and from max |oracle|; except for a logarithm also the root mean squares. */
typedef struct lab_errors {
    const char *name; /* of the output */
    double kernel, plain, largest, bar;
    double kernel_rms, plain_rms, bar_rms;
} lab_errors;

typedef struct lab_verify_result {
    lab_outcome outcome;
    att_status status; /* of the call that failed, else ATT_OK */
    char kernel[64]; /* the id from the launch record; the name of a subject without a record */
    att_launch launch; /* of the last run; no kernel if there was nothing to do */
    int outputs;
    lab_errors error[LAB_OUTPUTS_MAX]; /* zero if the output is not asked for */
    int64_t rows_checked, rows_total;  /* over all sets; for attention, (batch, head, query
                                        * row) */
    uint64_t rows_seed;                /* that selected them; below 2^63 */
    double run_seconds;                /* the fastest of the runs */
    char message[512]; /* "" if all is well; else what failed, where, with values */
} lab_verify_result;

/* Prepare the subject for the problem, run it on fresh tensors and check everything. `options`
 * may be NULL. */
void lab_verify_subject(lab_verify_result *result, const lab_subject *subject,
                        const lab_spec *spec, const lab_verify_options *options);

/* The same for the library on this context. */
void lab_verify_spec(lab_verify_result *result, att_context *ctx, const lab_spec *spec,
                     const lab_verify_options *options);

/* The bar for errors of an output: `plain` is the error of the plain reference, `largest` max
 * |oracle|. */
double lab_bar_of(const lab_output *output, double plain, double largest);

/* The fraction of the bar that an error takes; above 1 for an error where the bar is 0. Then
 * the output with the largest fraction, the first if equal. */
double lab_error_share(const lab_errors *errors);
const lab_errors *lab_worst_error(const lab_verify_result *result);

/* The message for a subject whose outputs change after its run has returned. */
extern const char lab_late_answer[];

/* Names the outputs of the problem in the result, without errors. */
void lab_verify_list_outputs(lab_verify_result *result, const lab_spec *spec);

/* Judge the current outputs of `tensors`. Fills error, rows and, on a failure, outcome and
 * message; leaves the rest of the result unchanged. */
void lab_verify_outputs(lab_verify_result *result, const lab_tensors *tensors,
                        const lab_verify_options *options);

#endif
