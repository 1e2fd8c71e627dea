/* bench.h: problems verified, then timed, with every raw sample kept.
 *
 * A case is one problem for one subject. Each case is verified first; one that fails or is refused
 * is not timed. Cases are then timed in rounds, one sample of every case a round, so that a change of
 * the machine's speed falls on all of them alike. Inputs are fresh (not those that were verified) and
 * in cache as far as they fit: a call that is not timed goes before every short sample. The first and
 * the last round, and some by chance in between, run on poisoned outputs, all but the first on inputs
 * that change, and their answers are judged by the oracle: what is timed is what is checked. The first
 * and the last round have the same inputs and must give the same bits. On a GPU a sample is a CUDA
 * graph of runs, replayed between two events. */
#ifndef LAB_BENCH_H
#define LAB_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attest.h"
#include "lab/progress.h"
#include "lab/spec.h"
#include "lab/stats.h"
#include "lab/subject.h"
#include "lab/verify.h"

typedef struct lab_bench_options {
    uint64_t seed;
    size_t min_samples, max_samples; /* of every case; 1 <= min <= max */
    double seconds;        /* a case: sampling goes on to this once min_samples are had */
    double warmup_seconds; /* a case, before the first sample */
} lab_bench_options;

/* 20 to 2000 samples, 1 s a case, 0.1 s of warm-up, seed 0. */
lab_bench_options lab_bench_defaults(void);

typedef struct lab_bench_case {
    const lab_spec *spec; /* set by the caller; finished */
    lab_subject subject;  /* set by the caller */

    lab_verify_result
        verify;        /* before timing; outcome LAB_FAIL also where a later check failed */
    bool timed;        /* what follows is set */
    att_launch launch; /* of the last timed call; on a GPU, of the last one captured */
    size_t calls_per_sample; /* more than one where a call is too short for the clock */
    double *samples_ns;      /* a call, in the order taken */
    size_t sample_count;
    lab_summary ns;
    double flops; /* operations of a call: 2 (d_qk + d_v) for every visible (row, key) pair */
    /* On a GPU whose rates are known, the least time of a call (lab/plan_floor.h), else 0. Bytes that
     * stay in the second-level cache from call to call are not held against memory. */
    double floor_ns;
} lab_bench_case;

/* Verify and time the cases, filling what the caller did not set. `stream` is for the progress bar.
 * Fails only where memory runs out; what a case met is in the case. */
bool lab_bench_run(lab_bench_case *cases, size_t count, const lab_bench_options *options,
                   FILE *stream, lab_message *why);

/* 10^9 operations a second where a call takes `ns`. */
double lab_bench_gflops(const lab_bench_case *timed, double ns);

/* Free the samples. */
void lab_bench_free(lab_bench_case *cases, size_t count);

#endif
