/* moe_words.c: the words of mixtures of experts: one handler per modifier, strides, and
 * printing. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "lab/moe/moe_lab.h"
#include "lab/moe/moe_names.h"
#include "lab/problem/spec_values.h"

void lab_moe_init(lab_spec *spec) {
    *spec = (lab_spec){.operation = &lab_operation_moe};
    att_moe_problem_init(&spec->moe.problem, 1, 64, 64, 8, 2, ATT_BF16);
}

/* ----------------------------------------------------------------- modifiers */

#define HANDLER(word)                                                                          \
    static bool set_##word(lab_spec *spec, const char *name, const char *value,                \
                           lab_message *why)

#define INTEGER_HANDLER(word, least, field)                                                    \
    HANDLER(word) {                                                                            \
        return lab_set_integer(name, value, least, &spec->moe.field, why);                     \
    }

#define FLOAT_HANDLER(word, field)                                                             \
    HANDLER(word) {                                                                            \
        return lab_set_float(name, value, &spec->moe.field, why);                              \
    }

#define NAMED_HANDLER(word, names, type, field)                                                \
    HANDLER(word) {                                                                            \
        int number;                                                                            \
        if (!lab_set_named(name, value, names, &number, why))                                  \
            return false;                                                                      \
        spec->moe.field = (type)number;                                                        \
        return true;                                                                           \
    }

#define FEATURE_HANDLER(word, field, bit)                                                      \
    HANDLER(word) {                                                                            \
        spec->moe.problem.field |= (bit);                                                      \
        return lab_set_flag(name, value, why);                                                 \
    }

#define SWITCH_HANDLER(word, field)                                                            \
    HANDLER(word) {                                                                            \
        spec->moe.field = true;                                                                \
        return lab_set_flag(name, value, why);                                                 \
    }

INTEGER_HANDLER(tokens, 0, problem.tokens)
INTEGER_HANDLER(experts, 1, problem.experts)
INTEGER_HANDLER(experts_per_token, 1, problem.experts_per_token)
INTEGER_HANDLER(hidden, 1, problem.hidden)
INTEGER_HANDLER(inner, 1, problem.inner)
INTEGER_HANDLER(pad, 0, pad)
INTEGER_HANDLER(offset, 0, offset)
FLOAT_HANDLER(scaling, problem.scaling)
FLOAT_HANDLER(alpha, problem.alpha)
FLOAT_HANDLER(limit, problem.limit)
NAMED_HANDLER(dtype, lab_dtype_names, att_dtype, problem.dtype)
NAMED_HANDLER(dtype_y, lab_dtype_names, att_dtype, dtype_y)
NAMED_HANDLER(dtype_bias, lab_dtype_names, att_dtype, dtype_bias)
NAMED_HANDLER(dtype_logits, lab_dtype_names, att_dtype, dtype_logits)
NAMED_HANDLER(activation, lab_moe_activation_names, att_moe_activation, problem.activation)
NAMED_HANDLER(routing, lab_moe_routing_names, att_moe_routing, problem.routing)
NAMED_HANDLER(gate, lab_moe_gate_names, att_moe_gate, problem.gate)
NAMED_HANDLER(data, lab_moe_data_names, lab_moe_data, data)
NAMED_HANDLER(load, lab_moe_load_names, lab_moe_load, load)
FEATURE_HANDLER(transposed, flags, ATT_MOE_TRANSPOSED)
FEATURE_HANDLER(correction, features, ATT_MOE_CORRECTION)
FEATURE_HANDLER(bias1, features, ATT_MOE_BIAS1)
FEATURE_HANDLER(bias2, features, ATT_MOE_BIAS2)
FEATURE_HANDLER(mask, features, ATT_MOE_MASK)
FEATURE_HANDLER(ids, features, ATT_MOE_IDS)
FEATURE_HANDLER(weights, features, ATT_MOE_WEIGHTS)
FEATURE_HANDLER(counts, features, ATT_MOE_COUNTS)
SWITCH_HANDLER(absurd, absurd_strides)
SWITCH_HANDLER(broadcast, broadcast)
SWITCH_HANDLER(far, far)

HANDLER(dtype_word) {
    return lab_set_flag(name, value, why) && set_dtype(spec, "dtype", name, why);
}

HANDLER(normalised) {
    spec->moe.unnormalised = strcmp(name, "nonorm") == 0;
    return lab_set_flag(name, value, why);
}

/* Two numbers, A:B. */
static bool set_two(const char *name, const char *value, int64_t least, int64_t *a, int64_t *b,
                    lab_message *why) {
    char text[64];
    char *colon = NULL;
    if (value && strlen(value) < sizeof text) {
        snprintf(text, sizeof text, "%s", value);
        colon = strpbrk(text, ":,");
    }
    if (colon)
        *colon = '\0';
    if (!colon || !lab_read_integer(text, least, a) || !lab_read_integer(colon + 1, 1, b))
        return lab_fail(why, "%s=%s is not two numbers, as in %s=8:4", name, value ? value : "",
                        name);
    return true;
}

