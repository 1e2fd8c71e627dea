/* fake_merge.h: what the merge kernel computes, on the host, from its parameters and its grid
 * alone. */
#ifndef ATT_FAKE_MERGE_H
#define ATT_FAKE_MERGE_H

#include <stdbool.h>

#include "kernels/merge_params.h"

/* Whether a kernel of this id is a merge kernel. */
bool fake_is_merge(const char *kernel);

/* Merge the rows of `blocks` blocks of `threads` threads; `wrong`: O is zeros. The kernel's id
 * gives its dtype. False if the parameters break the kernel's assumptions. */
bool fake_merge(const char *kernel, const att_merge_params *p, unsigned blocks,
                unsigned threads, bool wrong);

#endif
