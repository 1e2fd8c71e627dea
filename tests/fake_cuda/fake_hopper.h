/* fake_hopper.h: what fwd_sm90 computes, from its parameters alone: tile by tile, with Q, K, V
 * and O accessed through their tensor maps. */
#ifndef ATT_FAKE_HOPPER_H
#define ATT_FAKE_HOPPER_H

#include <stdbool.h>

#include "kernels/fwd_sm90_params.h"

/* `tile_m` rows and `tile_n` keys per tile. False if the parameters break the kernel's
 * assumptions. No softcap, ALiBi, bias or sinks. */
bool fake_hopper_attention(const att_fwd_sm90_params *p, int tile_m, int tile_n, bool wrong);

#endif
