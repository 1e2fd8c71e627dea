/* softcap.h: what the Hopper rows with softcap compute it by. */
#ifndef ATT_CUDA_SOFTCAP_H
#define ATT_CUDA_SOFTCAP_H

#include <stdbool.h>

#include "attest.h"
#include "kernels/fwd_sm90_params.h"

/* The polynomials and their reach for p->scale and p->softcap, both above 0. False where float32 does not hold their coefficients: softcap is
 * then larger than scale by 10^4 or so, or smaller. */
bool att_cuda_softcap_of(att_fwd_softcap *out, const att_problem *p);

#endif
