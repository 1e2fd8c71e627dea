/* fake_kernel.h: a driver that is none can play a GPU that computes, and that some code is faster on than other.
 *
 * With FAKE_CUDA_COMPUTES=1 in the environment every launch of a forward or merge kernel computes its problem on the host, and a
 * clock of its own goes on by what the kernel would take. Code that the fake compiler made is its flags: how long it takes
 * follows from them. With FAKE_CUDA_WRONG=FLAG, code that was compiled with that flag gives zeros. */
#ifndef ATT_FAKE_KERNEL_H
#define ATT_FAKE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/fwd_params.h"

/* Does the environment ask for it? */
bool fake_computes(void);

/* Microseconds of a launch of this code; machine code that is no text takes 200. The best there is, m64n64s3w4 with every
 * switch on, takes 180. */
double fake_duration(const char *code);

/* Rows and keys of a tile, where the code is compiled from fwd_sm90; else 0 and 0. */
void fake_hopper_tile(const char *code, int tile[2]);

/* Is this code one that FAKE_CUDA_WRONG names? */
bool fake_is_wrong(const char *code);

/* Compute O and LSE: mask, window, grouped heads and lengths; no change of the scores, no pages. */
void fake_attention(const att_fwd_params *p, bool wrong);

#endif
