/* problems.h: the small problems that many tests start from. */
#ifndef TESTS_SUPPORT_PROBLEMS_H
#define TESTS_SUPPORT_PROBLEMS_H

#include "attest.h"

/* batch 2, 4 query heads over 2, 5 rows, 7 keys, d 8 and 6; every number differs from every
 * other that it could be confused with. `features` sets the fields it needs: contiguous float32
 * bias, packed totals 9 and 13, pages of 4 keys, bottom-right alignment for ALiBi. */
att_problem problem_with(uint32_t features, att_dtype dtype);

/* One batch entry, one head, d_qk = d_v = d. */
att_problem problem_single(int64_t seq_q, int64_t seq_k, int64_t d, att_dtype dtype);

#endif
