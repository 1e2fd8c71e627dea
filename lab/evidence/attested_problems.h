/* attested_problems.h: the problems of a statement: each by itself, and whether they are the ones that certify would take. */
#ifndef LAB_ATTESTED_PROBLEMS_H
#define LAB_ATTESTED_PROBLEMS_H

#include "lab/base/json_node.h"
#include "lab/evidence/attestation.h"

/* Judge "verified" and "timed" of the predicate, and count them into the attestation. `row` is the kernel's, NULL of a plug-in and of a kernel
 * that this library has not got; `usual` has the suites of the device. False with the file and the field in `why` where they do not hold together; that they are others than certify
 * would take today is said in attestation->other_problems. */
bool lab_attested_problems(lab_attestation *attestation, const lab_node *predicate,
                           const att_kernel_row *row, const lab_suite_set *usual,
                           lab_message *why);

#endif