HANDLER(groups) {
    return set_two(name, value, 1, &spec->moe.problem.groups, &spec->moe.problem.groups_kept,
                   why);
}

HANDLER(range) {
    return set_two(name, value, 0, &spec->moe.first_expert, &spec->moe.local_experts, why);
}

const lab_modifier lab_moe_modifiers[] = {
    {"t", set_tokens, true},
    {"e", set_experts, true},
    {"k", set_experts_per_token, true},
    {"h", set_hidden, true},
    {"i", set_inner, true},
    {"dtype", set_dtype, false},
    {"fp16", set_dtype_word, false},
    {"f16", set_dtype_word, false},
    {"bf16", set_dtype_word, false},
    {"f32", set_dtype_word, false},
    {"fp32", set_dtype_word, false},
    {"y", set_dtype_y, false},
    {"bias", set_dtype_bias, false},
    {"logits", set_dtype_logits, false},
    {"act", set_activation, false},
    {"alpha", set_alpha, false},
    {"limit", set_limit, false},
    {"gate", set_gate, false},
    {"transposed", set_transposed, false},
    {"route", set_routing, false},
    {"norm", set_normalised, false},
    {"nonorm", set_normalised, false},
    {"scale", set_scaling, false},
    {"correction", set_correction, false},
    {"groups", set_groups, false},
    {"b1", set_bias1, false},
    {"b2", set_bias2, false},
    {"mask", set_mask, false},
    {"range", set_range, false},
    {"ids", set_ids, false},
    {"weights", set_weights, false},
    {"counts", set_counts, false},
    {"pad", set_pad, false},
    {"offset", set_offset, false},
    {"absurd", set_absurd, false},
    {"bcast", set_broadcast, false},
    {"far", set_far, false},
    {"load", set_load, false},
    {"data", set_data, false},
    {NULL, NULL, false},
};

/* ----------------------------------------------------------------- finishing */

static const int64_t absurd = INT64_MAX / 4;

/* Strides of the weights: rows longer by `pad`, and experts as the words say. */
static bool stride_weights(const lab_moe_spec *m, int64_t rows, int64_t cols,
                           att_moe_strides *s) {
    const att_moe_problem *p = &m->problem;
    s->row = cols + m->pad;
    if (!att_mul(rows, s->row, &s->expert))
        return false;
    if (m->far)
        s->expert = att_max(s->expert, INT64_C(1) << 31);
    if (m->broadcast)
        s->expert = 0;
    if (m->absurd_strides) {
        s->expert = p->local_experts == 1 ? absurd : s->expert;
        s->row = rows == 1 ? absurd : s->row;
    }
    return true;
}

static int64_t stride_rows(const lab_moe_spec *m, int64_t rows, int64_t cols) {
    return m->absurd_strides && rows == 1 ? absurd : cols + m->pad;
}

static bool set_strides(lab_moe_spec *m) {
    att_moe_problem *p = &m->problem;
    const bool transposed = p->flags & ATT_MOE_TRANSPOSED;
    const int64_t first = att_moe_w1_rows(p), h = p->hidden, i = p->inner;
    p->x_row = p->y_row = stride_rows(m, p->tokens, h);
    p->logits_row = stride_rows(m, p->tokens, p->experts);
    p->b1_expert = m->broadcast ? 0 : stride_rows(m, p->local_experts, first);
    p->b3_expert = m->broadcast ? 0 : stride_rows(m, p->local_experts, i);
    p->b2_expert = m->broadcast ? 0 : stride_rows(m, p->local_experts, h);
    return stride_weights(m, transposed ? h : first, transposed ? first : h, &p->w1) &&
           stride_weights(m, transposed ? h : i, transposed ? i : h, &p->w3) &&
           stride_weights(m, transposed ? i : h, transposed ? h : i, &p->w2);
}

/* The alignment in bytes of the bases of x, y and the weights, given the offset. */
static int64_t alignment_of(const lab_moe_spec *m) {
    const int64_t in = (int64_t)att_dtype_size(m->problem.dtype),
                  out = (int64_t)att_dtype_size(m->problem.dtype_y);
    const int64_t shift = m->offset * in | m->offset * out;
    const int64_t least = shift & -shift;
    return shift == 0 || least >= 16 ? 0 : least;
}

