/* attention_tensors.c: the buffers of an attention problem: sizes, addresses. */
#include "base/checked.h"
#include "lab/attention/attention_lab.h"
#include "lab/tensors/buffer.h"

static const char *const tensor_names[LAB_TENSOR_COUNT] = {
    [LAB_Q] = "q",
    [LAB_K] = "k",
    [LAB_V] = "v",
    [LAB_O] = "o",
    [LAB_LSE] = "lse",
    [LAB_ALIBI] = "alibi",
    [LAB_BIAS] = "bias",
    [LAB_SINKS] = "sinks",
    [LAB_CU_Q] = "cu_seqlens_q",
    [LAB_CU_K] = "cu_seqlens_k",
    [LAB_LENS_K] = "lens_k",
    [LAB_STARTS_K] = "starts_k",
    [LAB_Q_OFFSETS] = "q_offsets",
    [LAB_K_OFFSETS] = "k_offsets",
    [LAB_PAGE_TABLE] = "page_table",
};

static bool add_reach(int64_t *elements, int64_t n, int64_t stride) {
    int64_t reach;
    return n <= 1 || (att_mul(n - 1, stride, &reach) && att_add(*elements, reach, elements));
}

bool lab_size_strided(lab_tensor_size *size, const att_strides *s, lab_extents n,
                      size_t element_size) {
    size->present = true;
    size->element_size = element_size;
    if (n.batch == 0 || n.head == 0 || n.row == 0 || n.col == 0)
        return true;
    size->elements = 1;
    if (!add_reach(&size->elements, n.batch, s->batch) ||
        !add_reach(&size->elements, n.head, s->head) ||
        !add_reach(&size->elements, n.row, s->row) ||
        !add_reach(&size->elements, n.col, s->col))
        return false;
    const double indices = (double)n.batch * (double)n.head * (double)n.row * (double)n.col;
    const double elements = (double)size->elements;
    size->touched = (indices < elements ? indices : elements) * (double)element_size;
    return true;
}

void lab_size_flat(lab_tensor_size *size, int64_t elements, size_t element_size) {
    const double touched = (double)elements * (double)element_size;
    size->present = true;
    size->elements = elements;
    size->touched = touched;
    size->element_size = element_size;
}

bool lab_size_packed(lab_tensor_size *size, const lab_spec *spec, size_t element_size) {
    const att_problem *p = &spec->problem;
    const lab_extents q = lab_extents_q(spec);
    const lab_extents n = {q.batch, 1, q.row,
                           spec->v_offset + p->heads_kv * (p->d_v + spec->pad)};
    const att_strides strides = {.batch = q.row * n.col, .row = n.col, .col = 1};
    return lab_size_strided(size, &strides, n, element_size);
}

lab_extents lab_extents_q(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const bool packed = p->features & ATT_CU_SEQLENS_Q;
    return (lab_extents){packed ? 1 : p->batch, p->heads_q, packed ? p->total_q : p->seq_q,
                         p->d_qk};
}

lab_extents lab_extents_k(const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const bool packed = p->features & ATT_CU_SEQLENS_K;
    if (p->features & ATT_PAGED)
        return (lab_extents){p->num_pages, p->heads_kv, p->page_size, p->d_qk};
    return (lab_extents){packed ? 1 : p->batch, p->heads_kv, packed ? p->total_k : p->seq_k,
                         p->d_qk};
}

