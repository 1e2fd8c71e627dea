/* known_top_body.h: weights that are rounded to bfloat16, relative to a row's current maximum.
 *
 * After its first blocks a row's maximum is hardly ever raised. If bfloat16 weights are enough,
 * they are computed with one fused operation, exp2(s * factor + offset). The sum of the weights
 * shows afterwards whether the maximum should have been raised. */
#ifndef ATT_CPU_KNOWN_TOP_BODY_H
#define ATT_CPU_KNOWN_TOP_BODY_H

#include "attention/cpu/softmax_body.h"
#include "attention/cpu/tile.h"

enum { BF16_DEGREE = 3 }; /* of exp2, enough for bfloat16 weights */

/* If only O is requested, in no finer type than the inputs, exp2 need not be more precise than
 * the stored weights. */
static inline bool weights_are_fine(const att_problem *p) {
    return (p->features & ATT_LSE) || p->dtype_o == ATT_F32;
}

/* The error of an offset below this, 2^-15, is far below that of a bfloat16 weight. */
static const float OFFSET_MOST = 0x1p10f;

/* If a lane's sum of a block's weights is above this, one of them is above 2^LAZY and the
 * maximum must be raised. Otherwise no weight is above this, and the scores need not be
 * searched for the maximum. */
static const float LANE_SUM_MOST = (float)(TILE_KEYS / VF_W << (int)LAZY);

#endif
