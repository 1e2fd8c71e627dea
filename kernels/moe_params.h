/* moe_params.h: parameters that the host passes by value to the moe kernels. Read as C11, as
 * CUDA C and by NVRTC.
 *
 * A slot is a token and one of its experts: slot = token * k + j. Its position is its place
 * among all slots sorted by expert, counting only experts whose weights are on this device. */
#ifndef ATT_MOE_PARAMS_H
#define ATT_MOE_PARAMS_H

#include "kernels/fwd_params.h"

/* What a launch of moe_route does: select experts and count them; sort the slots. A single
 * block does both at once. */
enum { ATT_MOE_SELECT = 1, ATT_MOE_SORT = 2 };

/* The products for few tokens: warps per SM; steps of two columns of y that a block of the
 * second product has at most. */
enum { ATT_MOE_FEW_WARPS = 16, ATT_MOE_FEW_STEPS = 16 };

/* The values of att_moe_activation, att_moe_routing and att_moe_gate, for device code. */
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

/* att_moe_params.flags: how weights and tensors are laid out. */
enum {
    ATT_MOE_GATED = 1,
    ATT_MOE_KN = 2,         /* stored as (depth, columns): ATT_MOE_TRANSPOSED in the API */
    ATT_MOE_VECTOR_X = 4,   /* rows of x are whole 16-byte vectors at multiples of 16 bytes */
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
    int *ids;       /* NULL: not requested; likewise the next two */
    float *weights;
    int *counts;

    /* Workspace. */
    int *slot_ids;       /* per slot; -1: no expert */
    float *slot_weights;
    int *histograms;     /* (route_blocks, experts + 1): slots per expert; last, bad ids */
    int *starts;         /* (local_experts + 1): the first position of an expert */
    int *tile_starts;    /* (local_experts + 1): its first tile of tile_rows positions */
    int *tile_experts;   /* per tile, its expert, counted from first_expert */
    int *slot_at;        /* per position */
    int *counters;       /* items taken of the first and of the second product (sm_90) */
    int *few_table;      /* few tokens: how many tiles; of each, expert, count and slots */
    void *h;             /* (positions, h_pitch), of DTYPE; 0 past `inner`; few tokens: slots */
    void *parts;         /* (slots, part_pitch): float32, or as ATT_MOE_PARTS_16 says */

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
    int route_blocks; /* blocks of moe_route, */
    int route_tokens; /* tokens per block, */
    int route_warps;  /* and warps per block that have room for a token's scores */
    int tile_rows;    /* positions per tile */
    int up_columns;   /* columns of h per block, */
    int up_steps;     /* and blocks per tile of positions */
    int down_steps;
    int few_blocks; /* few tokens: blocks of the second product, */
    int few_words;  /* and words of shared memory in which a token is routed */
} att_moe_params;

#endif
