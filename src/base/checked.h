/* checked.h: 64-bit size arithmetic that reports overflow instead of wrapping. */
#ifndef ATT_BASE_CHECKED_H
#define ATT_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* *r = a * b (or a + b); false on overflow, *r then unspecified. */
static inline bool att_mul(int64_t a, int64_t b, int64_t *r) {
    return !__builtin_mul_overflow(a, b, r);
}

static inline bool att_add(int64_t a, int64_t b, int64_t *r) {
    return !__builtin_add_overflow(a, b, r);
}

static inline int64_t att_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t att_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* a / b rounded up, and a rounded up to a multiple of b, or the largest multiple if that would
 * overflow; a >= 0, b > 0. */
static inline int64_t att_ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static inline int64_t att_round_up(int64_t a, int64_t b) {
    const int64_t most = INT64_MAX / b;
    return att_min(att_ceil_div(a, b), most) * b;
}

#endif
