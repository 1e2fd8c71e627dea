/* attention_words.c: the words of attention problems: one handler per modifier. */
#include "lab/attention/attention_lab.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/problem/spec_names.h"
#include "lab/problem/spec_values.h"

void lab_attention_init(lab_spec *spec) {
    *spec = (lab_spec){
        .operation = &lab_operation_attention,
        .problem = {.size = sizeof(att_problem),
                    .dtype = ATT_F16,
                    .batch = 1,
                    .heads_q = 1,
                    .seq_q = 1,
                    .d_qk = 64,
                    .window_left = -1,
                    .window_right = -1,
                    .bias_dtype = ATT_F32},
        .heads_kv = -1,
        .seq_k = -1,
        .d_v = -1,
        .bias_col = 1,
    };
}

/* ------------------------------------------------------------------- values */

static bool set_list(const char *name, const char *value, lab_lens *lens, lab_message *why) {
    if (!value) {
        lens->mode = LAB_LENS_DRAWN;
        return true;
    }
    lens->mode = LAB_LENS_LISTED;
    lens->count = 0;
    for (const char *at = value;; at++) {
        char *end;
        errno = 0;
        const long length = strtol(at, &end, 10);
        if (end == at || errno != 0 || length < 0 || length > INT32_MAX ||
            (*end != '\0' && *end != ':' && *end != ','))
            return lab_fail(why, "%s=%s is not a list of lengths, as in %s=5:0:17", name, value,
                            name);
        if (lens->count == LAB_LENS_MAX)
            return lab_fail(why, "%s lists more than %d lengths", name, LAB_LENS_MAX);
        lens->list[lens->count++] = (int32_t)length;
        at = end;
        if (*at == '\0')
            return true;
    }
}

static void add_feature(lab_spec *spec, unsigned feature) {
    spec->problem.features |= feature;
}

/* ---------------------------------------------------------------- modifiers */

#define HANDLER(word)                                                                          \
    static bool set_##word(lab_spec *spec, const char *name, const char *value,                \
                           lab_message *why)

#define INTEGER_HANDLER(word, least, field)                                                    \
    HANDLER(word) {                                                                            \
        return lab_set_integer(name, value, least, &spec->field, why);                         \
    }

INTEGER_HANDLER(batch, 0, problem.batch)
INTEGER_HANDLER(heads_q, 0, problem.heads_q)
INTEGER_HANDLER(heads_kv, 0, heads_kv)
INTEGER_HANDLER(seq_q, 0, problem.seq_q)
INTEGER_HANDLER(seq_k, 0, seq_k)
INTEGER_HANDLER(d_qk, 0, problem.d_qk)
INTEGER_HANDLER(d_v, 0, d_v)
INTEGER_HANDLER(pad, 0, pad)
INTEGER_HANDLER(offset, 0, offset)
INTEGER_HANDLER(bias_col, 1, bias_col)
INTEGER_HANDLER(q_offset, 0, problem.q_offset)
INTEGER_HANDLER(k_offset, 0, problem.k_offset)

HANDLER(dtype) {
    int dtype = 0;
    if (!lab_set_named(name, value, lab_dtype_names, &dtype, why))
        return false;
    spec->problem.dtype = (att_dtype)dtype;
    return true;
}

HANDLER(dtype_word) { /* `bf16` alone */
    return lab_set_flag(name, value, why) && set_dtype(spec, "dtype", name, why);
}

HANDLER(dtype_o) {
    int dtype = 0;
    if (!lab_set_named(name, value, lab_dtype_names, &dtype, why))
        return false;
    spec->dtype_o = (att_dtype)dtype;
    return true;
}

HANDLER(causal) {
    int causal = ATT_CAUSAL_TOP_LEFT;
    spec->causal_plain = value == NULL;
    if (value && !lab_set_named(name, value, lab_causal_names, &causal, why))
        return false;
    spec->problem.causal = (att_causal)causal;
    return true;
}

HANDLER(align) {
    int align = 0;
    if (!lab_set_named(name, value, lab_align_names, &align, why))
        return false;
    spec->problem.align = (att_align)align;
    return true;
}

HANDLER(window) {
    int64_t side[2] = {0, 0};
    char text[64];
    char *comma = NULL;
    if (value && strlen(value) < sizeof text) {
        snprintf(text, sizeof text, "%s", value);
        comma = strpbrk(text, ":,");
    }
    if (comma)
        *comma = '\0';
    if (!comma || !lab_read_integer(text, -1, &side[0]) ||
        !lab_read_integer(comma + 1, -1, &side[1]))
        return lab_fail(why, "%s=%s is not LEFT:RIGHT, two counts of keys, -1 for no limit",
                        name, value ? value : "");
    spec->problem.window_left = side[0];
    spec->problem.window_right = side[1];
    return true;
}

HANDLER(scale) {
    spec->scale_given = true;
    return lab_set_float(name, value, &spec->problem.scale, why);
}

HANDLER(softcap) {
    return lab_set_float(name, value, &spec->problem.softcap, why);
}

HANDLER(alibi) {
    if (value && strcmp(value, "b") != 0 && strcmp(value, "h") != 0)
        return lab_fail(why, "%s=%s is none of: h, b", name, value);
    spec->alibi_per_batch = value && *value == 'b';
    add_feature(spec, ATT_ALIBI);
    return true;
}

