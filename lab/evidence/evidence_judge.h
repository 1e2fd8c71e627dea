/* evidence_judge.h: every kernel against the evidence of every device that has, or must have, evidence. */
#ifndef LAB_EVIDENCE_JUDGE_H
#define LAB_EVIDENCE_JUDGE_H

#include "lab/evidence/evidence.h"
#include "lab/evidence/signature.h"

/* One kernel by the evidence of one device. */
typedef struct lab_judged {
    char place[64];
    char kernel[64];
    bool required;
    bool partial_will_do; /* where required */
    bool
        pending; /* required.txt says that it is still to be made; one that is there must come off the list */
    lab_standing standing;
    const lab_exhibit *exhibit; /* NULL where missing; of the evidence that was judged */
    lab_signature signature; /* where signers were given; LAB_SIGNATURE_BROKEN: also unsigned */
    char signer[128];        /* "" where unsigned or not checked */
    lab_message why;         /* "" where all is well */
} lab_judged;

/* A file that is about no kernel: required.txt, harnesses.txt, DEVICE/host.json. */
typedef struct lab_judged_file {
    char name[96];
    bool fails;
    lab_message why; /* "" where all is well */
} lab_judged_file;

enum { LAB_JUDGED_FILES = 64 };

typedef struct lab_judgement {
    lab_judged *list; /* by device, then in the order of the registry */
    size_t count;
    lab_judged_file files[LAB_JUDGED_FILES];
    size_t file_count;
    bool unknown; /* signatures could not be checked */
} lab_judgement;

/* Judge; `signers` is a file of allowed signers, by one of whom every file must then be signed; NULL: signatures are not checked.
 * required.txt must be there, though it may be empty. The evidence must outlive the judgement. Fails where memory runs out, and
 * where there are no signers in the file. */
bool lab_evidence_judge(lab_judgement *judgement, const lab_evidence *evidence,
                        const char *signers, lab_message *why);
void lab_judgement_free(lab_judgement *judgement);

/* Does it fail the check: required, not pending, and stale or missing, or partial where that will not do, or a file that does not hold together, or whose signature does not? */
bool lab_judged_fails(const lab_judged *judged);

/* "signed by WHO", "signed, not checked", "unsigned"; "" where there is no file. */
void lab_judged_signature(const lab_judged *judged, char *buf, size_t n);

#endif
