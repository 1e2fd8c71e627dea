/* audit.h: runs every saboteur through the unmodified harness: verified, timed, and caught or
 * missed.
 *
 * Honest subjects must pass; otherwise being caught would mean nothing. */
#ifndef LAB_AUDIT_H
#define LAB_AUDIT_H

#include <jansson.h>
#include <stdint.h>

#include "lab/measure/bench.h"
#include "lab/subject/saboteur.h"

typedef enum lab_audit_outcome {
    LAB_AUDIT_CAUGHT,
    LAB_AUDIT_MISSED,  /* a saboteur that passed, was refused, or could not be played */
    LAB_AUDIT_PASSED,  /* an honest subject that passed */
    LAB_AUDIT_ACCUSED, /* an honest subject that did not */
    LAB_AUDIT_LEFT_OUT /* not played: for another operation, or without effect on this
                        * problem */
} lab_audit_outcome;

typedef struct lab_audit_result {
    const lab_saboteur *saboteur;
    lab_spec spec;
    lab_audit_outcome outcome;
    bool timed;        /* it was caught, or passed, in the timing after the verification */
    char message[512]; /* of the check that caught it, or why it was left out */
} lab_audit_result;

typedef struct lab_audit {
    lab_audit_result *results;
    size_t count, total; /* count < total: the user interrupted the audit */
    size_t caught, missed, passed, accused, left_out;
} lab_audit;

typedef struct lab_audit_options {
    uint64_t seed;
    /* The problem for all, and the one for rivals, whose time is compared with that of their
     * direct call; NULL: ones that suit the device. The first decides the operation; saboteurs
     * that need another stage are played on small problems of that operation. */
    const char *plain, *rival;
} lab_audit_options;

/* Play all saboteurs of the context's device. `stream` is for the progress bar. */
bool lab_audit_run(lab_audit *audit, att_context *ctx, const lab_audit_options *options,
                   FILE *stream, lab_message *why);
void lab_audit_free(lab_audit *audit);

/* "caught", "MISSED", "passed", "ACCUSED", "left out". */
const char *lab_audit_outcome_name(lab_audit_outcome outcome);

/* The results, for a document attest-audit-1. */
json_t *lab_audit_json(const lab_audit *audit);

#endif
