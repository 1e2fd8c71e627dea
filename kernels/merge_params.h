/* merge_params.h: parameters that the host passes by value to the merge kernel. Read as C11, as
 * CUDA C and by NVRTC. */
#ifndef ATT_MERGE_PARAMS_H
#define ATT_MERGE_PARAMS_H

#include "kernels/fwd_params.h"

enum { ATT_MERGE_PARTS = 128 };

/* With up to FEW parts there are fewer threads per row, with FEW_VECTORS vectors each. */
enum { ATT_MERGE_FEW = 2, ATT_MERGE_FEW_VECTORS = 2 };

typedef struct att_merge_params {
    void *o;
    float *lse; /* NULL: not requested */
    /* The rows of a block are consecutive along one axis, `near`: the positions or the heads.
     * `far` is the other one. The strides have near's in `row` and far's in `head`. Blocks go
     * through memory in order: along `inner` first, which is far, or the tiles of near. */
    att_fwd_strides part_o_stride, part_lse_stride, o_stride, lse_stride;
    int near, inner, outer;
    int far_inside; /* 1: inner is far, outer the tiles; 0: the reverse */
    int d;
    int parts;
    int dtype_o;    /* ATT_FWD_F32 ... */
    int lanes_log2; /* threads per row, 4 to 32 */
    int vector;     /* 1: all rows are whole vectors at multiples of 16 bytes */
    int few;        /* 1: vector, few parts of dtype_o, and their threads cover a row */
    att_fwd_divisor by_inner, by_outer;
    const void *part_o[ATT_MERGE_PARTS];
    const float *part_lse[ATT_MERGE_PARTS];
} att_merge_params;

#endif
