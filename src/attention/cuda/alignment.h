/* alignment.h: whether rows may be moved 16 bytes at a time. */
#ifndef ATT_CUDA_ALIGNMENT_H
#define ATT_CUDA_ALIGNMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "attest.h"

/* The alignment in bytes of every row of Q, K, V and O, derived from bases, strides and the
 * problem's alignment; at most 16. If `field` is not NULL, it is set to what keeps the result
 * below 16 ("alignment", "q", "k", "v", "o"), or to NULL if it is 16. */
size_t att_cuda_row_alignment(const att_problem *p, const char **field);

/* The alignment in bytes that the bases of q, k, v and o must have in a run. */
size_t att_cuda_base_alignment(const att_problem *p);

/* True if every row starts at a multiple of 16 bytes. */
bool att_cuda_rows_aligned(const att_problem *p);

#endif