HANDLER(bias) {
    add_feature(spec, ATT_BIAS);
    memset(spec->bias_broadcast, 0, sizeof spec->bias_broadcast);
    if (!value)
        return true;
    char type[16];
    const char *colon = strchr(value, ':');
    const size_t length = colon ? (size_t)(colon - value) : strlen(value);
    snprintf(type, sizeof type, "%.*s", (int)length, value);
    int dtype = 0;
    if (!lab_set_named(name, type, lab_bias_dtype_names, &dtype, why))
        return false;
    spec->problem.bias_dtype = (att_dtype)dtype;
    if (!colon)
        return true;
    static const char letters[] = "bhqk";
    const char *dims = colon + 1;
    bool good = strlen(dims) == 4;
    for (int i = 0; good && i < 4; i++) {
        good = dims[i] == letters[i] || dims[i] == '1';
        spec->bias_broadcast[i] = dims[i] == '1';
    }
    return good || lab_fail(why, "%s=%s: after the colon comes bhqk, 1 for a broadcast letter",
                            name, value);
}

HANDLER(bias_fill) {
    int fill = 0;
    if (!lab_set_named(name, value, lab_bias_fill_names, &fill, why))
        return false;
    spec->bias_fill = (lab_bias_fill)fill;
    return true;
}

HANDLER(sinks) {
    add_feature(spec, ATT_SINKS);
    return lab_set_flag(name, value, why);
}

HANDLER(lse) {
    add_feature(spec, ATT_LSE);
    return lab_set_flag(name, value, why);
}

HANDLER(cu_q) {
    add_feature(spec, ATT_CU_SEQLENS_Q);
    return set_list(name, value, &spec->cu_q, why);
}

HANDLER(cu_k) {
    add_feature(spec, ATT_CU_SEQLENS_K);
    return set_list(name, value, &spec->cu_k, why);
}

HANDLER(varlen) {
    return lab_set_flag(name, value, why) && set_cu_q(spec, name, NULL, why) &&
           set_cu_k(spec, name, NULL, why);
}

HANDLER(lens) {
    if (!value)
        return lab_fail(why, "lens needs a list, as in lens=5:0:17; varlen draws the lengths");
    return set_cu_q(spec, name, value, why) && set_cu_k(spec, name, value, why);
}

HANDLER(lens_k) {
    add_feature(spec, ATT_LENS_K);
    return set_list(name, value, &spec->lens_k, why);
}

HANDLER(starts_k) {
    add_feature(spec, ATT_STARTS_K);
    return set_list(name, value, &spec->starts_k, why);
}

HANDLER(q_offsets) {
    add_feature(spec, ATT_Q_OFFSETS);
    return set_list(name, value, &spec->q_offsets, why);
}

HANDLER(k_offsets) {
    add_feature(spec, ATT_K_OFFSETS);
    return set_list(name, value, &spec->k_offsets, why);
}

HANDLER(lens_seed) {
    int64_t seed = 0;
    if (!lab_set_integer(name, value, 0, &seed, why))
        return false;
    spec->lens_seed = (uint64_t)seed;
    return true;
}

HANDLER(paged) {
    add_feature(spec, ATT_PAGED);
    return lab_set_integer(name, value, 1, &spec->problem.page_size, why);
}

HANDLER(layout) {
    int layout = 0;
    if (!lab_set_named(name, value, lab_layout_names, &layout, why))
        return false;
    spec->layout = (lab_layout)layout;
    return true;
}

HANDLER(broadcast) {
    if (!value || *value == '\0' || strspn(value, "bh") != strlen(value))
        return lab_fail(why, "%s=%s is none of: b, h, bh", name, value ? value : "");
    spec->broadcast_batch = strchr(value, 'b') != NULL;
    spec->broadcast_heads = strchr(value, 'h') != NULL;
    return true;
}

HANDLER(absurd) {
    spec->absurd_strides = true;
    return lab_set_flag(name, value, why);
}

HANDLER(data) {
    int data = 0;
    if (!lab_set_named(name, value, lab_data_names, &data, why))
        return false;
    spec->data = (lab_data)data;
    return true;
}

const lab_modifier lab_attention_modifiers[] = {
    {"b", set_batch, true},
    {"h", set_heads_q, true},
    {"hq", set_heads_q, true},
    {"hkv", set_heads_kv, true},
    {"s", set_seq_q, true},
    {"sq", set_seq_q, true},
    {"sk", set_seq_k, true},
    {"d", set_d_qk, true},
    {"dv", set_d_v, true},
    {"dtype", set_dtype, false},
    {"fp16", set_dtype_word, false},
    {"f16", set_dtype_word, false},
    {"bf16", set_dtype_word, false},
    {"f32", set_dtype_word, false},
    {"fp32", set_dtype_word, false},
    {"o", set_dtype_o, false},
    {"causal", set_causal, false},
    {"align", set_align, false},
    {"window", set_window, false},
    {"scale", set_scale, false},
    {"softcap", set_softcap, false},
    {"alibi", set_alibi, false},
    {"bias", set_bias, false},
    {"biasfill", set_bias_fill, false},
    {"biascol", set_bias_col, false},
    {"sinks", set_sinks, false},
    {"lse", set_lse, false},
    {"varlen", set_varlen, false},
    {"lens", set_lens, false},
    {"cuq", set_cu_q, false},
    {"cuk", set_cu_k, false},
    {"lensk", set_lens_k, false},
    {"startsk", set_starts_k, false},
    {"qoffset", set_q_offset, false},
    {"koffset", set_k_offset, false},
    {"qoffsets", set_q_offsets, false},
    {"koffsets", set_k_offsets, false},
    {"lenseed", set_lens_seed, false},
    {"paged", set_paged, false},
    {"layout", set_layout, false},
    {"pad", set_pad, false},
    {"offset", set_offset, false},
    {"bcast", set_broadcast, false},
    {"absurd", set_absurd, false},
    {"data", set_data, false},
    {NULL, NULL, false},
};
