/* divide.cuh: division by a number prepared by the host: one multiplication instead of a
 * division. */
#ifndef ATT_DIVIDE_CUH
#define ATT_DIVIDE_CUH

#include "kernels/config.cuh"

/* n / d->value, for 0 <= n < 2^31. */
DEVICE unsigned divide(unsigned n, const att_fwd_divisor *d) {
    if (!USE_FAST_DIVIDE)
        return n / d->value;
    return d->value == 1 ? n : __umulhi(n, d->multiplier) >> d->shift;
}

#endif
