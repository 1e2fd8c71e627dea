/* tile_fits.h: the tiles that a user's row may request: rows, keys, stages and warps for which
 * its source can be compiled. If they do not fit, `why` says what is required. */
#ifndef ATT_ATTENTION_TILE_FITS_H
#define ATT_ATTENTION_TILE_FITS_H

#include <stdbool.h>
#include <stddef.h>

bool att_cuda_tile_fits_blocks(const int tile[4], char *why, size_t n); /* fwd_sm80 */
bool att_cuda_tile_fits_f32(const int tile[4], char *why, size_t n);    /* fwd_sm80_f32 */
bool att_cuda_tile_fits_hopper(const int tile[4], char *why, size_t n); /* fwd_sm90 */
bool att_cuda_tile_fits_small(const int tile[4], char *why, size_t n);  /* fwd_sm90_small */

#endif
