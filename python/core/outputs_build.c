/* outputs_build.c: the destination of the answers: the caller's arrays, or new ones of q's
 * framework. */
#include "python/core/output.h"
#include "python/core/problem_build.h"

#include <string.h>

static void set_shapes(call *c) {
    const att_problem *p = &c->problem;
    if (p->features & ATT_CU_SEQLENS_Q) {
        const int64_t o[] = {p->total_q, p->heads_q, p->d_v}, lse[] = {p->heads_q, p->total_q};
        memcpy(c->o_shape, o, sizeof o);
        memcpy(c->lse_shape, lse, sizeof lse);
        c->o_ndim = 3;
        c->lse_ndim = 2;
    } else {
        const int64_t lse[] = {p->batch, p->heads_q, p->seq_q};
        memcpy(c->lse_shape, lse, sizeof lse);
        c->o_shape[0] = p->batch;
        c->o_shape[c->axis_head] = p->heads_q;
        c->o_shape[c->axis_seq] = p->seq_q;
        c->o_shape[3] = p->d_v;
        c->o_ndim = 4;
        c->lse_ndim = 3;
    }
}

static int take_out(call *c) {
    if (output_take(&c->o, c->given[ARG_OUT], c->o_shape, c->o_ndim, &c->tensors[ARG_Q]))
        return -1;
    c->problem.dtype_o = array_dtype(&c->o);
    c->o_object = c->given[ARG_OUT];
    Py_INCREF(c->o_object);
    return 0;
}

static int64_t common_alignment(const call *c) {
    return array_alignment((uintptr_t)c->args.q | (uintptr_t)c->args.k | (uintptr_t)c->args.v |
                           (uintptr_t)c->args.o | (uintptr_t)c->args.bias);
}

att_strides strides_of_output(const call *c, const int64_t *s) {
    return c->o_ndim == 3 ? (att_strides){0, s[1], s[0], s[2]}
                          : (att_strides){s[0], s[c->axis_head], s[c->axis_seq], s[3]};
}

att_strides strides_of_lse(const call *c, const int64_t *s) {
    return c->lse_ndim == 2 ? (att_strides){0, s[0], s[1], 0}
                            : (att_strides){s[0], s[1], s[2], 0};
}

static void set_o_strides(call *c, const int64_t *s) {
    c->problem.o = strides_of_output(c, s);
}

static void set_lse_strides(call *c, const int64_t *s) {
    c->problem.lse = strides_of_lse(c, s);
    c->problem.features |= ATT_LSE;
}

/* Strides of an O that is not made yet. */
static void lay_out(int64_t *strides, const call *c) {
    output_lay_out(strides, c->o_shape, c->o_ndim, &c->tensors[ARG_Q]);
}

static int create_o(call *c, const int64_t *strides, size_t spare) {
    const tensor_plan wanted = {.ndim = c->o_ndim,
                                .shape = c->o_shape,
                                .dtype = array_dtype_name(c->problem.dtype_o),
                                .strides = strides,
                                .spare = spare};
    c->o_object = tensor_create(&c->o, "the output", c->frame, c->given[ARG_Q],
                                c->tensors[ARG_Q].device, &wanted);
    c->args.o = c->o.data;
    return c->o_object ? 0 : -1;
}

static int create_lse(call *c) {
    const tensor_plan wanted = {.ndim = c->lse_ndim, .shape = c->lse_shape, .dtype = "float32"};
    c->lse_object = tensor_create(&c->lse, "the LSE", c->frame, c->given[ARG_Q],
                                  c->tensors[ARG_Q].device, &wanted);
    c->args.lse = c->lse.data;
    return c->lse_object ? 0 : -1;
}

static int build_o(call *c) {
    if (c->given[ARG_OUT]) {
        if (take_out(c))
            return -1;
        c->args.o = c->o.data;
    } else if (c->frame->exchange) {
        lay_out(c->o.strides, c);
    } else if (create_o(c, NULL, 0)) {
        return -1;
    }
    set_o_strides(c, c->o.strides);
    return 0;
}

static int build_lse(call *c) {
    if (c->frame->exchange)
        tensor_contiguous(c->lse.strides, c->lse_shape, c->lse_ndim);
    else if (create_lse(c))
        return -1;
    set_lse_strides(c, c->lse.strides);
    return 0;
}

int outputs_build(call *c) {
    set_shapes(c);
    if (build_o(c) || (c->return_lse && build_lse(c)))
        return -1;
    if (tensor_on_gpu(c->tensors[ARG_Q].device))
        c->problem.alignment = common_alignment(c);
    return 0;
}

int outputs_create(call *c, size_t spare) {
    int64_t strides[TENSOR_DIMS];
    if (!c->o_object) {
        lay_out(strides, c);
        if (create_o(c, strides, spare))
            return -1;
    }
    return c->return_lse && !c->lse_object ? create_lse(c) : 0;
}

/* `out`, given as a description, sets the dtype of O. */
static int describe_out(call *c) {
    if (!c->given[ARG_OUT])
        return 0;
    if (tensor_describe(&c->o, argument_names[ARG_OUT], c->given[ARG_OUT]))
        return -1;
    c->problem.dtype_o = array_dtype(&c->o);
    if (!c->problem.dtype_o || c->problem.dtype_o == ATT_BOOL8)
        return array_wrong_type(&c->o, "float32, float16 or bfloat16");
    return 0;
}

int outputs_describe(call *c) {
    int64_t strides[TENSOR_DIMS];
    set_shapes(c);
    if (describe_out(c))
        return -1;
    tensor_contiguous(strides, c->o_shape, c->o_ndim);
    set_o_strides(c, strides);
    if (c->return_lse) {
        tensor_contiguous(strides, c->lse_shape, c->lse_ndim);
        set_lse_strides(c, strides);
    }
    return 0;
}
