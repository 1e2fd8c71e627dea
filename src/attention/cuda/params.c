/* params.c: converts a problem and its arguments to kernel parameters. */
#include "attention/cuda/params.h"

#include "attention/cuda/alignment.h"
#include "attention/cuda/band.h"
#include "attention/problem.h"
#include "base/checked.h"

static const double log2_e = 1.4426950408889634;

static att_fwd_strides strides_of(const att_strides *s) {
    return (att_fwd_strides){.batch = s->batch, .head = s->head, .row = s->row, .col = s->col};
}

void att_cuda_params_of(att_fwd_params *out, const att_problem *p) {
    const att_cuda_band band = att_cuda_band_of(p);
    const int64_t group = p->heads_q / p->heads_kv;
    *out = (att_fwd_params){
        .q_stride = strides_of(&p->q),
        .k_stride = strides_of(&p->k),
        .v_stride = strides_of(&p->v),
        .o_stride = strides_of(&p->o),
        .lse_stride = strides_of(&p->lse),
        .bias_stride = strides_of(&p->bias),
        .alibi_batch = p->alibi_stride_batch,
        .page_table_stride = p->page_table_stride,
        .total_q = p->total_q,
        .total_k = p->total_k,
        .batch = (int)p->batch,
        .heads_q = (int)p->heads_q,
        .heads_kv = (int)p->heads_kv,
        .group = (int)group,
        .seq_q = (int)p->seq_q,
        .seq_k = (int)p->seq_k,
        .d_qk = (int)p->d_qk,
        .d_v = (int)p->d_v,
        .dtype = (int)p->dtype,
        .dtype_o = (int)p->dtype_o,
        .bias_dtype = (int)p->bias_dtype,
        .flags =
            (att_problem_is_bottom_right(p) ? ATT_FWD_BOTTOM_RIGHT : 0) |
            (att_cuda_rows_aligned(p) && p->d_qk % 8 == 0 && p->d_v % 8 == 0 ? ATT_FWD_VECTOR
                                                                             : 0),
        .window_left = band.left,
        .window_right = band.right,
        .offset = band.offset,
        .shift = band.shift,
        .shift_least = band.shift_least,
        .shift_most = band.shift_most,
        .page_size = (int)p->page_size,
        .num_pages = (int)att_min(p->num_pages, INT32_MAX),
        .splits = 1,
        .by_heads_q = att_cuda_divisor((unsigned)p->heads_q),
        .by_heads_kv = att_cuda_divisor((unsigned)p->heads_kv),
        .by_group = att_cuda_divisor((unsigned)group),
        .by_seq_q = att_cuda_divisor((unsigned)p->seq_q),
        .by_splits = att_cuda_divisor(1),
        .scale = p->scale,
        .scale_log2 =
            p->softcap > 0.0f ? p->scale / p->softcap : (float)((double)p->scale * log2_e),
        .softcap = p->softcap,
    };
}

void att_cuda_params_point(att_fwd_params *params, const att_args *a) {
    params->q = a->q;
    params->k = a->k;
    params->v = a->v;
    params->o = a->o;
    params->lse = a->lse;
    params->alibi = a->alibi;
    params->bias = a->bias;
    params->sinks = a->sinks;
    params->cu_seqlens_q = a->cu_seqlens_q;
    params->cu_seqlens_k = a->cu_seqlens_k;
    params->lens_k = a->lens_k;
    params->starts_k = a->starts_k;
    params->q_offsets = a->q_offsets;
    params->k_offsets = a->k_offsets;
    params->page_table = a->page_table;
}
