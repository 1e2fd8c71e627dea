/* merge_words.c: the words of merge problems: one handler per modifier, strides from the
 * layout, and printing. */
#include "lab/merge/merge_lab.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "lab/problem/spec_names.h"
#include "lab/problem/spec_values.h"

const lab_name lab_merge_data_names[] = {{"normal", LAB_MERGE_NORMAL},
                                         {"empty", LAB_MERGE_EMPTY},
                                         {"equal", LAB_MERGE_EQUAL},
                                         {"inf", LAB_MERGE_INF},
                                         {"nan", LAB_MERGE_NAN},
                                         {"huge", LAB_MERGE_HUGE},
                                         {NULL, 0}};

static const lab_name layouts[] = {{"bshd", LAB_BSHD}, {"bhsd", LAB_BHSD}, {NULL, 0}};

void lab_merge_init(lab_spec *spec) {
    *spec = (lab_spec){.operation = &lab_operation_merge};
    spec->merge.problem = (att_merge_problem){.size = sizeof(att_merge_problem),
                                              .features = ATT_LSE,
                                              .dtype = ATT_F16,
                                              .parts = 2,
                                              .batch = 1,
                                              .heads = 1,
                                              .seq = 1,
                                              .d = 64};
}

/* ---------------------------------------------------------------- modifiers */

#define HANDLER(word)                                                                          \
    static bool set_##word(lab_spec *spec, const char *name, const char *value,                \
                           lab_message *why)

#define INTEGER_HANDLER(word, least, field)                                                    \
    HANDLER(word) {                                                                            \
        return lab_set_integer(name, value, least, &spec->merge.field, why);                   \
    }

INTEGER_HANDLER(parts, 1, problem.parts)
INTEGER_HANDLER(batch, 0, problem.batch)
INTEGER_HANDLER(heads, 0, problem.heads)
INTEGER_HANDLER(seq, 0, problem.seq)
INTEGER_HANDLER(d, 1, problem.d)
INTEGER_HANDLER(pad, 0, pad)
INTEGER_HANDLER(offset, 0, offset)

HANDLER(dtype) {
    int dtype;
    if (!lab_set_named(name, value, lab_dtype_names, &dtype, why))
        return false;
    spec->merge.problem.dtype = (att_dtype)dtype;
    return true;
}

HANDLER(dtype_word) {
    return lab_set_flag(name, value, why) && set_dtype(spec, "dtype", name, why);
}

HANDLER(dtype_o) {
    int dtype;
    if (!lab_set_named(name, value, lab_dtype_names, &dtype, why))
        return false;
    spec->merge.dtype_o = (att_dtype)dtype;
    return true;
}

HANDLER(lse) {
    spec->merge.problem.features = strcmp(name, "lse") == 0 ? ATT_LSE : 0;
    return lab_set_flag(name, value, why);
}

HANDLER(layout) {
    int layout;
    if (!lab_set_named(name, value, layouts, &layout, why))
        return false;
    spec->merge.layout = (lab_layout)layout;
    return true;
}

HANDLER(absurd) {
    spec->merge.absurd_strides = true;
    return lab_set_flag(name, value, why);
}

HANDLER(data) {
    int data;
    if (!lab_set_named(name, value, lab_merge_data_names, &data, why))
        return false;
    spec->merge.data = (lab_merge_data)data;
    return true;
}

const lab_modifier lab_merge_modifiers[] = {
    {"n", set_parts, true},
    {"b", set_batch, true},
    {"h", set_heads, true},
    {"s", set_seq, true},
    {"d", set_d, true},
    {"dtype", set_dtype, false},
    {"fp16", set_dtype_word, false},
    {"f16", set_dtype_word, false},
    {"bf16", set_dtype_word, false},
    {"f32", set_dtype_word, false},
    {"fp32", set_dtype_word, false},
    {"o", set_dtype_o, false},
    {"lse", set_lse, false},
    {"nolse", set_lse, false},
    {"layout", set_layout, false},
    {"pad", set_pad, false},
    {"offset", set_offset, false},
    {"absurd", set_absurd, false},
    {"data", set_data, false},
    {NULL, NULL, false},
};

