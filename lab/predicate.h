/* predicate.h: what an attestation says besides the digests: who measured what, where, with what. */
#ifndef LAB_PREDICATE_H
#define LAB_PREDICATE_H

#include <jansson.h>

#include "lab/certify.h"
#include "lab/code_digest.h"
#include "select/registry.h"

/* All but the problems. */
json_t *lab_predicate_make(const lab_certify *job, const att_kernel_row *row,
                           const att_context *ctx, const lab_code_digests *digests);

/* One problem that was verified, one that was timed as well. */
json_t *lab_predicate_checked(const lab_spec *spec, const lab_verify_result *result);
json_t *lab_predicate_timed(const lab_bench_case *timed);

#endif
