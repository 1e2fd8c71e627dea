/* bwd_sm90_params.h: parameters that the host passes by value to the Hopper kernels of the
 * backward pass, in one struct, whose tensor maps are at multiples of 64 bytes. Read as C11, as
 * CUDA C and by NVRTC.
 *
 * A unit is one K/V head of one batch entry; its tiles of keys are the items of work. dQ of a
 * tile of rows has several sums, one per set of key tiles: key tile n adds to set n %
 * bwd.turn_count. Sums and counters are (query head, tile of rows, set). A sum is stored in the
 * layout in which the warpgroups hold a tile. */
#ifndef ATT_BWD_SM90_PARAMS_H
#define ATT_BWD_SM90_PARAMS_H

#include "kernels/bwd_params.h"
#include "kernels/tensor_map.h"

enum { ATT_BWD_SETS_MOST = 3 };

typedef struct att_bwd_sm90_params {
    /* (column, row, head, batch entry): boxes of 64 columns and a tile of rows, or of keys */
    att_tensor_map q, d_o, k, v, d_k, d_v;
    att_bwd_params bwd;
    int units, items;    /* items = units * bwd.key_tiles */
    int finishes_inside; /* blocks out of items make d_q; otherwise bwd_sm90_finish does */
} att_bwd_sm90_params;

#endif