bool lab_moe_finish(lab_spec *spec, lab_message *why) {
    lab_moe_spec *m = &spec->moe;
    att_moe_problem *p = &m->problem;
    const int64_t sizes[] = {p->tokens, p->hidden,           p->inner,         p->experts,
                             p->groups, m->first_expert,     m->local_experts, m->pad,
                             m->offset, p->experts_per_token};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i] > LAB_SIZE_MAX)
            return lab_fail(why, "a size of %lld is past 2^40", (long long)sizes[i]);
    if (m->data == LAB_MOE_HOLES && p->routing != ATT_MOE_GIVEN)
        return lab_fail(why, "data=holes: only route=given has ids that can be -1");
    p->dtype_y = m->dtype_y ? m->dtype_y : p->dtype;
    p->dtype_bias = m->dtype_bias ? m->dtype_bias : p->dtype;
    p->dtype_logits = m->dtype_logits ? m->dtype_logits : ATT_F32;
    p->first_expert = m->local_experts ? m->first_expert : 0;
    p->local_experts = m->local_experts ? m->local_experts : p->experts;
    p->flags &= ~(uint32_t)ATT_MOE_RENORMALISE;
    if (!m->unnormalised && p->routing != ATT_MOE_GIVEN)
        p->flags |= ATT_MOE_RENORMALISE;
    if (!set_strides(m))
        return lab_fail(why, "a tensor's size in elements does not fit 63 bits");
    p->alignment = alignment_of(m);
    return true;
}

/* ------------------------------------------------------------------ printing */

/* A line under construction. */
typedef struct line {
    char *buf;
    size_t n, used;
} line;

__attribute__((format(printf, 2, 3))) static void add(line *l, const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (l->used < l->n)
        l->used += (size_t)vsnprintf(l->buf + l->used, l->n - l->used, format, list);
    va_end(list);
}

static void add_named(line *l, const char *word, const lab_name *names, int value,
                      int usually) {
    if (value != usually)
        add(l, ",%s=%s", word, lab_name_of(names, value));
}

static void add_bit(line *l, const char *word, uint32_t value, uint32_t bit) {
    if (value & bit)
        add(l, ",%s", word);
}

static void add_number(line *l, const char *word, int64_t value) {
    if (value)
        add(l, ",%s=%lld", word, (long long)value);
}

static void add_float(line *l, const char *word, float value, float usually) {
    if (value != usually)
        add(l, ",%s=%.9g", word, (double)value);
}

static void add_storage(line *l, const lab_moe_spec *m) {
    const att_moe_problem *p = &m->problem;
    add_named(l, "gate", lab_moe_gate_names, (int)p->gate, ATT_MOE_CONCATENATED);
    add_bit(l, "transposed", p->flags, ATT_MOE_TRANSPOSED);
    add_bit(l, "b1", p->features, ATT_MOE_BIAS1);
    add_bit(l, "b2", p->features, ATT_MOE_BIAS2);
    if (m->dtype_bias && m->dtype_bias != p->dtype)
        add(l, ",bias=%s", lab_name_of(lab_dtype_names, (int)m->dtype_bias));
    if (m->local_experts)
        add(l, ",range=%lld:%lld", (long long)m->first_expert, (long long)m->local_experts);
    add_number(l, "pad", m->pad);
    add_number(l, "offset", m->offset);
    add(l, "%s%s%s", m->absurd_strides ? ",absurd" : "", m->broadcast ? ",bcast" : "",
        m->far ? ",far" : "");
}

static void add_routing(line *l, const lab_moe_spec *m) {
    const att_moe_problem *p = &m->problem;
    add_named(l, "route", lab_moe_routing_names, (int)p->routing, ATT_MOE_SOFTMAX_TOPK);
    if (m->unnormalised)
        add(l, ",nonorm");
    add_float(l, "scale", p->scaling, 1.0f);
    add_bit(l, "correction", p->features, ATT_MOE_CORRECTION);
    if (p->groups != 1 || p->groups_kept != 1)
        add(l, ",groups=%lld:%lld", (long long)p->groups, (long long)p->groups_kept);
    if (m->dtype_logits && m->dtype_logits != ATT_F32)
        add(l, ",logits=%s", lab_name_of(lab_dtype_names, (int)m->dtype_logits));
    add_bit(l, "mask", p->features, ATT_MOE_MASK);
    add_bit(l, "ids", p->features, ATT_MOE_IDS);
    add_bit(l, "weights", p->features, ATT_MOE_WEIGHTS);
    add_bit(l, "counts", p->features, ATT_MOE_COUNTS);
}

void lab_moe_print(const lab_spec *spec, char *buf, size_t n) {
    const lab_moe_spec *m = &spec->moe;
    const att_moe_problem *p = &m->problem;
    line l = {buf, n, 0};
    add(&l, "t%llde%lldk%lldh%lldi%lld,%s", (long long)p->tokens, (long long)p->experts,
        (long long)p->experts_per_token, (long long)p->hidden, (long long)p->inner,
        lab_name_of(lab_dtype_names, (int)p->dtype));
    if (m->dtype_y && m->dtype_y != p->dtype)
        add(&l, ",y=%s", lab_name_of(lab_dtype_names, (int)m->dtype_y));
    add_named(&l, "act", lab_moe_activation_names, (int)p->activation, ATT_MOE_SWIGLU);
    add_float(&l, "alpha", p->alpha, 1.702f);
    add_float(&l, "limit", p->limit, 7.0f);
    add_storage(&l, m);
    add_routing(&l, m);
    add_named(&l, "load", lab_moe_load_names, (int)m->load, LAB_MOE_EVEN);
    add_named(&l, "data", lab_moe_data_names, (int)m->data, LAB_MOE_NORMAL);
}
