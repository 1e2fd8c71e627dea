/* operands.c: the memory layout of Q, K, V and O of a problem. */
#include "attention/cuda/operands.h"

#include <stdbool.h>

void att_cuda_tensors(att_cuda_tensor out[ATT_TENSORS], const att_problem *p) {
    const bool packed_q = p->features & ATT_CU_SEQLENS_Q;
    const bool packed_k = p->features & ATT_CU_SEQLENS_K, paged = p->features & ATT_PAGED;
    const int64_t batch_q = packed_q ? 1 : p->batch, rows_q = packed_q ? p->total_q : p->seq_q;
    const int64_t batch_k = paged ? p->num_pages : packed_k ? 1 : p->batch;
    const int64_t rows_k = paged ? p->page_size : packed_k ? p->total_k : p->seq_k;
    const size_t in = att_dtype_size(p->dtype), result = att_dtype_size(p->dtype_o);
    out[ATT_TENSOR_Q] = (att_cuda_tensor){"q", &p->q, batch_q, p->heads_q, rows_q, p->d_qk, in};
    out[ATT_TENSOR_K] =
        (att_cuda_tensor){"k", &p->k, batch_k, p->heads_kv, rows_k, p->d_qk, in};
    out[ATT_TENSOR_V] = (att_cuda_tensor){"v", &p->v, batch_k, p->heads_kv, rows_k, p->d_v, in};
    out[ATT_TENSOR_O] =
        (att_cuda_tensor){"o", &p->o, batch_q, p->heads_q, rows_q, p->d_v, result};
}
