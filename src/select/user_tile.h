/* user_tile.h: the tiles that a user's row may ask for. */
#ifndef ATT_SELECT_USER_TILE_H
#define ATT_SELECT_USER_TILE_H

#include <stddef.h>

#include "cuda/family.h"

/* Rows, keys, stages and warps. False where the source of `base` (NULL: not known yet, most of them) cannot be compiled at
 * them; `why` then says what it asks for. */
bool att_user_tile_fits(const att_cuda_kernel *base, const int tile[4], char *why, size_t n);

#endif
