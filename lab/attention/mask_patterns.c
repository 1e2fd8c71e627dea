/* mask_patterns.c: masks like those of models. */
#include "lab/attention/mask_patterns.h"

enum { BLOCK = 128 };

/* The position of a row among the keys: the last row is at the last key. */
static int64_t position(const lab_mask_place *at) {
    return at->i + at->len_k - at->len_q;
}

/* Keys of padding in a batch entry: none in every fourth, up to three eighths in the others. */
static int64_t padding(const lab_mask_place *at) {
    return at->len_k * (at->batch % 4) / 8;
}

/* The document that contains a position. Document n ends at (n + 1)^2 / 64 of the keys: each is
 * longer than the one before. */
static int64_t document(const lab_mask_place *at, int64_t where) {
    int64_t n = 0;
    while (n < 7 && where * 64 >= at->len_k * (n + 1) * (n + 1))
        n++;
    return n;
}

static bool is_block_hidden(int64_t row_block, int64_t key_block) {
    return row_block != key_block && (row_block + key_block) % 3 != 0;
}

bool lab_mask_is_pattern(lab_bias_fill fill) {
    return fill >= LAB_BIAS_PADDING && fill <= LAB_BIAS_BLOCKS;
}

bool lab_mask_hides(lab_bias_fill fill, const lab_mask_place *at) {
    const int64_t i = position(at), j = at->j;
    switch (fill) {
    case LAB_BIAS_PADDING:
        return j >= at->len_k - padding(at);
    case LAB_BIAS_PADDED_CAUSAL:
        return j > i || j < padding(at);
    case LAB_BIAS_PREFIX:
        return j > i && j >= at->len_k / 3;
    case LAB_BIAS_DOCUMENTS:
        return j > i || document(at, i) != document(at, j);
    case LAB_BIAS_BLOCKS:
        return is_block_hidden(at->i / BLOCK, j / BLOCK);
    default:
        return false;
    }
}
