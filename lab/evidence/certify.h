/* certify.h: verifies and times kernels one at a time on this device, and makes a statement
 * about each.
 *
 * A kernel is verified on every problem of a suite that it supports, with no other kernel
 * allowed, and on those of further suites for which the library would choose it. It is timed on
 * problems for which the library would choose it. A kernel that merges splits or reads masks
 * runs beside others, so it is verified and timed on problems that need it. A plug-in is
 * treated in the same way. The machine code that ran, according to its own launch record, must
 * be the code that the statement names. */
#ifndef LAB_CERTIFY_H
#define LAB_CERTIFY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "attest.h"
#include "lab/evidence/chosen.h"
#include "lab/measure/bench.h"
#include "lab/subject/peer.h"

/* Settings for all kernels of a run. */
typedef struct lab_certify {
    att_device device; /* ATT_DEVICE_CPU or ATT_DEVICE_CUDA */
    int device_index;
    int threads; /* CPU; 0: all */
    int at_once; /* problems verified at the same time (lab/verify/verify_jobs.h) */
    struct lab_reference_store *store; /* answers shared between kernels; NULL: none */
    lab_suite_set suites;
    const char *checked_name, *timed_name; /* for the statement; the first names both lists of
                                            * suites */
    lab_bench_options bench;               /* its seed is used for both */
} lab_certify;

/* The outcome for one kernel. */
typedef struct lab_certified {
    char kernel[64];       /* its id */
    size_t checked, timed; /* problems that passed */
    double worst_share;    /* as a fraction of a bar */
    double seconds;        /* time taken */
    json_t *statement;     /* NULL if it failed, and then: */
    bool impossible;       /* it cannot be certified here, as opposed to: it is wrong */
    lab_message why;
} lab_certified;

/* Whether kernel `row` of att_kernel_query() runs on this device, ships or will ship as
 * attested, and has an id that matches `pattern` (NULL: any; * and ? as in a shell). `ctx` is
 * on the device. */
bool lab_certify_wants(const att_context *ctx, size_t row, const char *pattern);

/* The same for a plug-in, on the problems of both suites that it supports. Its id becomes
 * "peer-NAME"; `ctx` is on the device. */
void lab_certify_peer(lab_certified *out, const lab_certify *job, const lab_peer *peer,
                      att_context *ctx, FILE *stream);

/* Verify, time and make the statement. `stream` is for a progress bar. */
void lab_certify_kernel(lab_certified *out, const lab_certify *job, size_t row, FILE *stream);

#endif
