/* attention_print.c: the canonical line of a spec. */
#include "lab/attention/attention_lab.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lab/problem/spec_names.h"

typedef struct writer {
    char *buf;
    size_t size, used;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
    if (w->used >= w->size)
        return;
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(w->buf + w->used, w->size - w->used, format, list);
    va_end(list);
    w->used += n > 0 ? (size_t)n : 0;
}

static void put_shape(writer *w, const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    put(w, "b%lldh%lld", (long long)p->batch, (long long)p->heads_q);
    if (spec->heads_kv >= 0 && spec->heads_kv != p->heads_q)
        put(w, "hkv%lld", (long long)spec->heads_kv);
    put(w, "s%lld", (long long)p->seq_q);
    if (spec->seq_k >= 0 && spec->seq_k != p->seq_q)
        put(w, "sk%lld", (long long)spec->seq_k);
    put(w, "d%lld", (long long)p->d_qk);
    if (spec->d_v >= 0 && spec->d_v != p->d_qk)
        put(w, "dv%lld", (long long)spec->d_v);
    put(w, ",%s", lab_name_of(lab_dtype_names, (int)p->dtype));
    if (spec->dtype_o && spec->dtype_o != p->dtype)
        put(w, ",o=%s", lab_name_of(lab_dtype_names, (int)spec->dtype_o));
}

static void put_mask(writer *w, const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    if (spec->causal_plain)
        put(w, ",causal");
    else if (p->causal != ATT_CAUSAL_NONE)
        put(w, ",causal=%s", lab_name_of(lab_causal_names, (int)p->causal));
    if (p->window_left >= 0 || p->window_right >= 0)
        put(w, ",window=%lld:%lld", (long long)p->window_left, (long long)p->window_right);
    if (p->align != ATT_ALIGN_UNSET)
        put(w, ",align=%s", lab_name_of(lab_align_names, (int)p->align));
}

static void put_bias(writer *w, const lab_spec *spec) {
    put(w, ",bias=%s", lab_name_of(lab_bias_dtype_names, (int)spec->problem.bias_dtype));
    const bool *one = spec->bias_broadcast;
    if (one[0] || one[1] || one[2] || one[3])
        put(w, ":%c%c%c%c", one[0] ? '1' : 'b', one[1] ? '1' : 'h', one[2] ? '1' : 'q',
            one[3] ? '1' : 'k');
    if (spec->bias_fill != LAB_BIAS_NORMAL)
        put(w, ",biasfill=%s", lab_name_of(lab_bias_fill_names, (int)spec->bias_fill));
    if (spec->bias_col != 1)
        put(w, ",biascol=%lld", (long long)spec->bias_col);
}

static void put_scores(writer *w, const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    if (spec->scale_given)
        put(w, ",scale=%.9g", (double)p->scale);
    if (p->softcap != 0.0f)
        put(w, ",softcap=%.9g", (double)p->softcap);
    if (p->features & ATT_ALIBI)
        put(w, spec->alibi_per_batch ? ",alibi=b" : ",alibi");
    if (p->features & ATT_BIAS)
        put_bias(w, spec);
    if (p->features & ATT_SINKS)
        put(w, ",sinks");
    if (p->features & ATT_LSE)
        put(w, ",lse");
}

static void put_lens(writer *w, const char *name, const lab_lens *lens) {
    if (lens->mode == LAB_LENS_NONE)
        return;
    put(w, ",%s", name);
    if (lens->mode == LAB_LENS_LISTED)
        for (int i = 0; i < lens->count; i++)
            put(w, "%c%d", i ? ':' : '=', (int)lens->list[i]);
}

static bool same_lens(const lab_lens *a, const lab_lens *b) {
    return a->mode == b->mode && a->count == b->count &&
           memcmp(a->list, b->list, (size_t)a->count * sizeof a->list[0]) == 0;
}

static void put_lengths(writer *w, const lab_spec *spec) {
    if (spec->cu_q.mode == LAB_LENS_DRAWN && spec->cu_k.mode == LAB_LENS_DRAWN) {
        put(w, ",varlen");
    } else if (spec->cu_q.mode == LAB_LENS_LISTED && same_lens(&spec->cu_q, &spec->cu_k)) {
        put_lens(w, "lens", &spec->cu_q);
    } else {
        put_lens(w, "cuq", &spec->cu_q);
        put_lens(w, "cuk", &spec->cu_k);
    }
    put_lens(w, "lensk", &spec->lens_k);
    put_lens(w, "startsk", &spec->starts_k);
    if (spec->problem.q_offset)
        put(w, ",qoffset=%lld", (long long)spec->problem.q_offset);
    if (spec->problem.k_offset)
        put(w, ",koffset=%lld", (long long)spec->problem.k_offset);
    put_lens(w, "qoffsets", &spec->q_offsets);
    put_lens(w, "koffsets", &spec->k_offsets);
    if (spec->lens_seed)
        put(w, ",lenseed=%llu", (unsigned long long)spec->lens_seed);
    if (spec->problem.features & ATT_PAGED)
        put(w, ",paged=%lld", (long long)spec->problem.page_size);
}

static void put_memory(writer *w, const lab_spec *spec) {
    if (spec->layout != LAB_BSHD)
        put(w, ",layout=%s", lab_name_of(lab_layout_names, (int)spec->layout));
    if (spec->pad)
        put(w, ",pad=%lld", (long long)spec->pad);
    if (spec->offset)
        put(w, ",offset=%lld", (long long)spec->offset);
    if (spec->broadcast_batch || spec->broadcast_heads)
        put(w, ",bcast=%s%s", spec->broadcast_batch ? "b" : "",
            spec->broadcast_heads ? "h" : "");
    if (spec->absurd_strides)
        put(w, ",absurd");
    if (spec->data != LAB_DATA_NORMAL)
        put(w, ",data=%s", lab_name_of(lab_data_names, (int)spec->data));
}

void lab_attention_print(const lab_spec *spec, char *buf, size_t n) {
    writer w = {buf, n, 0};
    if (n > 0)
        buf[0] = '\0';
    put_shape(&w, spec);
    put_mask(&w, spec);
    put_scores(&w, spec);
    put_lengths(&w, spec);
    put_memory(&w, spec);
}
