/* cuda_families.h: the families whose tiles can be varied, for `attest plan`, `ablate` and `tune`. */
#ifndef ATT_ATTENTION_CUDA_FAMILIES_H
#define ATT_ATTENTION_CUDA_FAMILIES_H

#include "core/family.h"

extern const att_family att_family_fwd_sm80, att_family_fwd_sm90, att_family_fwd_sm90_small;

#endif
