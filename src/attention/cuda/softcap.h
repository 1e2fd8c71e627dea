/* softcap.h: what the Hopper rows with softcap compute it by. */
#ifndef ATT_CUDA_SOFTCAP_H
#define ATT_CUDA_SOFTCAP_H

#include "attest.h"
#include "kernels/fwd_sm90_params.h"

/* The polynomial and its reach for p->scale and p->softcap, both above 0. Where float32 does not hold its coefficients, it reaches nothing. */
att_fwd_softcap att_cuda_softcap_of(const att_problem *p);

#endif
