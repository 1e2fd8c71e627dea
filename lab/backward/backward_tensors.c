/* backward_tensors.c: the buffers of a backward problem: sizes, addresses. */
#include "backward/backward.h"
#include "base/checked.h"
#include "lab/backward/backward_lab.h"
#include "lab/tensors/buffer.h"

static const char *const tensor_names[LAB_BACKWARD_TENSOR_COUNT] = {
    [LAB_D_O] = "d_o",         [LAB_D_Q] = "d_q",       [LAB_D_K] = "d_k",
    [LAB_D_V] = "d_v",         [LAB_D_BIAS] = "d_bias", [LAB_D_SINKS] = "d_sinks",
    [LAB_D_ALIBI] = "d_alibi",
};

/* In the packed layout the gradients of Q, K and V share one buffer, stored as that of Q, like
 * their tensors. */
static bool size_gradients(lab_tensor_size *size, const lab_spec *spec) {
    const att_problem *p = &spec->problem;
    const size_t element = att_dtype_size(p->dtype_grad);
    lab_extents d_o = lab_extents_q(spec), d_v = lab_extents_k(spec);
    const lab_extents bias = {p->batch, p->heads_q, p->seq_q, p->seq_k};
    d_o.col = d_v.col = p->d_v;
    if (!lab_size_strided(&size[LAB_D_O], &p->grad_o, d_o, att_dtype_size(p->dtype_o)))
        return false;
    const bool fits =
        spec->layout == LAB_PACKED
            ? lab_size_packed(&size[LAB_D_Q], spec, element)
            : lab_size_strided(&size[LAB_D_Q], &p->grad_q, lab_extents_q(spec), element) &&
                  lab_size_strided(&size[LAB_D_K], &p->grad_k, lab_extents_k(spec), element) &&
                  lab_size_strided(&size[LAB_D_V], &p->grad_v, d_v, element);
    if (!fits)
        return false;
    if (p->gradients & ATT_D_BIAS &&
        !lab_size_strided(&size[LAB_D_BIAS], &p->grad_bias, bias,
                          att_dtype_size(att_backward_bias_dtype(p))))
        return false;
    if (p->gradients & ATT_D_SINKS)
        lab_size_flat(&size[LAB_D_SINKS], p->heads_q, sizeof(float));
    if (p->gradients & ATT_D_ALIBI) {
        int64_t slopes;
        if (!att_mul(p->heads_q, spec->alibi_per_batch ? p->batch : 1, &slopes))
            return false;
        lab_size_flat(&size[LAB_D_ALIBI], slopes, sizeof(float));
    }
    return true;
}

bool lab_backward_sizes(const lab_spec *spec, lab_tensor_size list[LAB_TENSORS_MAX],
                        int *count) {
    if (!lab_attention_sizes(spec, list, count))
        return false;
    list[LAB_O].output = list[LAB_LSE].output = false;
    *count = LAB_BACKWARD_TENSOR_COUNT;
    for (int i = LAB_D_O; i < LAB_BACKWARD_TENSOR_COUNT; i++)
        list[i] = (lab_tensor_size){
            .name = tensor_names[i],
            .output = i != LAB_D_O,
            .padded = spec->pad > 0 || (i == LAB_D_BIAS && spec->bias_col > 1),
            .shift = spec->offset};
    return size_gradients(list, spec);
}

void lab_backward_point(lab_args *args, const lab_spec *spec, const lab_buffer *b) {
    att_args *a = &args->attention;
    lab_attention_point(args, spec, b);
    a->d_o = b[LAB_D_O].data;
    a->d_q = b[LAB_D_Q].data;
    a->d_k = b[LAB_D_K].data;
    a->d_v = b[LAB_D_V].data;
    a->d_bias = b[LAB_D_BIAS].data;
    a->d_sinks = (float *)(void *)b[LAB_D_SINKS].data;
    a->d_alibi = (float *)(void *)b[LAB_D_ALIBI].data;
    if (spec->layout == LAB_PACKED) {
        const int64_t element = (int64_t)att_dtype_size(spec->problem.dtype_grad);
        a->d_k = b[LAB_D_Q].data + spec->k_offset * element;
        a->d_v = b[LAB_D_Q].data + spec->v_offset * element;
    }
}

void lab_backward_locate(const lab_args *args, const lab_spec *spec,
                         const void *list[LAB_TENSORS_MAX]) {
    const att_args *a = &args->attention;
    const bool packed = spec->layout == LAB_PACKED;
    lab_attention_locate(args, spec, list);
    list[LAB_D_O] = a->d_o;
    list[LAB_D_Q] = a->d_q;
    list[LAB_D_K] = packed ? NULL : a->d_k;
    list[LAB_D_V] = packed ? NULL : a->d_v;
    list[LAB_D_BIAS] = a->d_bias;
    list[LAB_D_SINKS] = a->d_sinks;
    list[LAB_D_ALIBI] = a->d_alibi;
}
