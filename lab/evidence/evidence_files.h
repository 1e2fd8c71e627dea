/* evidence_files.h: the files under evidence/; the parts of lab_evidence_read(). */
#ifndef LAB_EVIDENCE_FILES_H
#define LAB_EVIDENCE_FILES_H

#include "lab/evidence/evidence.h"

/* Set evidence->folder: `folder`, or where NULL the one that comes with the program. False where it is not there. */
bool lab_evidence_find(lab_evidence *evidence, const char *folder, lab_message *why);

/* Every DEVICE/attestations/KERNEL.json. */
bool lab_evidence_read_exhibits(lab_evidence *evidence, lab_message *why);

/* required.txt: one "NAME TARGET" a line, # begins a comment; evidence->lists_required says whether it is there. */
bool lab_evidence_read_required(lab_evidence *evidence, lab_message *why);

/* harnesses.txt: one "clock SHA256 DATE REASON" a line; the file may be absent. */
bool lab_evidence_read_clocks(lab_evidence *evidence, lab_message *why);

#endif
