/* evidence_judge.h: every kernel against the evidence of every device that has, or must have,
 * evidence. */
#ifndef LAB_EVIDENCE_JUDGE_H
#define LAB_EVIDENCE_JUDGE_H

#include "lab/evidence/evidence.h"
#include "lab/evidence/signature.h"

/* One kernel judged by the evidence of one device. */
typedef struct lab_judged {
    char place[64];
    char kernel[64];
    bool required;
    bool partial_will_do; /* if required */
    bool
        pending; /* required.txt lists it as still to be made; one that exists must come off the
                  * list */
    lab_standing standing;
    const lab_exhibit *exhibit; /* NULL if missing; points into the judged evidence */
    lab_signature signature;    /* if signers were given; LAB_SIGNATURE_BROKEN: also unsigned */
    char signer[128];           /* "" if unsigned or not checked */
    lab_message why;            /* "" if all is well */
} lab_judged;

/* A file that is not about a kernel: required.txt, harnesses.txt, DEVICE/host.json. */
typedef struct lab_judged_file {
    char name[96];
    bool fails;
    lab_message why; /* "" if all is well */
} lab_judged_file;

typedef struct lab_judgement {
    lab_judged *list; /* by device, then in the order of the registry */
    size_t count;
    lab_judged_file *files;
    size_t file_count;
    bool unknown; /* signatures could not be checked */
} lab_judgement;

/* Judge. `signers` is a file of allowed signers, one of whom must have signed every file; NULL:
 * signatures are not checked. required.txt must exist, but may be empty. The evidence must
 * outlive the judgement. Fails if memory runs out, or if the file contains no signers. */
bool lab_evidence_judge(lab_judgement *judgement, const lab_evidence *evidence,
                        const char *signers, lab_message *why);
void lab_judgement_free(lab_judgement *judgement);

/* Whether it fails the check: required, not pending, and stale, missing, or partial where that
 * is not accepted; or an inconsistent file, or one with a bad signature. */
bool lab_judged_fails(const lab_judged *judged);

/* "signed by WHO", "signed, not checked", "unsigned"; "" if there is no file. */
void lab_judged_signature(const lab_judged *judged, char *buf, size_t n);

#endif
