/* mask_patterns.h: masks like those of models: which keys of a row are hidden. */
#ifndef LAB_MASK_PATTERNS_H
#define LAB_MASK_PATTERNS_H

#include "lab/problem/spec.h"

/* One element of a mask: row i and key j of batch entry `batch`, which has that many rows and
 * keys. */
typedef struct lab_mask_place {
    int64_t batch, i, j, len_q, len_k;
} lab_mask_place;

/* Whether the fill hides the same keys for every seed. */
bool lab_mask_is_pattern(lab_bias_fill fill);

/* Whether the pattern hides the key. False for fills that are not patterns. */
bool lab_mask_hides(lab_bias_fill fill, const lab_mask_place *at);

/* How many of the keys from at->j up to, and without, `end` the pattern leaves visible. Takes
 * the same time for any number of keys. */
int64_t lab_mask_visible(lab_bias_fill fill, const lab_mask_place *at, int64_t end);

#endif
