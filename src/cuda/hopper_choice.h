/* hopper_choice.h: which of Hopper's tiles ends a problem soonest. */
#ifndef ATT_CUDA_HOPPER_CHOICE_H
#define ATT_CUDA_HOPPER_CHOICE_H

#include <stdbool.h>

#include "cuda/row.h"

/* Do copies of pages, if K and V come in any, fill tiles of `tile_n` keys? */
bool att_cuda_hopper_takes_pages(int tile_n, const att_problem *p);

/* NULL where the kernel's tile is the one that ends soonest, or none that the library chooses by (a user's); else the tile that
 * ends sooner, as "64 rows x 128 keys". */
const char *att_cuda_hopper_sooner(const att_cuda_kernel *kernel, const att_problem *p,
                                   int sms);

#endif
