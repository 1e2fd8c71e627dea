/* divisor.c: division by multiplication. */
#include "cuda/divisor.h"

#include <stdint.h>

att_fwd_divisor att_cuda_divisor(unsigned value) {
    unsigned bits = 0; /* 2^bits >= value */
    while ((UINT64_C(1) << bits) < value)
        bits++;
    if (value <= 1)
        return (att_fwd_divisor){.value = 1};
    /* 2^(31 + bits) / value, rounded up, is below 2^32 and accurate enough for every n <
     * 2^31. */
    const uint64_t power = UINT64_C(1) << (31 + bits);
    return (att_fwd_divisor){.value = value,
                             .multiplier = (unsigned)((power + value - 1) / value),
                             .shift = bits - 1};
}