static bool size_all(lab_tensor_size size[LAB_TENSOR_COUNT], const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const unsigned features = p->features;
    const bool cu_q = features & ATT_CU_SEQLENS_Q, cu_k = features & ATT_CU_SEQLENS_K;
    const lab_extents q = lab_extents_q(spec), k = lab_extents_k(spec);
    lab_extents v = k, o = q, lse = q;
    v.col = o.col = p->d_v;
    lse.col = 1;
    const lab_extents bias = {p->batch, p->heads_q, p->seq_q, p->seq_k};
    const size_t element = att_dtype_size(p->dtype);

    const bool fits = spec->layout == LAB_PACKED
                          ? lab_size_packed(&size[LAB_Q], spec, element)
                          : lab_size_strided(&size[LAB_Q], &p->q, q, element) &&
                                lab_size_strided(&size[LAB_K], &p->k, k, element) &&
                                lab_size_strided(&size[LAB_V], &p->v, v, element);
    if (!fits || !lab_size_strided(&size[LAB_O], &p->o, o, att_dtype_size(p->dtype_o)))
        return false;
    if (spec->data == LAB_DATA_SPARSE)
        size[LAB_K].touched = size[LAB_V].touched = 0.0;
    if (features & ATT_LSE && !lab_size_strided(&size[LAB_LSE], &p->lse, lse, sizeof(float)))
        return false;
    if (features & ATT_BIAS &&
        !lab_size_strided(&size[LAB_BIAS], &p->bias, bias, att_dtype_size(p->bias_dtype)))
        return false;

    if (features & ATT_ALIBI) {
        int64_t slopes;
        if (!att_mul(p->heads_q, spec->alibi_per_batch ? p->batch : 1, &slopes))
            return false;
        lab_size_flat(&size[LAB_ALIBI], slopes, sizeof(float));
    }
    if (features & ATT_SINKS)
        lab_size_flat(&size[LAB_SINKS], p->heads_q, sizeof(float));
    if (cu_q)
        lab_size_flat(&size[LAB_CU_Q], p->batch + 1, sizeof(int32_t));
    if (cu_k)
        lab_size_flat(&size[LAB_CU_K], p->batch + 1, sizeof(int32_t));
    if (features & ATT_LENS_K)
        lab_size_flat(&size[LAB_LENS_K], p->batch, sizeof(int32_t));
    if (features & ATT_STARTS_K)
        lab_size_flat(&size[LAB_STARTS_K], p->batch, sizeof(int32_t));
    if (features & ATT_Q_OFFSETS)
        lab_size_flat(&size[LAB_Q_OFFSETS], p->batch, sizeof(int32_t));
    if (features & ATT_K_OFFSETS)
        lab_size_flat(&size[LAB_K_OFFSETS], p->batch, sizeof(int32_t));
    if (features & ATT_PAGED) {
        int64_t entries;
        if (!att_mul(p->batch, p->page_table_stride, &entries))
            return false;
        lab_size_flat(&size[LAB_PAGE_TABLE], entries, sizeof(int32_t));
    }
    return true;
}

bool lab_attention_sizes(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX],
                         int *count) {
    *count = LAB_TENSOR_COUNT;
    for (int i = 0; i < LAB_TENSOR_COUNT; i++)
        list[i] = (lab_tensor_size){
            .name = tensor_names[i],
            .output = i == LAB_O || i == LAB_LSE,
            .sparse = spec->data == LAB_DATA_SPARSE && (i == LAB_K || i == LAB_V),
            .padded = spec->pad > 0,
            .shift = spec->offset};
    return size_all(list, spec);
}

void lab_attention_point(lab_args *args, const lab_spec *spec, const lab_buffer *b) {
    att_args *a = &args->attention;
    *a = (att_args){
        .size = sizeof(att_args),
        .q = b[LAB_Q].data,
        .k = b[LAB_K].data,
        .v = b[LAB_V].data,
        .o = b[LAB_O].data,
        .lse = (float *)(void *)b[LAB_LSE].data,
        .alibi = (const float *)(const void *)b[LAB_ALIBI].data,
        .bias = b[LAB_BIAS].data,
        .sinks = (const float *)(const void *)b[LAB_SINKS].data,
        .cu_seqlens_q = (const int32_t *)(const void *)b[LAB_CU_Q].data,
        .cu_seqlens_k = (const int32_t *)(const void *)b[LAB_CU_K].data,
        .lens_k = (const int32_t *)(const void *)b[LAB_LENS_K].data,
        .starts_k = (const int32_t *)(const void *)b[LAB_STARTS_K].data,
        .q_offsets = (const int32_t *)(const void *)b[LAB_Q_OFFSETS].data,
        .k_offsets = (const int32_t *)(const void *)b[LAB_K_OFFSETS].data,
        .page_table = (const int32_t *)(const void *)b[LAB_PAGE_TABLE].data,
    };
    if (spec->layout == LAB_PACKED) {
        const int64_t element = (int64_t)att_dtype_size(spec->problem.dtype);
        a->k = b[LAB_Q].data + spec->k_offset * element;
        a->v = b[LAB_Q].data + spec->v_offset * element;
    }
}

void lab_attention_locate(const lab_args *args, const lab_spec *spec,
                          const void *list[LAB_TENSORS_MAX]) {
    const att_args *a = &args->attention;
    const bool packed = spec->layout == LAB_PACKED;
    list[LAB_Q] = a->q;
    list[LAB_K] = packed ? NULL : a->k;
    list[LAB_V] = packed ? NULL : a->v;
    list[LAB_O] = a->o;
    list[LAB_LSE] = a->lse;
    list[LAB_ALIBI] = a->alibi;
    list[LAB_BIAS] = a->bias;
    list[LAB_SINKS] = a->sinks;
    list[LAB_CU_Q] = a->cu_seqlens_q;
    list[LAB_CU_K] = a->cu_seqlens_k;
    list[LAB_LENS_K] = a->lens_k;
    list[LAB_STARTS_K] = a->starts_k;
    list[LAB_Q_OFFSETS] = a->q_offsets;
    list[LAB_K_OFFSETS] = a->k_offsets;
    list[LAB_PAGE_TABLE] = a->page_table;
}
