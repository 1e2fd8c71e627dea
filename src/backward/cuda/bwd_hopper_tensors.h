/* bwd_hopper_tensors.h: the tensors of a problem's gradients as the copy engine walks them. */
#ifndef ATT_BACKWARD_BWD_HOPPER_TENSORS_H
#define ATT_BACKWARD_BWD_HOPPER_TENSORS_H

#include "attention/cuda/operands.h"

enum {
    ATT_BWD_TENSOR_Q,
    ATT_BWD_TENSOR_K,
    ATT_BWD_TENSOR_V,
    ATT_BWD_TENSOR_D_O,
    ATT_BWD_TENSOR_D_K,
    ATT_BWD_TENSOR_D_V,
    ATT_BWD_TENSOR_O, /* from here on: not by the copy engine, but 16 bytes at a time */
    ATT_BWD_TENSOR_D_Q,
    ATT_BWD_TENSORS
};

void att_backward_tensors(att_cuda_tensor out[ATT_BWD_TENSORS], const att_problem *p);

#endif
