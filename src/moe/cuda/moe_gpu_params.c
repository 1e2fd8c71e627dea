/* moe_gpu_params.c: sizes, strides, enumerators and alignment of a moe problem, for its
 * kernels. */
#include "moe/cuda/moe_gpu_params.h"

#include "base/checked.h"
#include "base/dtype.h"
#include "moe/moe.h"

enum { VECTOR = 8 /* elements per 16 bytes */, QUAD = 4 };

/* The kernels have these enumerators under other names. */
_Static_assert((int)ATT_MOE_ACT_SWIGLU == (int)ATT_MOE_SWIGLU &&
                   (int)ATT_MOE_ACT_GEGLU == (int)ATT_MOE_GEGLU &&
                   (int)ATT_MOE_ACT_GEGLU_TANH == (int)ATT_MOE_GEGLU_TANH &&
                   (int)ATT_MOE_ACT_CLAMPED == (int)ATT_MOE_SWIGLU_CLAMPED &&
                   (int)ATT_MOE_ACT_RELU2 == (int)ATT_MOE_RELU2 &&
                   (int)ATT_MOE_ACT_SILU == (int)ATT_MOE_SILU &&
                   (int)ATT_MOE_ACT_GELU == (int)ATT_MOE_GELU &&
                   (int)ATT_MOE_ACT_GELU_TANH == (int)ATT_MOE_GELU_TANH,
               "activations");
_Static_assert((int)ATT_MOE_BY_SOFTMAX_TOPK == (int)ATT_MOE_SOFTMAX_TOPK &&
                   (int)ATT_MOE_BY_TOPK_SOFTMAX == (int)ATT_MOE_TOPK_SOFTMAX &&
                   (int)ATT_MOE_BY_SIGMOID == (int)ATT_MOE_SIGMOID &&
                   (int)ATT_MOE_BY_CALLER == (int)ATT_MOE_GIVEN,
               "routings");
_Static_assert((int)ATT_MOE_GATE_THEN_UP == (int)ATT_MOE_CONCATENATED &&
                   (int)ATT_MOE_GATE_APART == (int)ATT_MOE_APART &&
                   (int)ATT_MOE_GATE_BY_TURNS == (int)ATT_MOE_INTERLEAVED,
               "gates");

/* Are rows of `length` elements whole vectors, at multiples of 16 bytes? */
static bool is_whole(const att_moe_problem *p, int64_t length, int64_t row, int64_t expert) {
    return att_moe_base_alignment(p) % (VECTOR * sizeof(uint16_t)) == 0 &&
           length % VECTOR == 0 && row % VECTOR == 0 && expert % VECTOR == 0;
}

static int flags_of(const att_moe_problem *p) {
    const bool transposed = p->flags & ATT_MOE_TRANSPOSED;
    const bool gated = att_moe_is_gated(p);
    /* Gate and up in one row each begin with a vector of their own, unless they are
     * interleaved. */
    const int64_t columns = gated && p->gate == ATT_MOE_INTERLEAVED ? 2 * p->inner : p->inner;
    const bool w1 = is_whole(p, transposed ? columns : p->hidden, p->w1.row, p->w1.expert) &&
                    (!att_moe_is_apart(p) ||
                     is_whole(p, transposed ? p->inner : p->hidden, p->w3.row, p->w3.expert));
    const bool w2 = is_whole(p, transposed ? p->hidden : p->inner, p->w2.row, p->w2.expert);
    const bool y =
        att_moe_base_alignment(p) == VECTOR * sizeof(uint16_t) && p->y_row % QUAD == 0;
    return (gated ? ATT_MOE_GATED : 0) | (transposed ? ATT_MOE_KN : 0) |
           (is_whole(p, p->hidden, p->x_row, 0) ? ATT_MOE_VECTOR_X : 0) |
           (w1 ? ATT_MOE_VECTOR_W1 : 0) | (w2 ? ATT_MOE_VECTOR_W2 : 0) |
           (y ? ATT_MOE_VECTOR_Y : 0);
}

void att_moe_params_of(att_moe_params *params, const att_moe_problem *p) {
    *params = (att_moe_params){
        .w1 = {NULL, p->w1.expert, p->w1.row},
        .w3 = {NULL, p->w3.expert, p->w3.row},
        .w2 = {NULL, p->w2.expert, p->w2.row},
        .b1_expert = p->b1_expert,
        .b3_expert = p->b3_expert,
        .b2_expert = p->b2_expert,
        .x_row = p->x_row,
        .y_row = p->y_row,
        .logits_row = p->logits_row,
        .h_pitch = att_round_up(p->inner, VECTOR),
        .part_pitch = att_round_up(p->hidden, VECTOR),
        .scaling = p->scaling,
        .alpha = p->alpha,
        .limit = p->limit,
        .flags = flags_of(p),
        .activation = (int)p->activation,
        .routing = (int)p->routing,
        .gate = (int)p->gate,
        .renormalise = (p->flags & ATT_MOE_RENORMALISE) != 0,
        .dtype_y = (int)p->dtype_y,
        .dtype_logits = (int)p->dtype_logits,
        .dtype_bias = (int)p->dtype_bias,
        .tokens = (int)p->tokens,
        .hidden = (int)p->hidden,
        .inner = (int)p->inner,
        .experts = (int)p->experts,
        .k = (int)p->experts_per_token,
        .first_expert = (int)p->first_expert,
        .local_experts = (int)p->local_experts,
        .groups = (int)p->groups,
        .groups_kept = (int)p->groups_kept,
    };
}

void att_moe_params_point(att_moe_params *params, const att_moe_args *a) {
    params->x = a->x;
    params->logits = a->logits;
    params->w1.base = a->w1;
    params->w3.base = a->w3;
    params->w2.base = a->w2;
    params->b1 = a->b1;
    params->b3 = a->b3;
    params->b2 = a->b2;
    params->correction = a->correction;
    params->mask = a->mask;
    params->given_ids = a->given_ids;
    params->given_weights = a->given_weights;
    params->y = a->y;
    params->ids = a->ids;
    params->weights = a->weights;
    params->counts = a->counts;
}
