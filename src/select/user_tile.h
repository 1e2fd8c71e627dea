/* user_tile.h: the tiles that a user's row may ask for. */
#ifndef ATT_SELECT_USER_TILE_H
#define ATT_SELECT_USER_TILE_H

#include <stddef.h>

#include "cuda/family.h"

/* Rows, keys, stages and warps. False where kernels of the family cannot be compiled at them; `why` then says what they ask for. */
bool att_user_tile_fits(att_cuda_family family, const int tile[4], char *why, size_t n);

#endif
