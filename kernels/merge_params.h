/* merge_params.h: what the host passes to the merge kernel, by value. Read by C11 and by CUDA C, by NVRTC too. */
#ifndef ATT_MERGE_PARAMS_H
#define ATT_MERGE_PARAMS_H

#include "kernels/fwd_params.h"

enum { ATT_MERGE_PARTS = 128 };

typedef struct att_merge_params {
    void *o;
    float *lse; /* NULL: not asked for */
    att_fwd_strides part_o_stride, part_lse_stride, o_stride, lse_stride;
    long long rows; /* batch * heads * seq */
    /* Rows are taken in the order in which they lie in memory: where heads lie closer together than rows, `seq` and the strides
     * of rows are those of the heads, and the other way round. */
    int seq, heads, d;
    int parts;
    int dtype_o;   /* ATT_FWD_F32 ... */
    int row_lanes; /* threads of a row: a power of two from 4 to 32 */
    int vector;    /* 1: every row of every tensor starts at a multiple of 16 bytes, and d is whole vectors */
    att_fwd_divisor by_seq, by_heads;
    const void *part_o[ATT_MERGE_PARTS];
    const float *part_lse[ATT_MERGE_PARTS];
} att_merge_params;

#endif
