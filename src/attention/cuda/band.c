/* band.c: converts causal mask, window and offsets of a problem. */
#include "attention/cuda/band.h"

#include "attention/problem.h"
#include "base/checked.h"

/* Sums of sizes, windows and shifts stay below 2^31 if each side has this at most. */
static const int64_t SIDE_MOST = INT64_C(1) << 29;

/* The limits of the window in 64 bits; -1 if a limit hides no key from any row. */
typedef struct wide_band {
    int64_t left, right, shift;
} wide_band;

static wide_band wide_band_of(const att_problem *p) {
    wide_band b = {.left = p->window_left,
                   .right = p->causal != ATT_CAUSAL_NONE ? 0 : p->window_right};
    int64_t past_left, past_right; /* limits from which on nothing is hidden */
    if (att_problem_is_bottom_right(p)) {
        past_left = past_right = p->seq_q + p->seq_k;
    } else {
        b.shift = p->q_offset - p->k_offset;
        past_left = p->seq_q - 1 + b.shift;
        past_right = p->seq_k - 1 - b.shift;
    }
    if (p->features & ATT_OFFSETS_VARY) /* any diagonal is possible */
        return b;
    if (b.left >= past_left)
        b.left = -1;
    if (b.right >= past_right)
        b.right = -1;
    return b;
}

bool att_cuda_band_has_offsets(const att_problem *p) {
    return p->q_offset != p->k_offset || p->features & ATT_OFFSETS_VARY;
}

static int clamp(int64_t x, int64_t least, int64_t most) {
    return (int)att_min(att_max(x, least), most);
}

att_cuda_band att_cuda_band_of(const att_problem *p) {
    const wide_band b = wide_band_of(p);
    const int64_t left = att_max(b.left, 0), right = att_max(b.right, 0);
    att_cuda_band band = {.left = clamp(b.left, -1, INT32_MAX),
                          .right = clamp(b.right, -1, INT32_MAX),
                          .offset = b.shift};
    if (!att_cuda_band_has_offsets(p))
        return band;
    const bool distances = p->features & ATT_ALIBI;
    band.shift_least =
        clamp(distances ? -2 * SIDE_MOST : -(p->seq_q + right), -2 * SIDE_MOST, 0);
    band.shift_most = clamp(distances ? 2 * SIDE_MOST : p->seq_k + left, 0, 2 * SIDE_MOST);
    band.shift = clamp(b.shift, band.shift_least, band.shift_most);
    return band;
}

bool att_cuda_band_hides(const att_problem *p) {
    const wide_band b = wide_band_of(p);
    return b.left >= 0 || b.right >= 0;
}

const char *att_cuda_band_refusal(const att_problem *p, const char **field) {
    const wide_band b = wide_band_of(p);
    if (!att_cuda_band_has_offsets(p))
        return NULL;
    const struct {
        const char *name;
        int64_t value;
    } sides[] = {{"seq_q", p->seq_q},
                 {"seq_k", p->seq_k},
                 {"window_left", b.left},
                 {"window_right", p->causal != ATT_CAUSAL_NONE ? 0 : b.right}};
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        *field = sides[i].name;
        if (sides[i].value > SIDE_MOST / 2)
            return "is above 2^28, too large for kernels that count offsets in 32 bits";
    }
    *field = p->q_offset >= p->k_offset ? "q_offset" : "k_offset";
    if (p->features & ATT_ALIBI && (b.shift > 2 * SIDE_MOST || b.shift < -2 * SIDE_MOST))
        return "is more than 2^30 positions from the other, too far for ALiBi in 32 bits";
    *field = NULL;
    return NULL;
}
