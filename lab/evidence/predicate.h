/* predicate.h: what an attestation says besides the digests: who measured what, on which
 * machine and with which tools. */
#ifndef LAB_PREDICATE_H
#define LAB_PREDICATE_H

#include <jansson.h>

#include "lab/evidence/certify.h"
#include "lab/evidence/code_digest.h"

/* The machine, with the driver's own version if it is known. */
json_t *lab_predicate_machine(const att_context *ctx);

/* Everything except the problems, about the kernel or plug-in `id`. */
json_t *lab_predicate_make(const lab_certify *job, const char *id, const char *role,
                           const att_context *ctx, const lab_code_digests *digests);

/* One problem that was verified; one that was also timed. */
json_t *lab_predicate_checked(const lab_spec *spec, const lab_verify_result *result);
json_t *lab_predicate_timed(const lab_bench_case *timed);

#endif
