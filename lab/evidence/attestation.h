/* attestation.h: a file that binds what was verified and timed of one kernel to the digest of its code, and to the device.
 *
 * It is an in-toto Statement (v1). Its subjects are the kernel's machine code, "ID.sm_90", and its sources, "ID.source"; the
 * predicate holds device, driver, compiler, suites, every problem with its error against the oracle, every raw sample, and the
 * digest of the laboratory that measured. docs/evidence.md says what it proves, and what it does not. */
#ifndef LAB_ATTESTATION_H
#define LAB_ATTESTATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"
#include "lab/evidence/code_digest.h"

#define LAB_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define LAB_PREDICATE_TYPE "urn:attest:attention-kernel:v1"

/* What `attest certify` verifies and times where it is not told otherwise; required evidence must be of no less. */
#define LAB_CHECKED_GPU "rows, edge, gpu"
#define LAB_CHECKED_CPU "rows, edge"
#define LAB_TIMED_GPU   "certify"
#define LAB_TIMED_CPU   "certify_cpu"

/* A statement about the kernel `id`; `predicate` (consumed) is what was measured. Its subjects are the parts whose digests are not
 * "": "ID.sm_90" for `cc` 90, "ID.source"; of a plug-in, whose code is a file, "ID.library". NULL where memory ran out. */
json_t *lab_attestation_make(const char *id, int cc, const lab_code_digests *digests,
                             json_t *predicate);

/* What the check of evidence needs to know of a statement. */
typedef struct lab_attestation {
    char kernel[64];
    char device[64]; /* the GPU or the processor, as it names itself */
    int cc;          /* compute capability; 0: a CPU */
    bool peer;       /* about a plug-in: `source` is the digest of its file */
    char source[ATT_SHA256_HEX], code[ATT_SHA256_HEX]; /* code: "" on a CPU */
    char compiler[256];
    char made[32];          /* when, UTC */
    bool partial;           /* of other suites than those above */
    size_t verified, timed; /* problems */
    double worst_share;     /* the largest error of a problem over its bar */
} lab_attestation;

/* Read and judge a file: it must be such a statement, about one kernel; every problem in it must have passed with its errors
 * within their bars, and every median must be that of its samples. `why` names the file and the field at fault. */
bool lab_attestation_read(lab_attestation *attestation, const char *path, lab_message *why);

#endif
