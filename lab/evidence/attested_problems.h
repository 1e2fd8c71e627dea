/* attested_problems.h: the problems of a statement: each one checked, and whether they are the
 * ones that certify would take. */
#ifndef LAB_ATTESTED_PROBLEMS_H
#define LAB_ATTESTED_PROBLEMS_H

#include "lab/base/json_node.h"
#include "lab/evidence/attestation.h"

/* Judge "verified" and "timed" of the predicate, and count them in the attestation; the rest of
 * it has been read. `row` is
 * the kernel's; NULL for a plug-in and for a kernel that this library does not have. `usual`
 * has the suites of the device. False with the file and the field in `why` if they are
 * inconsistent. If they differ from those that certify would take today,
 * attestation->other_problems says so. */
bool lab_attested_problems(lab_attestation *attestation, const lab_node *predicate,
                           const att_kernel_row *row, const lab_suite_set *usual,
                           lab_claims *claims, lab_message *why);

#endif
