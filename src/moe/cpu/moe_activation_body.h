/* moe_activation_body.h: the activations in float32, over the vf of the including file. NaN
 * stays NaN. */
#ifndef ATT_MOE_CPU_ACTIVATION_BODY_H
#define ATT_MOE_CPU_ACTIVATION_BODY_H

#include "attest.h"
#include "cpu/math_body.h"

/* Uses e^-|x|, which never overflows: 1 / (1 + e) above 0, e / (1 + e) below. */
VF_INLINE vf vf_sigmoid(vf x) {
    const vf one = vf_set1(1.0f);
    const vf e = vf_exp2(vf_mul(vf_set1(-LOG2E), vf_abs(x)), 5);
    const vf above = vf_unless_at_most(one, x, 0.0f);
    const vf numerator = vf_add(above, vf_sub(e, vf_mul(e, above)));
    return vf_div(numerator, vf_add(one, e));
}

/* Accurate to 1.1 ulp: an odd polynomial below EDGE, 1 - e^q(|x|) above it. */
VF_INLINE vf vf_erf(vf x) {
    const float edge = 0.927734375f;
    const vf t = vf_abs(x), s = vf_mul(x, x);
    vf q = vf_fma(vf_set1(-0x1.220000p-16f), t, vf_set1(0x1.91cfb2p-12f));
    q = vf_fma(q, s, vf_fma(vf_set1(-0x1.fd1438p-9f), t, vf_set1(0x1.8d6342p-6f)));
    q = vf_fma(q, t, vf_set1(-0x1.b55cb8p-4f));
    q = vf_fma(q, t, vf_set1(-0x1.450aa0p-1f));
    q = vf_fma(q, t, vf_set1(-0x1.079d0cp-3f));
    q = vf_fma(q, t, vf_sub(vf_set1(0.0f), t));
    const vf tail = vf_exp2(vf_mul(q, vf_set1(LOG2E)), 5);
    const vf large = vf_copysign(vf_sub(vf_set1(1.0f), tail), x);
    const vf near = vf_min(vf_set1(1.0f), vf_max(vf_set1(-1.0f), x)), r = vf_mul(near, near);
    vf p = vf_fma(vf_set1(-0x1.38e000p-11f), r, vf_set1(0x1.471a58p-8f));
    p = vf_fma(p, r, vf_set1(-0x1.b691b2p-6f));
    p = vf_fma(p, r, vf_set1(0x1.ce1c44p-4f));
    p = vf_fma(p, r, vf_set1(-0x1.812700p-2f));
    p = vf_fma(p, r, vf_set1(0x1.06eba8p-3f));
    const vf small = vf_fma(p, near, near);
    return vf_add(vf_unless_at_most(large, t, edge),
                  vf_sub(small, vf_unless_at_most(small, t, edge)));
}

VF_INLINE vf vf_gelu(vf x) {
    const vf erf = vf_erf(vf_mul(x, vf_set1(0.70710678f)));
    return vf_mul(vf_mul(vf_set1(0.5f), x), vf_add(vf_set1(1.0f), erf));
}

VF_INLINE vf vf_gelu_tanh(vf x) {
    const vf cube = vf_mul(vf_mul(x, x), x);
    const vf inside = vf_mul(vf_set1(0.79788456f), vf_fma(vf_set1(0.044715f), cube, x));
    return vf_mul(vf_mul(vf_set1(0.5f), x), vf_add(vf_set1(1.0f), vf_tanh(inside)));
}

VF_INLINE vf vf_swiglu_clamped(vf g, vf u, float alpha, float limit) {
    const vf gate = vf_min(vf_set1(limit), g);
    const vf up = vf_max(vf_set1(-limit), vf_min(vf_set1(limit), u));
    const vf swish = vf_mul(gate, vf_sigmoid(vf_mul(vf_set1(alpha), gate)));
    return vf_mul(vf_add(up, vf_set1(1.0f)), swish);
}

/* u is ignored if there is no gate. */
VF_INLINE vf vf_activate(const att_moe_problem *p, vf g, vf u) {
    switch (p->activation) {
    case ATT_MOE_SWIGLU:
        return vf_mul(vf_mul(g, vf_sigmoid(g)), u);
    case ATT_MOE_GEGLU:
        return vf_mul(vf_gelu(g), u);
    case ATT_MOE_GEGLU_TANH:
        return vf_mul(vf_gelu_tanh(g), u);
    case ATT_MOE_SWIGLU_CLAMPED:
        return vf_swiglu_clamped(g, u, p->alpha, p->limit);
    case ATT_MOE_RELU2: {
        const vf positive = vf_max(vf_set1(0.0f), g);
        return vf_mul(positive, positive);
    }
    case ATT_MOE_SILU:
        return vf_mul(g, vf_sigmoid(g));
    case ATT_MOE_GELU:
        return vf_gelu(g);
    case ATT_MOE_GELU_TANH:
        return vf_gelu_tanh(g);
    }
    return g;
}

#endif
