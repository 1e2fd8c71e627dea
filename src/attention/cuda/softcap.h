/* softcap.h: the softcap polynomials of the Hopper rows. */
#ifndef ATT_CUDA_SOFTCAP_H
#define ATT_CUDA_SOFTCAP_H

#include <stdbool.h>

#include "attest.h"
#include "kernels/fwd_sm90_params.h"

/* The polynomials and their reach for p->scale and p->softcap, both above 0. Returns false if
 * the coefficients exceed the range of float32: softcap is then larger than scale by a factor
 * of about 10^4, or smaller. */
bool att_cuda_softcap_of(att_fwd_softcap *out, const att_problem *p);

#endif
