/* known_top_body.h: weights that are rounded to bfloat16, under the maximum that a row has already.
 *
 * After its first blocks a row's maximum is hardly ever raised. Where a weight of bfloat16 is all that is
 * wanted it is formed by one fused operation, exp2(s * factor + offset), and the sum of the weights tells
 * afterwards whether the maximum should have been raised. */
#ifndef ATT_CPU_KNOWN_TOP_BODY_H
#define ATT_CPU_KNOWN_TOP_BODY_H

#include "attention/cpu/softmax_body.h"
#include "attention/cpu/tile.h"

enum { BF16_DEGREE = 3 }; /* of exp2, enough for a weight of bfloat16 */

/* Where only O is asked for, and no finer than the inputs, exp2 need be no better than the weights are stored. */
static inline bool weights_are_fine(const att_problem *p) {
    return (p->features & ATT_LSE) || p->dtype_o == ATT_F32;
}

/* The error of an offset below this, 2^-15, is far below that of a bfloat16 weight. */
static const float OFFSET_MOST = 0x1p10f;

/* Where a lane's sum of a block's weights is above this, one of them is above 2^LAZY and the
 * maximum must be raised. Otherwise none is above this, and the scores need no look of their own
 * for the maximum. */
static const float LANE_SUM_MOST = (float)(TILE_KEYS / VF_W << (int)LAZY);

#endif
