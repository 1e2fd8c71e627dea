/* cuda_families.h: the families that `attest plan`, `ablate` and `tune` request by name. */
#ifndef ATT_ATTENTION_CUDA_FAMILIES_H
#define ATT_ATTENTION_CUDA_FAMILIES_H

#include "core/family.h"

/* Those whose tiles can be varied. */
extern const att_family att_family_fwd_sm80, att_family_fwd_sm80_f32, att_family_fwd_sm90,
    att_family_fwd_sm90_small;

/* Few rows per K/V head. */
extern const att_family att_family_fwd_decode, att_family_fwd_decode_sm90,
    att_family_fwd_decode_shares;

/* Joins the parts of the last one. */
extern const att_family att_family_fwd_decode_join;

#endif
