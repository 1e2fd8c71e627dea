/* evidence.h: the attestations in a folder, compared with the kernels of this library.
 *
 *     evidence/DEVICE/attestations/KERNEL.json  one statement per kernel; KERNEL.json.sig
 *                                               beside it if it is signed
 *     evidence/DEVICE/host.json                 the tests of the host code on that GPU
 *                                               (host_tests.h)
 *     evidence/required.txt                     devices that must have evidence: "h200 sm_90",
 *                                               "xeon-amx amx"; followed by "partial": based
 *                                               on any suites; "pending h200 KERNEL REASON":
 *                                               a statement that is still to be made
 *     evidence/harnesses.txt                    digests of older clocks whose times are still
 *                                               valid, each with a reason */
#ifndef LAB_EVIDENCE_H
#define LAB_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "lab/evidence/agreement.h"
#include "lab/evidence/attestation.h"

typedef enum lab_standing {
    LAB_CURRENT,   /* the attested code is the code of this library */
    LAB_ELSEWHERE, /* the sources are the attested ones; the machine code is from another
                    * compiler, or not in this library */
    LAB_PARTIAL,   /* the code is the attested one, but was run on other suites, or with another
                    * seed, than usual */
    LAB_STALE,     /* the code has changed since, or the file is inconsistent */
    LAB_MISSING,   /* there is no attestation */
    LAB_STANDINGS
} lab_standing;

/* "current", "other compiler", "partial", "stale", "missing". */
const char *lab_standing_name(lab_standing standing);

/* One file. */
typedef struct lab_exhibit {
    char path[1024];
    char place[64];              /* DEVICE */
    char kernel[64];             /* from the file name */
    bool sound;                  /* it was read and is consistent */
    bool is_signed;              /* it has a signature file */
    lab_attestation attestation; /* if sound */
    lab_message why;             /* if not */
} lab_exhibit;

/* A device that must have evidence. */
typedef struct lab_required {
    char place[64];
    int cc;       /* a GPU's compute capability, or 0 and: */
    att_isa isa;  /* the highest instruction set of a CPU */
    bool partial; /* statements based on other suites than the usual ones are accepted */
} lab_required;

/* A statement that required.txt lists as still to be made: it is shown and does not fail the
 * check. */
typedef struct lab_pending {
    char place[64];
    char name[64]; /* a kernel, or "host.json" */
} lab_pending;

/* A clock whose times are still valid although the laboratory has changed: a line of
 * harnesses.txt, which gives the reason. */
typedef struct lab_old_clock {
    char sha256[ATT_SHA256_HEX];
} lab_old_clock;

typedef struct lab_evidence {
    char folder[768];
    lab_exhibit *exhibits; /* sorted by path */
    size_t count;
    bool lists_required; /* required.txt exists; it may be empty */
    lab_required *required;
    size_t required_count;
    lab_pending *pending;
    size_t pending_count;
    bool lists_clocks; /* harnesses.txt exists */
    lab_old_clock *clocks;
    size_t clock_count;
    lab_suite_set usual[2]; /* of the CPU, of the GPU */
    lab_claims claims;      /* while the files are read */
} lab_evidence;

/* Read a folder; NULL: the one that ships with the program (ATTEST_EVIDENCE, or beside it),
 * which may be absent. Inconsistent files become exhibits that are not sound. Fails if the
 * named folder, one of its lists, or the suites cannot be read. */
bool lab_evidence_read(lab_evidence *evidence, const char *folder, lab_message *why);
void lab_evidence_free(lab_evidence *evidence);

/* Whether the kernel ships as attested for compute capability `cc` (0 for a CPU kernel). Steps
 * of the ladder do not, nor do marked rows, rows for architectures without evidence, and rows
 * of operations that the laboratory has no problems for. */
bool lab_kernel_ships_attested(const att_kernel_row *row, int cc);

/* "sm_80 sm_86": architectures on which the kernel ships without evidence; "" if none. */
void lab_kernel_unattested_on(const att_kernel_row *row, char *buf, size_t n);

void lab_kernel_unattested_by_id(const char *id, char *buf, size_t n);

/* Whether a machine of this kind runs the kernel. */
bool lab_kernel_runs_on(const att_kernel_row *row, int cc, att_isa isa);

/* The file about a kernel, or NULL. */
const lab_exhibit *lab_evidence_exhibit(const lab_evidence *evidence, const char *place,
                                        const char *kernel);

/* The standing of `row` according to the evidence of `place`; `why` says what is wrong, or is
 * "". */
lab_standing lab_evidence_standing(const lab_evidence *evidence, const char *place,
                                   const att_kernel_row *row, lab_message *why);

/* Whether required.txt says that the statement about a kernel, or host.json, is still to be
 * made. */
bool lab_evidence_is_pending(const lab_evidence *evidence, const char *place, const char *name);

/* The names of the devices that have exhibits, each once, sorted: their number, and the
 * i-th. */
size_t lab_evidence_places(const lab_evidence *evidence);
const char *lab_evidence_place(const lab_evidence *evidence, size_t i);

/* A place's compute capability; 0 for a CPU; -1 if none of its exhibits is sound. */
int lab_evidence_place_cc(const lab_evidence *evidence, const char *place);

#endif
