/* moe_activation.cuh: the activations of experts, in float32. NaN stays NaN. */
#ifndef ATT_MOE_ACTIVATION_CUH
#define ATT_MOE_ACTIVATION_CUH

#include "kernels/math.cuh"
#include "kernels/moe_params.h"

DEVICE float sigmoid(float x) {
    return reciprocal_fast(1.0f + exp2_fast(-LOG2_E * x));
}

/* An odd polynomial near 0, 1 - e^q(|x|) elsewhere; the same coefficients as on the CPU. */
DEVICE float error_function(float x) {
    const float edge = 0.927734375f, t = fabsf(x), s = x * x;
    if (t <= edge) {
        float p = fmaf(-0x1.38e000p-11f, s, 0x1.471a58p-8f);
        p = fmaf(p, s, -0x1.b691b2p-6f);
        p = fmaf(p, s, 0x1.ce1c44p-4f);
        p = fmaf(p, s, -0x1.812700p-2f);
        p = fmaf(p, s, 0x1.06eba8p-3f);
        return fmaf(p, x, x);
    }
    float q = fmaf(-0x1.220000p-16f, t, 0x1.91cfb2p-12f);
    q = fmaf(q, s, fmaf(-0x1.fd1438p-9f, t, 0x1.8d6342p-6f));
    q = fmaf(q, t, -0x1.b55cb8p-4f);
    q = fmaf(q, t, -0x1.450aa0p-1f);
    q = fmaf(q, t, -0x1.079d0cp-3f);
    q = fmaf(q, t, -t);
    const float far = 1.0f - exp2_fast(LOG2_E * q);
    return x < 0.0f ? -far : far;
}

DEVICE float gelu(float x) {
    return 0.5f * x * (1.0f + error_function(0.70710678f * x));
}

/* (1 + tanh z) / 2 is the sigmoid of 2 z. */
DEVICE float gelu_tanh(float x) {
    return x * sigmoid(1.59576912f * fmaf(0.044715f * x * x, x, x));
}

DEVICE float swiglu(float g, float u) {
    return g * sigmoid(g) * u;
}

/* Comparisons, because fminf and fmaxf would drop a NaN. */
DEVICE float swiglu_clamped(float g, float u, float alpha, float limit) {
    const float gate = g > limit ? limit : g, up = u > limit ? limit : u < -limit ? -limit : u;
    return (up + 1.0f) * (gate * sigmoid(alpha * gate));
}

/* u is ignored if there is no gate. */
DEVICE float activate(const att_moe_params *p, float g, float u) {
    switch (p->activation) {
    case ATT_MOE_ACT_SWIGLU:
        return swiglu(g, u);
    case ATT_MOE_ACT_GEGLU:
        return gelu(g) * u;
    case ATT_MOE_ACT_GEGLU_TANH:
        return gelu_tanh(g) * u;
    case ATT_MOE_ACT_CLAMPED:
        return swiglu_clamped(g, u, p->alpha, p->limit);
    case ATT_MOE_ACT_RELU2:
        return g < 0.0f ? 0.0f : g * g;
    case ATT_MOE_ACT_SILU:
        return g * sigmoid(g);
    case ATT_MOE_ACT_GELU:
        return gelu(g);
    default:
        return gelu_tanh(g);
    }
}

#endif
