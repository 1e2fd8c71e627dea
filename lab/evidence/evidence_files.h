/* evidence_files.h: the files under evidence/; the parts of lab_evidence_read(). */
#ifndef LAB_EVIDENCE_FILES_H
#define LAB_EVIDENCE_FILES_H

#include "lab/evidence/evidence.h"

/* Set evidence->folder: `folder`, or if NULL the one that ships with the program. False if it
 * does not exist. */
bool lab_evidence_find(lab_evidence *evidence, const char *folder, lab_message *why);

/* Read every DEVICE/attestations/KERNEL.json. */
bool lab_evidence_read_exhibits(lab_evidence *evidence, lab_message *why);

/* Read required.txt: one "NAME TARGET" per line, # begins a comment; evidence->lists_required
 * says whether it exists. */
bool lab_evidence_read_required(lab_evidence *evidence, lab_message *why);

/* Read harnesses.txt: one "clock SHA256 DATE REASON" per line; the file may be absent. */
bool lab_evidence_read_clocks(lab_evidence *evidence, lab_message *why);

#endif
