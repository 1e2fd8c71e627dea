/* attestation.h: a file that binds the verification and timing results of one kernel to the
 * digest of its code and to the device.
 *
 * It is an in-toto Statement (v1). Its subjects are the kernel's machine code, "ID.sm_90", and
 * its sources, "ID.source"; the predicate holds device, driver, compiler, suites, every problem
 * with its error against the oracle, every raw sample, and the digest of the laboratory that
 * measured. docs/evidence.md explains what it proves, and what it does not. */
#ifndef LAB_ATTESTATION_H
#define LAB_ATTESTATION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/base/json_node.h"
#include "lab/evidence/agreement.h"
#include "lab/evidence/chosen.h"
#include "lab/evidence/code_digest.h"

#define LAB_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define LAB_PREDICATE_TYPE "urn:attest:attention-kernel:v2"

/* A statement about the kernel `id`; `predicate` (consumed) holds the measurements. Its
 * subjects are the parts whose digests are not "": "ID.sm_90" for `cc` 90, "ID.source"; for a
 * plug-in, whose code is a file, "ID.library". NULL if memory ran out. */
json_t *lab_attestation_make(const char *id, int cc, const lab_code_digests *digests,
                             json_t *predicate);

/* The fields of a statement that the evidence check needs. */
typedef struct lab_attestation {
    char kernel[64];
    char device[64]; /* the GPU or the processor, by its own name */
    char place[96];  /* the folder for that name (place.h) */
    int cc;          /* compute capability; 0: a CPU */
    int sms;
    bool peer; /* about a plug-in: `source` is the digest of its file */
    char source[ATT_SHA256_HEX], code[ATT_SHA256_HEX]; /* code: "" on a CPU */
    char judge[ATT_SHA256_HEX], clock[ATT_SHA256_HEX]; /* digests of the laboratory: see
                                                        * evidence.mk */
    char compiler[256];
    char made[32];          /* when, UTC */
    bool amx_f32;           /* float32 was allowed to use AMX */
    double seed;            /* of the inputs */
    bool partial;           /* measured on other suites, or with another seed, than usual */
    size_t verified, timed; /* problems */
    double worst_share;     /* the largest error of a problem as a fraction of its bar */
    /* "", or why its problems are not those that attest certify would take today. Not checked
     * for a partial statement, for a plug-in, or if this library has no code for the kernel and
     * so could not run it. */
    lab_message other_problems;
} lab_attestation;

/* Read and judge a file. It must be such a statement, about one kernel, with every field.
 * Device and folder must agree. Every problem in it must have been run by this kernel's code
 * and have passed, with its errors within bars that follow from the plain reference's errors.
 * Every median must be that of its samples, and above the floor. `usual` has the suites of a
 * CPU and of a GPU. What other statements must agree with is added to `claims`, unless NULL.
 * `why` names the file and the field at fault. */
bool lab_attestation_read(lab_attestation *attestation, const char *path,
                          const lab_suite_set usual[2], lab_claims *claims, lab_message *why);

/* Parts of it, for other statements: the device from `machine` of the predicate, with its
 * folder; the digest of the subject KERNEL.PART. */
bool lab_attested_device(lab_attestation *attestation, const lab_node *predicate,
                         lab_message *why);
bool lab_attested_subject(const lab_node *statement, const char *kernel, const char *part,
                          char out[ATT_SHA256_HEX], lab_message *why);

#endif