/* ---------------------------------------------------------------- finishing */

/* Strides of (batch, heads, seq, cols) with `pad` elements after every row; false on
 * overflow. */
static bool strides_of(att_strides *s, const att_merge_problem *p, int64_t cols,
                       const lab_merge_spec *m, lab_layout layout) {
    int64_t inner, outer, row = cols + m->pad;
    const bool heads_inside = layout == LAB_BSHD;
    if (!att_mul(row, heads_inside ? p->heads : p->seq, &inner) ||
        !att_mul(inner, heads_inside ? p->seq : p->heads, &outer))
        return false;
    *s = (att_strides){.batch = outer,
                       .head = heads_inside ? row : inner,
                       .row = heads_inside ? inner : row,
                       .col = 1};
    if (m->absurd_strides) {
        const int64_t absurd = INT64_MAX / 4;
        s->batch = p->batch == 1 ? absurd : s->batch;
        s->head = p->heads == 1 ? absurd : s->head;
        s->row = p->seq == 1 ? absurd : s->row;
    }
    return true;
}

/* The alignment in bytes of the bases of o and of the parts, given the offset. */
static int64_t alignment_of(const lab_merge_spec *m) {
    const int64_t in = (int64_t)att_dtype_size(m->problem.dtype),
                  out = (int64_t)att_dtype_size(m->problem.dtype_o);
    const int64_t shift = m->offset * in | m->offset * out;
    const int64_t least = shift & -shift;
    return shift == 0 || least >= 16 ? 0 : least;
}

bool lab_merge_finish(lab_spec *spec, lab_message *why) {
    lab_merge_spec *m = &spec->merge;
    att_merge_problem *p = &m->problem;
    p->dtype_o = m->dtype_o ? m->dtype_o : p->dtype;
    const int64_t sizes[] = {p->parts, p->batch, p->heads, p->seq, p->d, m->pad, m->offset};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i] > LAB_SIZE_MAX)
            return lab_fail(why, "a size of %lld is past 2^40", (long long)sizes[i]);
    if (p->parts > ATT_MERGE_PARTS_MAX)
        return lab_fail(why, "n%lld: at most %d parts can be merged at once",
                        (long long)p->parts, ATT_MERGE_PARTS_MAX);
    if (!strides_of(&p->part_o, p, p->d, m, m->layout) ||
        !strides_of(&p->o, p, p->d, m, m->layout) ||
        !strides_of(&p->part_lse, p, 1, m, LAB_BHSD) || !strides_of(&p->lse, p, 1, m, LAB_BHSD))
        return lab_fail(why, "a tensor's size in elements does not fit 63 bits");
    p->alignment = alignment_of(m);
    return true;
}

void lab_merge_print(const lab_spec *spec, char *buf, size_t n) {
    const lab_merge_spec *m = &spec->merge;
    const att_merge_problem *p = &m->problem;
    char o[16] = "", layout[16] = "", pad[40] = "", offset[40] = "", data[24] = "";
    if (m->dtype_o && m->dtype_o != p->dtype)
        snprintf(o, sizeof o, ",o=%s", lab_name_of(lab_dtype_names, (int)m->dtype_o));
    if (m->layout != LAB_BSHD)
        snprintf(layout, sizeof layout, ",layout=%s", lab_name_of(layouts, (int)m->layout));
    if (m->pad)
        snprintf(pad, sizeof pad, ",pad=%lld", (long long)m->pad);
    if (m->offset)
        snprintf(offset, sizeof offset, ",offset=%lld", (long long)m->offset);
    if (m->data != LAB_MERGE_NORMAL)
        snprintf(data, sizeof data, ",data=%s",
                 lab_name_of(lab_merge_data_names, (int)m->data));
    snprintf(buf, n, "n%lldb%lldh%llds%lldd%lld,%s%s%s%s%s%s%s%s", (long long)p->parts,
             (long long)p->batch, (long long)p->heads, (long long)p->seq, (long long)p->d,
             lab_name_of(lab_dtype_names, (int)p->dtype), o,
             p->features & ATT_LSE ? "" : ",nolse", layout, pad, offset,
             m->absurd_strides ? ",absurd" : "", data);
}
