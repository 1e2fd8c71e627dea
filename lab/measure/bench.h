/* bench.h: problems verified, then timed, with every raw sample kept.
 *
 * A case is one problem for one subject. Each case is verified first; one that fails or is
 * refused is not timed. Cases are then timed in rounds: one sample of every case per round, in
 * random order, so that a change of the machine's speed affects all of them equally. Cases of
 * one problem on one device share their tensors, at the same addresses, and take the same
 * number of calls per sample; otherwise a kernel may differ from itself by more than the
 * difference being measured. Inputs are fresh (not those that were verified). The first and the
 * last round, and random ones in between, run on poisoned outputs, all but the first on changed
 * inputs, and the oracle judges their answers: what is timed is what is checked. The first and
 * the last round have the same inputs and must give the same bits. On the CPU every sample has
 * inputs that the subject has not seen and poison in its outputs, and whether it is judged is
 * drawn after its time has been taken (lab/measure/station_turn.h).
 *
 *   warm   the sample's calls are made once untimed before it. Small problems have up to
 *          LAB_INPUT_SETS copies of everything, with different contents, which calls take in
 *          turn: as many as fit together in half the second-level cache. No input stays in a
 *          first-level cache by accident
 *   cold   twice the size of the largest cache is overwritten before every sample of one call
 *
 * Sampling ends when every case has `min_samples` and either the median of each is known to
 * `precision` or `seconds` per case have passed; or at `max_samples`. An interrupt
 * (lab/base/interrupt.h) makes the next round the last; cases of later waves are then not
 * timed. Samples that a GPU took while it throttled (lab/measure/nvml.h) are discarded and
 * counted. */
#ifndef LAB_BENCH_H
#define LAB_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attest.h"
#include "lab/base/progress.h"
#include "lab/measure/nvml.h"
#include "lab/plan/plan_device.h"
#include "lab/problem/spec.h"
#include "lab/statistics/stats.h"
#include "lab/subject/device_timer.h"
#include "lab/subject/subject.h"
#include "lab/verify/verify.h"

enum { LAB_INPUT_SETS = 4 };

typedef enum lab_cache_mode { LAB_WARM, LAB_COLD } lab_cache_mode;

typedef struct lab_bench_options {
    uint64_t seed;
    size_t min_samples, max_samples; /* per case; 1 <= min <= max */
    double seconds;        /* per case: after min_samples, sampling continues up to this, ... */
    double precision;      /* ... or until lab_half_width() of every case reaches this; 0:
                            * never */
    double warmup_seconds; /* per case, before the first sample */
    lab_timer timer;       /* of a GPU */
    lab_cache_mode mode;
    size_t calls_multiple; /* calls of a warm sample are a multiple of this; 0: of 1 */
    int at_once;           /* problems verified at the same time before timing; 0: one */
    struct lab_reference_store *store; /* as in lab/verify/verify.h */
    int64_t judge_work;                /* multiply-adds to judge one timed answer; 0: 2e7 */
    const uint64_t *rows_seed;         /* of the preceding verification, see
                                        * lab/verify/verify.h */
} lab_bench_options;

/* 20 to 2000 samples, 1 s per case or 0.25 %, 0.1 s of warm-up, seed 0, warm, with graphs. */
lab_bench_options lab_bench_defaults(void);

typedef struct lab_bench_case lab_bench_case;

struct lab_bench_case {
    const lab_spec *spec; /* set by the caller; finished */
    lab_subject subject;  /* set by the caller */
    /* Set by the caller or NULL: a case of the same spec and subject that was verified before,
     * whose result is used for this one too. */
    const lab_bench_case *twin;
    /* Set by the caller or 0: for every 100 counted calls, 100 x this many more are made. A
     * deliberate slow-down, to test whether it is found. Requires calls_multiple >= 1 /
     * slowdown. */
    double slowdown;

    lab_verify_result verify; /* before timing; outcome LAB_FAIL also if a later check failed */
    bool unreached;           /* the run was interrupted before this case was timed */
    bool timed;               /* the fields below are set */
    att_launch launch;        /* of the last timed call; on a GPU, of the last captured one */
    size_t calls_per_sample;  /* more than one if a call is too short for the clock */
    size_t extra_calls;       /* per sample, see slowdown */
    size_t input_sets;        /* copies of the inputs in rotation */
    double *samples_ns;       /* per call, in the order taken */
    size_t sample_count;
    uint32_t *process, *round; /* of each sample; process is 0 here */
    lab_graph_nodes nodes;     /* of a sample taken with a graph */
    lab_gpu_reading *readings; /* after each sample; NULL if there are none */
    size_t discarded;          /* samples discarded, */
    unsigned discarded_for;    /* for these reasons: bits of LAB_SLOW_* */
    size_t power_capped;       /* samples at the power limit; they are kept */
    lab_summary ns;
    double flops; /* operations per call: 2 (d_qk + d_v) for every visible (row, key) pair */
    /* On a GPU whose rates are known, the lower bound on the time of a call
     * (lab/plan/plan_floor.h), else 0. Bytes that stay in the second-level cache from call to
     * call are not counted as memory traffic. */
    double floor_ns;
    double least_ns; /* the same for a CPU (lab/plan/cpu_floor.h), where it is not a roofline */
};

/* Its samples, for lab/statistics/stats.h and lab/statistics/verdict.h. */
lab_samples lab_bench_samples(const lab_bench_case *timed);

/* Verify and time the cases, filling the fields that the caller did not set. `stream` is for
 * the progress bar. Fails only if memory runs out; other failures are recorded in the case. */
bool lab_bench_run(lab_bench_case *cases, size_t count, const lab_bench_options *options,
                   FILE *stream, lab_message *why);

/* The lower bound on the time of a call on that device. In warm mode, bytes that fit in its
 * second-level cache are not counted as memory traffic. */
double lab_bench_floor_ns(const lab_spec *spec, const lab_device *device, lab_cache_mode mode);

/* 10^9 operations per second if a call takes `ns`. */
double lab_bench_gflops(const lab_bench_case *timed, double ns);

/* Reserve room for that many samples in every array of the case, with or without GPU readings.
 * False if memory ran out; existing samples stay. */
bool lab_bench_reserve(lab_bench_case *c, size_t capacity, bool with_readings);

/* Free the samples. */
void lab_bench_free(lab_bench_case *cases, size_t count);

#endif
