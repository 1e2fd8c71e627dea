/* alignment.c: whether rows may be moved 16 bytes at a time. */
#include "attention/cuda/alignment.h"

#include "attention/cuda/operands.h"

enum { VECTOR = 16 };

/* The largest power of two, up to 16, that divides `bytes`; 16 for 0. */
static size_t divisor(uint64_t bytes) {
    const uint64_t bits = bytes | VECTOR;
    return (size_t)(bits & (~bits + 1));
}

/* The alignment that all rows of the tensor share. Strides along dimensions of size 1 are
 * ignored. */
static size_t stride_alignment(const att_cuda_tensor *t) {
    const uint64_t batch = t->batch > 1 ? (uint64_t)t->strides->batch : 0;
    const uint64_t head = t->heads > 1 ? (uint64_t)t->strides->head : 0;
    const uint64_t row = t->rows > 1 ? (uint64_t)t->strides->row : 0;
    return divisor((batch | head | row) * t->element);
}

size_t att_cuda_base_alignment(const att_problem *p) {
    return p->alignment == 0 || p->alignment > VECTOR ? VECTOR : (size_t)p->alignment;
}

size_t att_cuda_row_alignment(const att_problem *p, const char **field) {
    att_cuda_tensor tensors[ATT_TENSORS];
    att_cuda_tensors(tensors, p);
    size_t least = att_cuda_base_alignment(p);
    const char *fault = least < VECTOR ? "alignment" : NULL;
    for (int i = 0; i < ATT_TENSORS; i++) {
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
