/* tune.h: search other constants for a GPU kernel at one problem: tile, stages, warps and switches.
 *
 * Candidates are tiles that fit the GPU (lab/tune/tune_space.h). Each is compiled by NVRTC, verified, and timed in turn with
 * the shipped row; its cost is its median over the shipped one's. Every trial is put on record before the next
 * begins, so that a search that was cut short goes on where it was. The cheapest is measured again, on fresh inputs and
 * samples, and only a verdict of FASTER makes it a row. */
#ifndef LAB_TUNE_H
#define LAB_TUNE_H

#include <jansson.h>

#include "lab/measure/bench.h"
#include "lab/statistics/verdict.h"
#include "lab/tune/tune_space.h"

typedef struct lab_tune_options {
    lab_bench_options bench; /* of a trial; its seed is the search's too */
    size_t population;
    double budget_seconds; /* the last measurement included */
    size_t max_trials;     /* those of the record among them; 0: as many as the time allows */
    const char *state;     /* the record, a file */
    bool resume;           /* go on from it, where it is there */
} lab_tune_options;

typedef struct lab_trial {
    lab_variant variant;
    lab_outcome outcome;
    double cost;        /* INFINITY where it was not timed */
    double ns, base_ns; /* medians of the candidate and of the shipped row */
    char message[160];  /* why not, "" where it passed */
} lab_trial;

/* How the search was made ready for one problem. */
typedef struct lab_tuning {
    lab_base base;
    att_context *ctx; /* the caller's, on which the shipped row serves */
    lab_tune_options options;
    lab_space space;
    lab_tune_ground ground;
    lab_device *device;
    lab_bench_case shipped; /* verified by the first trial; no spec before */
    lab_trial *trials;
    size_t trial_count, trial_room, resumed; /* resumed: of them, read from the record */
    size_t wrong;                            /* answers that were */
    bool exhausted;                          /* nothing feasible is left to try */

    bool
        has_winner; /* what follows is set: another variant than the shipped one was cheapest */
    lab_variant winner;
    char winner_id[LAB_VARIANT_ID];
    lab_bench_case final[2]; /* shipped, winner: fresh samples */
    bool judged;
    lab_verdict verdict;
} lab_tuning;

/* Called after every trial. */
typedef void lab_tune_watch(const lab_tuning *tuning, const lab_trial *trial, bool best,
                            double seconds, void *state);

/* Tune the kernel that `ctx` chooses for the problem; both must outlive the result. Fails where there is nothing to vary, the
 * record is of another search or cannot be written, or memory runs out. lab_tuning_free() either way. */
bool lab_tune(lab_tuning *out, att_context *ctx, const lab_spec *spec,
              const lab_tune_options *options, lab_tune_watch *watch, void *state,
              lab_message *why);
void lab_tuning_free(lab_tuning *tuning);

/* The trial that costs least, NULL where none was timed. */
const lab_trial *lab_tuning_best(const lab_tuning *tuning);

/* Read the record of a search into `tuning`, whose base and options are set; one that is not there is empty. Fails
 * naming the file and what of it does not fit. */
bool lab_tune_state_read(lab_tuning *tuning, lab_message *why);
/* Write it, whole or not at all. */
bool lab_tune_state_write(const lab_tuning *tuning, lab_message *why);

/* "user_f16_d64_" and eight digits for GPU, problem and base: tuned again, a row takes the place of the one before. */
void lab_tune_id(const lab_base *base, char id[LAB_VARIANT_ID]);

/* The row with where it comes from: date, verdict, driver, digests. */
void lab_tune_row(const lab_tuning *tuning, char *buf, size_t n);

/* Put the row into a rows file, made where it is not there, in place of one of the same id. */
bool lab_tune_keep(const lab_tuning *tuning, const char *path, lab_message *why);

/* For the document of schema attest-tune-1. */
json_t *lab_tuning_object(const lab_tuning *tuning);

#endif
