/* traits.c: properties of a problem, and what rows files call them. */
#include "attention/traits.h"

#include <stdbool.h>
#include <stddef.h>

#include "attention/cuda/alignment.h"
#include "attention/cuda/band.h"

#define SIZE(field)                                                                            \
    { #field, offsetof(att_problem, field) }
const att_size att_problem_sizes[] = {SIZE(batch), SIZE(heads_q), SIZE(heads_kv), SIZE(seq_q),
                                      SIZE(seq_k), SIZE(d_qk),    SIZE(d_v)};

const char *const att_causal_names[] = {[ATT_CAUSAL_NONE] = "none",
                                        [ATT_CAUSAL_TOP_LEFT] = "top-left",
                                        [ATT_CAUSAL_BOTTOM_RIGHT] = "bottom-right"};

const char *const att_trait_names[] = {
    "alibi",  "bias",    "sinks",     "cu_seqlens_q", "cu_seqlens_k", "lens_k", "paged",
    "window", "softcap", "unaligned", "o_type",       "starts_k",     "offsets"};

int att_problem_mode(const void *problem) {
    return (int)((const att_problem *)problem)->causal;
}

uint32_t att_problem_traits(const void *problem) {
    const att_problem *p = problem;
    static const struct {
        uint32_t feature, trait;
    } pairs[] = {{ATT_ALIBI, ATT_TRAIT_ALIBI},
                 {ATT_BIAS, ATT_TRAIT_BIAS},
                 {ATT_SINKS, ATT_TRAIT_SINKS},
                 {ATT_CU_SEQLENS_Q, ATT_TRAIT_CU_SEQLENS_Q},
                 {ATT_CU_SEQLENS_K, ATT_TRAIT_CU_SEQLENS_K},
                 {ATT_LENS_K, ATT_TRAIT_LENS_K},
                 {ATT_PAGED, ATT_TRAIT_PAGED},
                 {ATT_STARTS_K, ATT_TRAIT_STARTS_K}};
    uint32_t traits = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (p->features & pairs[i].feature)
            traits |= pairs[i].trait;
    const bool right = p->causal == ATT_CAUSAL_NONE && p->window_right >= 0;
    if (p->window_left >= 0 || right)
        traits |= ATT_TRAIT_WINDOW;
    if (p->softcap != 0.0f)
        traits |= ATT_TRAIT_SOFTCAP;
    if (!att_cuda_rows_aligned(p))
        traits |= ATT_TRAIT_UNALIGNED;
    if (p->dtype_o != p->dtype)
        traits |= ATT_TRAIT_O_TYPE;
    if (att_cuda_band_has_offsets(p))
        traits |= ATT_TRAIT_OFFSETS;
    return traits;
}
