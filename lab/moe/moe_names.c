/* moe_names.c: the names in words of mixtures of experts. */
#include "lab/moe/moe_names.h"

#include <stddef.h>

#include "lab/problem/spec.h"

const lab_name lab_moe_activation_names[] = {{"swiglu", ATT_MOE_SWIGLU},
                                             {"geglu", ATT_MOE_GEGLU},
                                             {"geglu-tanh", ATT_MOE_GEGLU_TANH},
                                             {"swiglu-clamped", ATT_MOE_SWIGLU_CLAMPED},
                                             {"relu2", ATT_MOE_RELU2},
                                             {"silu", ATT_MOE_SILU},
                                             {"gelu", ATT_MOE_GELU},
                                             {"gelu-tanh", ATT_MOE_GELU_TANH},
                                             {NULL, 0}};

const lab_name lab_moe_routing_names[] = {{"softmax", ATT_MOE_SOFTMAX_TOPK},
                                          {"topk", ATT_MOE_TOPK_SOFTMAX},
                                          {"sigmoid", ATT_MOE_SIGMOID},
                                          {"given", ATT_MOE_GIVEN},
                                          {NULL, 0}};

const lab_name lab_moe_gate_names[] = {{"concatenated", ATT_MOE_CONCATENATED},
                                       {"apart", ATT_MOE_APART},
                                       {"interleaved", ATT_MOE_INTERLEAVED},
                                       {NULL, 0}};

const lab_name lab_moe_data_names[] = {
    {"normal", LAB_MOE_NORMAL}, {"equal", LAB_MOE_EQUAL},
    {"ties", LAB_MOE_TIES},     {"inf", LAB_MOE_INF},
    {"nan", LAB_MOE_NAN},       {"large", LAB_MOE_LARGE},
    {"zero", LAB_MOE_ZERO},     {"denormal", LAB_MOE_DENORMAL},
    {"holes", LAB_MOE_HOLES},   {NULL, 0}};

const lab_name lab_moe_load_names[] = {{"even", LAB_MOE_EVEN},
                                       {"zipf", LAB_MOE_ZIPF},
                                       {"one", LAB_MOE_ONE},
                                       {"few", LAB_MOE_FEW},
                                       {NULL, 0}};
