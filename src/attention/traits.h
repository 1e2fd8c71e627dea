/* traits.h: properties of a problem that affect how a kernel processes it. A user's row serves
 * only problems that have exactly its properties. */
#ifndef ATT_ATTENTION_TRAITS_H
#define ATT_ATTENTION_TRAITS_H

#include "attest.h"
#include "core/operation.h"

enum {
    ATT_TRAIT_ALIBI = 1u << 0,
    ATT_TRAIT_BIAS = 1u << 1,
    ATT_TRAIT_SINKS = 1u << 2,
    ATT_TRAIT_CU_SEQLENS_Q = 1u << 3,
    ATT_TRAIT_CU_SEQLENS_K = 1u << 4,
    ATT_TRAIT_LENS_K = 1u << 5,
    ATT_TRAIT_PAGED = 1u << 6,
    ATT_TRAIT_WINDOW = 1u << 7,
    ATT_TRAIT_SOFTCAP = 1u << 8,
    ATT_TRAIT_UNALIGNED = 1u << 9, /* not all rows start at multiples of 16 bytes */
    ATT_TRAIT_O_TYPE = 1u << 10,   /* O of another type than Q */
    ATT_TRAIT_STARTS_K = 1u << 11,
    ATT_TRAIT_OFFSETS = 1u << 12, /* rows and keys at other positions than 0 */
    ATT_TRAIT_COUNT = 13
};

/* The sizes of an att_problem. */
enum { ATT_PROBLEM_SIZES = 7 };
extern const att_size att_problem_sizes[ATT_PROBLEM_SIZES];

extern const char *const att_trait_names[ATT_TRAIT_COUNT]; /* in the order of the bits */
extern const char *const att_causal_names[ATT_CAUSAL_BOTTOM_RIGHT + 1];

/* Of an att_problem. */
uint32_t att_problem_traits(const void *problem);
int att_problem_mode(const void *problem); /* its att_causal */

#endif
