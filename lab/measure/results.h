/* results.h: a result file of `attest bench`, read into structs. Schemas attest-bench-1 and -2.
 *
 * Fields that -1 did not record get the value they had then: subject "attest", mode "warm",
 * timer "cpu" or "graph" depending on the device, all samples from one process, their rounds in
 * order. A result of -2 without "median_ns" holds only raw samples (`python -m attest.bench`):
 * median, interval, spread and GFLOP/s are computed from them. */
#ifndef LAB_RESULTS_H
#define LAB_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"
#include "lab/statistics/stats.h"

/* One problem by one kernel. Missing strings are "", missing numbers 0. */
typedef struct lab_result {
    const char *problem; /* the spec's line */
    const char *subject; /* "attest", or a peer's name and version */
    const char *kernel, *isa, *mode, *timer;
    const char *code_sha256; /* of the kernel that ran */
    const char *outcome;     /* of the verification: "pass", "fail", "refused" */
    int threads;
    bool timed; /* the fields below are set */
    double median_ns, low_ns, high_ns, spread_percent;
    double flops, gflops, floor_ns;
    size_t calls_per_sample;
    lab_samples samples;  /* nanoseconds per call, with process and round */
    size_t discarded;     /* samples taken and discarded */
    size_t power_capped;  /* samples taken at the power limit */
    const json_t *object; /* the result itself, for other fields */
} lab_result;

typedef struct lab_results {
    const char *schema, *attest, *compiler;
    const char *processor;
    const char *device; /* "cpu" or "cuda" */
    const char *gpu, *gpu_uuid;
    char driver[64]; /* of the GPU, "" on the CPU */
    double device_seconds;
    double minimum_effect; /* for interleaved rivals, from an A/A run (bench --aa); 0: not
                            * measured */
    lab_result *results;
    size_t count;
    json_t *document;
} lab_results;

/* Read the file. On failure `why` names the file and the field; `out` is then empty. */
bool lab_results_read(lab_results *out, const char *path, lab_message *why);

/* The same from a document, which is kept by reference; `name` is used in messages. */
bool lab_results_of(lab_results *out, json_t *document, const char *name, lab_message *why);

void lab_results_free(lab_results *results);

#endif
