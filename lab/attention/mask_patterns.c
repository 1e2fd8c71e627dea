/* mask_patterns.c: masks like those of models. */
#include "lab/attention/mask_patterns.h"

#include "base/checked.h"

enum { BLOCK = 128 };

/* The position of a row among the keys: the last row is at the last key. */
static int64_t position(const lab_mask_place *at) {
    return at->i + at->len_k - at->len_q;
}

/* Keys of padding in a batch entry: none in every fourth, up to three eighths in the others. */
static int64_t padding(const lab_mask_place *at) {
    return at->len_k * (at->batch % 4) / 8;
}

/* The first key of the document that contains a position. Document n ends at (n + 1)^2 / 64 of
 * the keys: each is longer than the one before. */
static int64_t document_start(const lab_mask_place *at, int64_t where) {
    int64_t n = 0;
    while (n < 7 && where * 64 >= at->len_k * (n + 1) * (n + 1))
        n++;
    return att_ceil_div(at->len_k * n * n, 64);
}

static bool is_block_hidden(int64_t row_block, int64_t key_block) {
    return row_block != key_block && (row_block + key_block) % 3 != 0;
}

/* The keys before `end` whose blocks are not hidden from a block of rows: every third block,
 * and the block on the diagonal. */
static int64_t seen_in_blocks(int64_t row_block, int64_t end) {
    const int64_t whole = end / BLOCK, first = (3 - row_block % 3) % 3;
    const bool diagonal = row_block < whole && row_block % 3 != first;
    return ((whole - first + 2) / 3 + diagonal) * BLOCK +
           (is_block_hidden(row_block, whole) ? 0 : end % BLOCK);
}

/* The keys that a row sees, if the pattern leaves one interval. */
static void interval(lab_bias_fill fill, const lab_mask_place *at, int64_t *first,
                     int64_t *end) {
    const int64_t i = position(at);
    *first = 0;
    *end = i + 1;
    switch (fill) {
    case LAB_BIAS_PADDING:
        *end = at->len_k - padding(at);
        break;
    case LAB_BIAS_PADDED_CAUSAL:
        *first = padding(at);
        break;
    case LAB_BIAS_PREFIX:
        *end = att_max(i + 1, at->len_k / 3);
        break;
    case LAB_BIAS_DOCUMENTS:
        *first = document_start(at, i);
        break;
    default:
        *end = INT64_MAX;
        break;
    }
}

bool lab_mask_is_pattern(lab_bias_fill fill) {
    return fill >= LAB_BIAS_PADDING && fill <= LAB_BIAS_BLOCKS;
}

bool lab_mask_hides(lab_bias_fill fill, const lab_mask_place *at) {
    int64_t first, end;
    if (fill == LAB_BIAS_BLOCKS)
        return is_block_hidden(at->i / BLOCK, at->j / BLOCK);
    interval(fill, at, &first, &end);
    return at->j < first || at->j >= end;
}

int64_t lab_mask_visible(lab_bias_fill fill, const lab_mask_place *at, int64_t end) {
    int64_t first, last;
    if (fill == LAB_BIAS_BLOCKS)
        return end <= at->j
                   ? 0
                   : seen_in_blocks(at->i / BLOCK, end) - seen_in_blocks(at->i / BLOCK, at->j);
    interval(fill, at, &first, &last);
    return att_max(att_min(end, last) - att_max(at->j, first), 0);
}
