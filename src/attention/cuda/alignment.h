/* alignment.h: may rows be moved 16 bytes at a time? */
#ifndef ATT_CUDA_ALIGNMENT_H
#define ATT_CUDA_ALIGNMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "attest.h"

/* Bytes to which every row of Q, K, V and O starts, as far as bases, strides and the problem's
 * alignment say; at most 16. `field`, where not NULL, becomes what keeps them from 16 ("alignment", "q",
 * "k", "v", "o"), or NULL where they are. */
size_t att_cuda_row_alignment(const att_problem *p, const char **field);

/* The bytes to which the bases of q, k, v and o must be aligned in a run. */
size_t att_cuda_base_alignment(const att_problem *p);

/* Every row starts at a multiple of 16 bytes. */
bool att_cuda_rows_aligned(const att_problem *p);

#endif
