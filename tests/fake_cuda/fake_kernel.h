/* fake_kernel.h: a fake driver can simulate a GPU that computes, with different speeds for
 * different code.
 *
 * With FAKE_CUDA_COMPUTES=1 in the environment every launch of a forward or merge kernel
 * computes its problem on the host, and a simulated clock advances by the kernel's duration.
 * Code from the fake compiler consists of its flags: its duration follows from them. With
 * FAKE_CUDA_WRONG=FLAG, code that was compiled with that flag returns zeros. */
#ifndef ATT_FAKE_KERNEL_H
#define ATT_FAKE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/fwd_params.h"

/* Whether the environment asks for it. */
bool fake_computes(void);

/* Microseconds per launch of this code; machine code that is not text takes 200. The best
 * possible, m64n64s3w4 with every switch on, takes 180. */
double fake_duration(const char *code);

/* Rows and keys of a tile, if the code is compiled from fwd_sm90; else 0 and 0. */
void fake_hopper_tile(const char *code, int tile[2]);

/* Whether FAKE_CUDA_WRONG names this code. */
bool fake_is_wrong(const char *code);

/* The diagonal of the first row of a batch entry, aligned to the top left. */
int fake_shift(const att_fwd_params *p, int batch);

/* Compute O and LSE: mask, window, grouped heads and lengths; no changes of the scores, no
 * pages. */
void fake_attention(const att_fwd_params *p, bool wrong);

#endif
