/* mask_patterns.h: masks as models make them: what of a row is hidden. */
#ifndef LAB_MASK_PATTERNS_H
#define LAB_MASK_PATTERNS_H

#include "lab/problem/spec.h"

/* One element of a mask: row i and key j of batch entry `batch`, which has so many rows and keys. */
typedef struct lab_mask_place {
    int64_t batch, i, j, len_q, len_k;
} lab_mask_place;

/* Does the pattern hide the key? False for fills that are no patterns. */
bool lab_mask_hides(lab_bias_fill fill, const lab_mask_place *at);

#endif
