/* spec_names.c: the words of specs. */
#include "lab/problem/spec_names.h"

#include <stddef.h>

#include "attest.h"
#include "lab/problem/spec.h"

const lab_name lab_dtype_names[] = {{"fp16", ATT_F16}, {"bf16", ATT_BF16}, {"f32", ATT_F32},
                                    {"f16", ATT_F16},  {"fp32", ATT_F32},  {NULL, 0}};

const lab_name lab_bias_dtype_names[] = {
    {"f32", ATT_F32},  {"fp16", ATT_F16},   {"bf16", ATT_BF16}, {"f16", ATT_F16},
    {"fp32", ATT_F32}, {"bool", ATT_BOOL8}, {NULL, 0}};

const lab_name lab_causal_names[] = {{"none", ATT_CAUSAL_NONE},
                                     {"top-left", ATT_CAUSAL_TOP_LEFT},
                                     {"bottom-right", ATT_CAUSAL_BOTTOM_RIGHT},
                                     {NULL, 0}};

const lab_name lab_align_names[] = {
    {"top-left", ATT_ALIGN_TOP_LEFT}, {"bottom-right", ATT_ALIGN_BOTTOM_RIGHT}, {NULL, 0}};

const lab_name lab_layout_names[] = {
    {"bshd", LAB_BSHD}, {"bhsd", LAB_BHSD}, {"packed", LAB_PACKED}, {NULL, 0}};

const lab_name lab_data_names[] = {{"normal", LAB_DATA_NORMAL},
                                   {"huge", LAB_DATA_HUGE},
                                   {"onehot", LAB_DATA_ONEHOT},
                                   {"equal", LAB_DATA_EQUAL},
                                   {"denormal", LAB_DATA_DENORMAL},
                                   {"zero", LAB_DATA_ZERO},
                                   {"ramp", LAB_DATA_RAMP},
                                   {"shift", LAB_DATA_SHIFT},
                                   {"nan-masked", LAB_DATA_NAN_MASKED},
                                   {"huge-masked", LAB_DATA_HUGE_MASKED},
                                   {"nan-visible", LAB_DATA_NAN_VISIBLE},
                                   {"inf-v", LAB_DATA_INF_V},
                                   {"overflow", LAB_DATA_OVERFLOW},
                                   {"sparse", LAB_DATA_SPARSE},
                                   {NULL, 0}};

const lab_name lab_bias_fill_names[] = {
    {"normal", LAB_BIAS_NORMAL},       {"hide", LAB_BIAS_HIDE},
    {"hide-rows", LAB_BIAS_HIDE_ROWS}, {"+inf", LAB_BIAS_POSITIVE_INF},
    {"clear", LAB_BIAS_CLEAR},         {"tenth", LAB_BIAS_TENTH},
    {"padding", LAB_BIAS_PADDING},     {"padded-causal", LAB_BIAS_PADDED_CAUSAL},
    {"prefix", LAB_BIAS_PREFIX},       {"documents", LAB_BIAS_DOCUMENTS},
    {"blocks", LAB_BIAS_BLOCKS},       {NULL, 0}};

const lab_name lab_d_o_names[] = {{"normal", LAB_D_O_NORMAL},
                                  {"tiny", LAB_D_O_TINY},
                                  {"huge", LAB_D_O_HUGE},
                                  {"zero", LAB_D_O_ZERO},
                                  {NULL, 0}};

const char *lab_name_of(const lab_name *names, int value) {
    for (; names->text; names++)
        if (names->value == value)
            return names->text;
    return "?";
}
