/* backward_params.c: converts a problem and its arguments to the parameters of the backward
 * kernels. */
#include "backward/cuda/backward_params.h"

#include "attention/cuda/alignment.h"
#include "attention/cuda/params.h"
#include "backward/backward.h"
#include "base/dtype.h"

enum { VECTOR = 16 };

static att_fwd_strides strides_of(const att_strides *s) {
    return (att_fwd_strides){.batch = s->batch, .head = s->head, .row = s->row, .col = s->col};
}

/* The strides of a tensor, combined; strides along dimensions of size 1 are ignored. */
static uint64_t steps_of(const att_strides *s, bool packed, int64_t batch, int64_t heads,
                         int64_t rows) {
    return (!packed && batch > 1 ? (uint64_t)s->batch : 0) |
           (heads > 1 ? (uint64_t)s->head : 0) | (rows > 1 ? (uint64_t)s->row : 0);
}

size_t att_backward_row_alignment(const att_problem *p, const char **field) {
    const bool packed = p->features & ATT_CU_SEQLENS_Q;
    const uint64_t bytes =
        att_dtype_size(p->dtype_o) *
        steps_of(&p->grad_o, packed, p->batch, p->heads_q, packed ? p->total_q : p->seq_q);
    const uint64_t bits = bytes | VECTOR;
    const size_t own = (size_t)(bits & (~bits + 1)), others = att_cuda_row_alignment(p, field);
    if (own >= others)
        return others;
    *field = "grad_o";
    return own;
}

static bool has_vectors(const att_problem *p) {
    const char *field;
    return p->d_qk % 8 == 0 && p->d_v % 8 == 0 &&
           att_backward_row_alignment(p, &field) >= VECTOR;
}

/* May gradients be written two elements at a time? */
static bool has_pairs(const att_problem *p) {
    const bool packed_q = p->features & ATT_CU_SEQLENS_Q;
    const bool packed_k = p->features & ATT_CU_SEQLENS_K;
    const int64_t rows_q = packed_q ? p->total_q : p->seq_q;
    const int64_t rows_k = packed_k ? p->total_k : p->seq_k;
    const uint64_t steps = steps_of(&p->grad_q, packed_q, p->batch, p->heads_q, rows_q) |
                           steps_of(&p->grad_k, packed_k, p->batch, p->heads_kv, rows_k) |
                           steps_of(&p->grad_v, packed_k, p->batch, p->heads_kv, rows_k);
    return steps % 2 == 0 && att_cuda_base_alignment(p) >= 2 * att_dtype_size(p->dtype_grad);
}

void att_backward_params_of(att_bwd_params *out, const att_problem *p) {
    *out = (att_bwd_params){
        .d_o_stride = strides_of(&p->grad_o),
        .d_q_stride = strides_of(&p->grad_q),
        .d_k_stride = strides_of(&p->grad_k),
        .d_v_stride = strides_of(&p->grad_v),
        .d_bias_stride = strides_of(&p->grad_bias),
        .flags = (has_vectors(p) ? ATT_BWD_VECTOR : 0) | (has_pairs(p) ? ATT_BWD_PAIRS : 0),
        .dtype_grad = (int)p->dtype_grad,
        .d_bias_dtype = (int)att_backward_bias_dtype(p),
    };
    att_cuda_params_of(&out->fwd, p);
}

void att_backward_params_point(att_bwd_params *params, const att_args *a) {
    att_cuda_params_point(&params->fwd, a);
    params->d_o = a->d_o;
    params->d_q = a->d_q;
    params->d_k = a->d_k;
    params->d_v = a->d_v;
    params->d_bias = a->d_bias;
    params->d_sinks = a->d_sinks;
    params->d_alibi = a->d_alibi;
}
