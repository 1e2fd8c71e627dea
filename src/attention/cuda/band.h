/* band.h: the keys beside the diagonal that a row sees, in the 32 bits that GPU kernels count
 * in. */
#ifndef ATT_ATTENTION_BAND_H
#define ATT_ATTENTION_BAND_H

#include <stdbool.h>
#include <stdint.h>

#include "attest.h"

typedef struct att_cuda_band {
    int left, right; /* keys visible on either side of the diagonal; -1: hides no key */
    int64_t offset;  /* top-left: diagonal(i) = i + offset + what batch entries add, clamped */
    int shift;       /* the clamped sum if they add nothing */
    /* Diagonals at which all keys are visible to all rows, or none to any: a shift beyond them
     * shows the same keys. With ALiBi, whose distances count, the limits of 32 bits. */
    int shift_least, shift_most;
} att_cuda_band;

att_cuda_band att_cuda_band_of(const att_problem *p);

/* Whether rows and keys are at other positions than those of the alignment. */
bool att_cuda_band_has_offsets(const att_problem *p);

/* Whether some row may not see some key of its sequence because of where both are. */
bool att_cuda_band_hides(const att_problem *p);

/* Why positions do not fit 32 bits, and the field that says so; NULL if they do. */
const char *att_cuda_band_refusal(const att_problem *p, const char **field);

#endif
