/* tune.h: searches for better constants of a GPU kernel on one problem: tile, stages, warps and
 * switches.
 *
 * Candidates are tiles that fit the GPU (lab/tune/tune_space.h). Each is compiled by NVRTC,
 * verified, and timed alternately with the shipped row; its cost is its median over the shipped
 * one's. Every trial is recorded before the next begins, so that an interrupted search can
 * resume. The cheapest is measured again, on fresh inputs and samples, and becomes a row only
 * with a verdict of FASTER. */
#ifndef LAB_TUNE_H
#define LAB_TUNE_H

#include <jansson.h>

#include "lab/measure/bench.h"
#include "lab/statistics/verdict.h"
#include "lab/tune/tune_space.h"

typedef struct lab_tune_options {
    lab_bench_options bench; /* for a trial; its seed is also that of the search */
    size_t population;
    double budget_seconds; /* including the final measurement */
    size_t max_trials;     /* including those of the record; 0: as many as the time allows */
    const char *state;     /* file of the record */
    bool resume;           /* resume from it, if it exists */
    FILE *stream;          /* for the progress bar while variants are compiled; NULL: none */
} lab_tune_options;

typedef struct lab_trial {
    lab_variant variant;
    lab_outcome outcome;
    double cost;        /* INFINITY if it was not timed */
    double ns, base_ns; /* medians of the candidate and of the shipped row */
    char message[160];  /* why it failed; "" if it passed */
} lab_trial;

/* The state of a search for one problem. */
typedef struct lab_tuning {
    lab_base base;
    att_context *ctx; /* the caller's, on which the shipped row runs */
    lab_tune_options options;
    lab_space space;
    lab_tune_ground ground;
    lab_device *device;
    lab_bench_case shipped; /* verified by the first trial; no spec before */
    lab_trial *trials;
    size_t trial_count, trial_room, resumed; /* resumed: how many of them were read from the
                                              * record */
    size_t wrong;                            /* wrong answers */
    bool exhausted;                          /* nothing feasible is left to try */

    bool has_winner; /* the fields below are set: a variant other than the shipped one was
                      * cheapest */
    lab_variant winner;
    char winner_id[LAB_VARIANT_ID];
    lab_bench_case final[2]; /* shipped, winner: fresh samples */
    bool judged;
    lab_verdict verdict;
} lab_tuning;

/* Called after every trial. */
typedef void lab_tune_watch(const lab_tuning *tuning, const lab_trial *trial, bool best,
                            double seconds, void *state);

/* Tune the kernel that `ctx` chooses for the problem; both must outlive the result. Fails if
 * there is nothing to vary, the record belongs to another search or cannot be written, or
 * memory runs out. Call lab_tuning_free() in either case. */
bool lab_tune(lab_tuning *out, att_context *ctx, const lab_spec *spec,
              const lab_tune_options *options, lab_tune_watch *watch, void *state,
              lab_message *why);
void lab_tuning_free(lab_tuning *tuning);

/* The cheapest trial; NULL if none was timed. */
const lab_trial *lab_tuning_best(const lab_tuning *tuning);

/* Read the record of a search into `tuning`, whose base and options are set; a missing record
 * is empty. Fails naming the file and what does not match. */
bool lab_tune_state_read(lab_tuning *tuning, lab_message *why);
/* Write it, whole or not at all. */
bool lab_tune_state_write(const lab_tuning *tuning, lab_message *why);

/* "user_f16_d64_" and eight digits for GPU, problem and base: tuning again replaces the row. */
void lab_tune_id(const lab_base *base, char id[LAB_VARIANT_ID]);

/* The row with its provenance: date, verdict, driver, digests. */
void lab_tune_row(const lab_tuning *tuning, char *buf, size_t n);

/* Add the row to a rows file, which is created if necessary, replacing one of the same id. */
bool lab_tune_keep(const lab_tuning *tuning, const char *path, lab_message *why);

/* For the document of schema attest-tune-1. */
json_t *lab_tuning_object(const lab_tuning *tuning);

#endif
