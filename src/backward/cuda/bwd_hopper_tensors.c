/* bwd_hopper_tensors.c: the memory layout of the tensors of a problem's gradients. */
#include "backward/cuda/bwd_hopper_tensors.h"

#include "base/dtype.h"

void att_backward_tensors(att_cuda_tensor out[ATT_BWD_TENSORS], const att_problem *p) {
    att_cuda_tensor forward[ATT_TENSORS];
    att_cuda_tensors(forward, p);
    out[ATT_BWD_TENSOR_Q] = out[ATT_BWD_TENSOR_D_Q] = forward[ATT_TENSOR_Q];
    out[ATT_BWD_TENSOR_K] = out[ATT_BWD_TENSOR_D_K] = forward[ATT_TENSOR_K];
    out[ATT_BWD_TENSOR_V] = out[ATT_BWD_TENSOR_D_V] = forward[ATT_TENSOR_V];
    out[ATT_BWD_TENSOR_O] = out[ATT_BWD_TENSOR_D_O] = forward[ATT_TENSOR_O];
    const struct {
        int tensor;
        const char *name;
        const att_strides *strides;
    } gradients[] = {{ATT_BWD_TENSOR_D_Q, "grad_q", &p->grad_q},
                     {ATT_BWD_TENSOR_D_K, "grad_k", &p->grad_k},
                     {ATT_BWD_TENSOR_D_V, "grad_v", &p->grad_v}};
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        att_cuda_tensor *t = &out[gradients[i].tensor];
        t->name = gradients[i].name;
        t->strides = gradients[i].strides;
        t->element = att_dtype_size(p->dtype_grad);
    }
    out[ATT_BWD_TENSOR_D_O].name = "grad_o";
    out[ATT_BWD_TENSOR_D_O].strides = &p->grad_o;
}
