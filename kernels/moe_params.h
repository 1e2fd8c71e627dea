/* moe_params.h: what the host passes to the kernels of moe, by value. Read by C11 and by CUDA C, by NVRTC too.
 *
 * A slot is a token and one of its experts: slot = token * k + j. Its position is its place among all slots sorted by expert, of
 * those experts alone whose weights are here. */
#ifndef ATT_MOE_PARAMS_H
#define ATT_MOE_PARAMS_H

#include "kernels/fwd_params.h"

/* What a launch of moe_route does: select experts and count them; sort the slots. A single block does both at once. */
enum { ATT_MOE_SELECT = 1, ATT_MOE_SORT = 2 };

/* att_moe_activation, att_moe_routing and att_moe_gate, which kernels do not see. */
enum {
    ATT_MOE_ACT_SWIGLU,
    ATT_MOE_ACT_GEGLU,
    ATT_MOE_ACT_GEGLU_TANH,
    ATT_MOE_ACT_CLAMPED,
    ATT_MOE_ACT_RELU2,
    ATT_MOE_ACT_SILU,
    ATT_MOE_ACT_GELU,
    ATT_MOE_ACT_GELU_TANH
};
enum { ATT_MOE_BY_SOFTMAX_TOPK, ATT_MOE_BY_TOPK_SOFTMAX, ATT_MOE_BY_SIGMOID, ATT_MOE_BY_CALLER };
enum { ATT_MOE_GATE_THEN_UP, ATT_MOE_GATE_APART, ATT_MOE_GATE_BY_TURNS };

/* How a product finds its weights. */
enum {
    ATT_MOE_GATED = 1,
    ATT_MOE_KN = 2,         /* stored as (depth, columns): ATT_MOE_TRANSPOSED of the header */
    ATT_MOE_VECTOR_X = 4,   /* rows of x are whole vectors of 16 bytes, at multiples of 16 bytes */
    ATT_MOE_VECTOR_W1 = 8,  /* so are those of w1 and w3 */
    ATT_MOE_VECTOR_W2 = 16, /* and of w2 */
    ATT_MOE_VECTOR_Y = 32,  /* rows of y start at multiples of four elements */
    ATT_MOE_PARTS_16 = 64   /* parts are of DTYPE, weighted */
};

/* Weights of an expert: element strides. */
typedef struct att_moe_matrix {
    const void *base;
    long long expert, row;
} att_moe_matrix;

typedef struct att_moe_params {
    const void *x, *logits;
    att_moe_matrix w1, w3, w2;
    const void *b1, *b3, *b2; /* NULL: none */
    long long b1_expert, b3_expert, b2_expert;
    const float *correction;   /* NULL: none */
    const unsigned char *mask; /* NULL: none */
    const int *given_ids;
    const float *given_weights;
    void *y;
    int *ids;       /* NULL: not asked for; so are the next two */
    float *weights;
    int *counts;

    /* Workspace. */
    int *slot_ids;       /* of every slot; -1: no expert */
    float *slot_weights;
    int *histograms;     /* (route_blocks, experts + 1): slots of an expert among a block's tokens; last, ids out of range */
    int *starts;         /* (local_experts + 1): the first position of an expert */
    int *tile_starts;    /* (local_experts + 1): its first tile of tile_rows positions */
    int *tile_experts;   /* of every tile, its expert, counted from first_expert */
    int *slot_at;        /* of every position */
    void *h;             /* (positions, h_pitch), of DTYPE; what lies past `inner` is 0 */
    void *parts;         /* (slots, part_pitch): an expert's answer for a token, float32; or, with ATT_MOE_PARTS_16, weighted and of DTYPE */

    long long x_row, y_row, logits_row, h_pitch, part_pitch;
    float scaling, alpha, limit;
    int flags; /* ATT_MOE_GATED ... */
    int activation, routing, gate;
    int renormalise;
    int dtype_y, dtype_logits, dtype_bias; /* ATT_FWD_F32 ... */
    int tokens, hidden, inner, experts, k;
    int first_expert, local_experts;
    int groups, groups_kept;

    int phases;       /* ATT_MOE_SELECT, ATT_MOE_SORT */
    int route_blocks; /* of moe_route, */
    int route_tokens; /* tokens of each, */
    int route_warps;  /* and how many of its warps have room for a token's scores */
    int tile_rows;    /* positions of a tile */
    int up_columns;   /* columns of h that a block computes, */
    int up_steps;     /* and how many blocks share a tile of positions */
    int down_steps;
} att_moe_params;

#endif
