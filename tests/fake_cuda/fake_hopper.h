/* fake_hopper.h: what fwd_sm90 computes, from its parameters alone: tile after tile, Q, K, V and O through their tensor
 * maps. */
#ifndef ATT_FAKE_HOPPER_H
#define ATT_FAKE_HOPPER_H

#include <stdbool.h>

#include "kernels/fwd_sm90_params.h"

/* `tile_m` rows a tile, `tile_n` keys. False where the parameters are not what the kernel counts on. No softcap, ALiBi, bias
 * or sinks. */
bool fake_hopper_attention(const att_fwd_sm90_params *p, int tile_m, int tile_n, bool wrong);

#endif
