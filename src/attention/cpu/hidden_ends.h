/* hidden_ends.h: keys that a mask hides at both ends of a row.
 *
 * Padding, prefixes and packed documents leave each row an interval of keys. The ends outside
 * of it are found here once, by reading the mask, and their blocks are then neither packed nor
 * multiplied. Keys that the mask hides inside the interval are hidden by the bias as usual. */
#ifndef ATT_CPU_HIDDEN_ENDS_H
#define ATT_CPU_HIDDEN_ENDS_H

#include <stdbool.h>
#include <string.h>

#include "attention/cpu/job.h"

/* The bit pattern of an element that hides its key, false or -inf, repeated to 64 bits. */
static inline uint64_t att_cpu_hiding_bits(att_dtype dtype) {
    switch (dtype) {
    case ATT_F32:
        return UINT64_C(0xff800000ff800000);
    case ATT_F16:
        return UINT64_C(0xfc00fc00fc00fc00);
    case ATT_BF16:
        return UINT64_C(0xff80ff80ff80ff80);
    case ATT_BOOL8:
        break;
    }
    return 0;
}

static inline bool att_cpu_hides(const char *element, int64_t bytes, uint64_t hiding) {
    return memcmp(element, &hiding, (size_t)bytes) == 0;
}

/* The first key of [lo, hi) that is not hidden, or hi if all are. Reads eight bytes at a time
 * where possible. */
static inline int64_t att_cpu_first_seen(const char *row, int64_t bytes, uint64_t hiding,
                                         int64_t lo, int64_t hi) {
    const int64_t step = 8 / bytes;
    while (hi - lo >= step && att_cpu_hides(row + lo * bytes, 8, hiding))
        lo += step;
    while (lo < hi && att_cpu_hides(row + lo * bytes, bytes, hiding))
        lo++;
    return lo;
}

/* One past the last key of [lo, hi) that is not hidden, or lo if all are. */
static inline int64_t att_cpu_last_seen(const char *row, int64_t bytes, uint64_t hiding,
                                        int64_t lo, int64_t hi) {
    const int64_t step = 8 / bytes;
    while (hi - lo >= step && att_cpu_hides(row + (hi - step) * bytes, 8, hiding))
        hi -= step;
    while (hi > lo && att_cpu_hides(row + (hi - 1) * bytes, bytes, hiding))
        hi--;
    return hi;
}

/* `seen`, for query position i of a head, without the keys that the bias hides at its ends. */
static inline att_cpu_interval att_cpu_without_hidden_ends(const att_cpu_job *job,
                                                           const att_cpu_sequence *s,
                                                           att_cpu_query q,
                                                           att_cpu_interval seen) {
    const att_problem *p = job->p;
    if (!(p->features & ATT_BIAS) || p->bias.col != 1 || seen.hi <= seen.lo)
        return seen;
    const int64_t bytes = att_dtype_bytes(p->bias_dtype);
    const uint64_t hiding = att_cpu_hiding_bits(p->bias_dtype);
    const char *row =
        (const char *)job->a->bias + att_cpu_bias_offset(p, s, q.head, q.position) * bytes;
    seen.lo = att_cpu_first_seen(row, bytes, hiding, seen.lo, seen.hi);
    seen.hi = att_cpu_last_seen(row, bytes, hiding, seen.lo, seen.hi);
    return seen;
}

#endif
