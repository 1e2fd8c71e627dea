/* agreement.h: what statements about the same problem must have in common.
 *
 * The inputs follow from the problem and the seed, so the answers of the oracle and of the
 * plain reference, and the number of rows, are the same whichever kernel is judged. A forger of
 * one statement cannot choose them freely. */
#ifndef LAB_AGREEMENT_H
#define LAB_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lab/base/message.h"

/* One output of one problem of a statement. */
typedef struct lab_claim {
    uint64_t key; /* of the problem, the output, the seed and the judge */
    uint32_t statement;
    uint32_t at; /* in "verified" or "timed" */
    bool timed;
    const char *output; /* name; a constant */
    double rows_checked, rows_total, bar;
} lab_claim;

typedef struct lab_claims {
    lab_claim *list;
    size_t count, room;
} lab_claims;

/* Add one; false if memory ran out. */
bool lab_claims_add(lab_claims *claims, const lab_claim *claim);
void lab_claims_free(lab_claims *claims);

/* A claim that differs from the usual one about the same problem, in "rows_total",
 * "rows_checked" or "bar". */
typedef struct lab_difference {
    const lab_claim *claim, *usual;
    const char *field;
    double value, usual_value;
} lab_difference;

/* Compare the claims, which are reordered, and report every difference. */
typedef void lab_claim_report(void *context, const lab_difference *difference);
void lab_claims_compare(lab_claims *claims, lab_claim_report *report, void *context);

#endif
