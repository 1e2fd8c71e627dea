/* merge_params.h: what the host passes to the merge kernel, by value. Read by C11 and by CUDA C, by NVRTC too. */
#ifndef ATT_MERGE_PARAMS_H
#define ATT_MERGE_PARAMS_H

#include "kernels/fwd_params.h"

enum { ATT_MERGE_PARTS = 128 };

/* Up to FEW parts have fewer threads per row, with FEW_VECTORS vectors each. */
enum { ATT_MERGE_FEW = 2, ATT_MERGE_FEW_VECTORS = 2 };

typedef struct att_merge_params {
    void *o;
    float *lse; /* NULL: not asked for */
    /* The rows of a block follow each other along one axis, `near`, the positions or the heads; `far` is the other one. The strides
     * have near's in `row` and far's in `head`. Blocks go through memory in order: along `inner` first, which is far, or the tiles that
     * near has. */
    att_fwd_strides part_o_stride, part_lse_stride, o_stride, lse_stride;
    int near, inner, outer;
    int far_inside; /* 1: inner is far, outer the tiles; 0: the other way round */
    int d;
    int parts;
    int dtype_o;    /* ATT_FWD_F32 ... */
    int lanes_log2; /* threads of a row, 4 to 32 */
    int vector;     /* 1: every row of every tensor starts at a multiple of 16 bytes, and d is whole vectors */
    int few;        /* 1: vector, at most ATT_MERGE_FEW parts, dtype_o is theirs, and their threads have all of a row */
    att_fwd_divisor by_inner, by_outer;
    const void *part_o[ATT_MERGE_PARTS];
    const float *part_lse[ATT_MERGE_PARTS];
} att_merge_params;

#endif
