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

#include "lab/base/json_node.h"
#include "lab/evidence/chosen.h"
#include "lab/evidence/code_digest.h"

#define LAB_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define LAB_PREDICATE_TYPE "urn:attest:attention-kernel:v2"

/* A statement about the kernel `id`; `predicate` (consumed) is what was measured. Its subjects are the parts whose digests are not
 * "": "ID.sm_90" for `cc` 90, "ID.source"; of a plug-in, whose code is a file, "ID.library". NULL where memory ran out. */
json_t *lab_attestation_make(const char *id, int cc, const lab_code_digests *digests,
                             json_t *predicate);

/* What the check of evidence needs to know of a statement. */
typedef struct lab_attestation {
    char kernel[64];
    char device[64]; /* the GPU or the processor, as it names itself */
    char place[96];  /* the folder that belongs to that name (place.h) */
    int cc;          /* compute capability; 0: a CPU */
    int sms;
    bool peer; /* about a plug-in: `source` is the digest of its file */
    char source[ATT_SHA256_HEX], code[ATT_SHA256_HEX]; /* code: "" on a CPU */
    char judge[ATT_SHA256_HEX], clock[ATT_SHA256_HEX]; /* of the laboratory: see evidence.mk */
    char compiler[256];
    char made[32];          /* when, UTC */
    bool amx_f32;           /* float32 was allowed to go to AMX */
    bool partial;           /* of other suites than the usual ones */
    size_t verified, timed; /* problems */
    double worst_share;     /* the largest error of a problem over its bar */
    /* "", or why its problems are not those that attest certify would take today. Not looked at where partial, of a plug-in, and where
     * this library could not run the kernel: it has no code of it. */
    lab_message other_problems;
} lab_attestation;

/* Read and judge a file: it must be such a statement, about one kernel, with every field; device and folder must agree; every
 * problem in it must have been run by this kernel's code and have passed, with its errors within bars that follow from
 * the plain reference's; every median must be that of its samples, and above the floor. `usual` has the suites of a CPU and of a GPU.
 * `why` names the file and the field at fault. */
bool lab_attestation_read(lab_attestation *attestation, const char *path,
                          const lab_suite_set usual[2], lab_message *why);

/* Parts of it, for other statements: the device by `machine` of the predicate, with the folder that belongs to it; the digest of the subject
 * KERNEL.PART. */
bool lab_attested_device(lab_attestation *attestation, const lab_node *predicate,
                         lab_message *why);
bool lab_attested_subject(const lab_node *statement, const char *kernel, const char *part,
                          char out[ATT_SHA256_HEX], lab_message *why);

#endif
