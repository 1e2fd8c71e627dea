/* hopper_bias.c: an additive bias, as the copy engine loads it for the Hopper rows that have
 * one. */
#include "attention/cuda/hopper_bias.h"

#include <stdbool.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/error.h"

enum { UNIT = 16, ELEMENT = 2, BOX_ROWS = 64 };

/* The size of one axis of the bias: 1 if it is broadcast along it. */
static int64_t size_of(int64_t size, int64_t stride) {
    return stride == 0 ? 1 : size;
}

static bool is_walkable(int64_t size, int64_t stride) {
    return size_of(size, stride) <= 1 ||
           (stride > 0 && stride < ATT_TENSOR_STRIDE_END / ELEMENT &&
            stride * ELEMENT % UNIT == 0);
}

const char *att_cuda_hopper_bias_refusal(const att_cuda_kernel *kernel, const att_problem *p) {
    const att_strides *s = &p->bias;
    if (!(kernel->features & ATT_FEATURE_BIAS))
        return NULL;
    if (p->bias_dtype != p->dtype)
        return "takes only a bias of the type of Q";
    if (s->col != 1 && p->seq_k > 1)
        return "takes only a bias with contiguous keys";
    if (!is_walkable(p->seq_q, s->row) || !is_walkable(p->heads_q, s->head) ||
        !is_walkable(p->batch, s->batch))
        return "has a bias with a stride that is not a multiple of 16 bytes, or too large";
    return NULL;
}

att_status att_cuda_hopper_bias_encode(att_fwd_bias *out, const att_cuda_driver *cu,
                                       const att_cuda_kernel *kernel, const att_problem *p) {
    const att_strides *s = &p->bias;
    const int64_t rows = size_of(p->seq_q, s->row), heads = size_of(p->heads_q, s->head);
    const int64_t batches = size_of(p->batch, s->batch);
    const att_tensor_walk walk = {.rank = 4,
                                  .axis = {{p->seq_k, 1, kernel->tile_n % 64 ? 32 : 64},
                                           {rows, s->row, rows > 1 ? BOX_ROWS : 1},
                                           {heads, s->head, 1},
                                           {batches, s->batch, 1}}};
    out->rows = (int)rows;
    out->heads = (int)heads;
    out->batches = (int)batches;
    return att_cuda_tensor_map_encode(&out->map, cu, p->dtype, &walk, kernel->id);
}

att_status att_cuda_hopper_bias_point(att_fwd_bias *bias, const att_cuda_driver *cu,
                                      const void *address, const char *kernel) {
    ATT_REQUIRE((uintptr_t)address % UNIT == 0, ATT_E_ARG, "bias",
                "bias is not aligned to %d bytes; where it may not be, say so in "
                "att_problem.alignment",
                UNIT);
    return att_cuda_tensor_map_point(&bias->map, cu, address, kernel);
}
