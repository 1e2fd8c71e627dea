/* alignment.c: may rows be moved 16 bytes at a time? */
#include "cuda/alignment.h"

enum { VECTOR = 16 };

/* The largest power of two, up to 16, that divides `bytes`; 16 for 0. */
static size_t divisor(uint64_t bytes) {
    const uint64_t bits = bytes | VECTOR;
    return (size_t)(bits & (~bits + 1));
}

typedef struct tensor {
    const char *name;
    const att_strides *strides;
    int64_t batch, heads, rows;
    size_t element;
} tensor;

/* What all rows of the tensor have in common; a stride that is never stepped along does not count. */
static size_t stride_alignment(const tensor *t) {
    const uint64_t batch = t->batch > 1 ? (uint64_t)t->strides->batch : 0;
    const uint64_t head = t->heads > 1 ? (uint64_t)t->strides->head : 0;
    const uint64_t row = t->rows > 1 ? (uint64_t)t->strides->row : 0;
    return divisor((batch | head | row) * t->element);
}

size_t att_cuda_base_alignment(const att_problem *p) {
    return p->alignment == 0 || p->alignment > VECTOR ? VECTOR : (size_t)p->alignment;
}

size_t att_cuda_row_alignment(const att_problem *p, const char **field) {
    const bool packed_q = p->features & ATT_CU_SEQLENS_Q;
    const bool packed_k = p->features & ATT_CU_SEQLENS_K, paged = p->features & ATT_PAGED;
    const int64_t batch_q = packed_q ? 1 : p->batch, rows_q = packed_q ? p->total_q : p->seq_q;
    const int64_t batch_k = paged ? p->num_pages : packed_k ? 1 : p->batch;
    const int64_t rows_k = paged ? p->page_size : packed_k ? p->total_k : p->seq_k;
    const size_t in = att_dtype_size(p->dtype), out = att_dtype_size(p->dtype_o);
    const tensor tensors[] = {
        {"q", &p->q, batch_q, p->heads_q, rows_q, in},
        {"k", &p->k, batch_k, p->heads_kv, rows_k, in},
        {"v", &p->v, batch_k, p->heads_kv, rows_k, in},
        {"o", &p->o, batch_q, p->heads_q, rows_q, out},
    };
    size_t least = att_cuda_base_alignment(p);
    const char *fault = least < VECTOR ? "alignment" : NULL;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        const size_t own = stride_alignment(&tensors[i]);
        if (own < least) {
            least = own;
            fault = tensors[i].name;
        }
    }
    if (field)
        *field = fault;
    return least;
}

bool att_cuda_rows_aligned(const att_problem *p) {
    return att_cuda_row_alignment(p, NULL) >= VECTOR;
}
