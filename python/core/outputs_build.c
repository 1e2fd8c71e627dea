/* outputs_build.c: where the answers go: arrays of the caller's, or new ones of the framework of q. */
#include "python/core/problem_build.h"

#include <string.h>

static const char *name_of(att_dtype dtype) {
    return dtype == ATT_F16 ? "float16" : dtype == ATT_BF16 ? "bfloat16" : "float32";
}

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
    tensor *o = &c->o;
    PyObject *given = c->given[ARG_OUT];
    char own[TENSOR_TEXT], wanted[TENSOR_TEXT];
    framework *frame = framework_of(given, "out");
    if (!frame || tensor_borrow(o, "out", given))
        return -1;
    if (frame->immutable || o->read_only) {
        PyErr_SetString(PyExc_ValueError, "out may not be written to");
        return -1;
    }
    const tensor shape = {
        .ndim = c->o_ndim,
        .shape = {c->o_shape[0], c->o_shape[1], c->o_shape[2], c->o_shape[3]}};
    tensor_shape_text(&shape, wanted);
    if (strcmp(tensor_shape_text(o, own), wanted) != 0) {
        PyErr_Format(PyExc_ValueError, "out has the shape %s: %s would fit", own, wanted);
        return -1;
    }
    tensor_device_text(c->tensors[ARG_Q].device, wanted);
    if (strcmp(tensor_device_text(o->device, own), wanted) != 0) {
        PyErr_Format(PyExc_ValueError, "out is on %s, q is on %s: they must be on one device",
                     own, wanted);
        return -1;
    }
    bool known = o->type.lanes == 1 &&
                 ((o->type.code == DL_FLOAT && (o->type.bits == 16 || o->type.bits == 32)) ||
                  (o->type.code == DL_BFLOAT && o->type.bits == 16));
    if (!known) {
        PyErr_Format(PyExc_TypeError, "out is %s: float32, float16 or bfloat16 would fit",
                     tensor_type_text(o, own));
        return -1;
    }
    c->problem.dtype_o = o->type.code == DL_BFLOAT ? ATT_BF16
                         : o->type.bits == 16      ? ATT_F16
                                                   : ATT_F32;
    Py_INCREF(given);
    c->o_object = given;
    return 0;
}

/* Bytes to which q, k, v and o all lie, at most 16: a GPU takes a faster path where it is 16. */
static int64_t common_alignment(const call *c) {
    const uintptr_t bits = (uintptr_t)c->args.q | (uintptr_t)c->args.k | (uintptr_t)c->args.v |
                           (uintptr_t)c->args.o | 16;
    return (int64_t)(bits & (~bits + 1));
}

static int build_lse(call *c) {
    att_problem *p = &c->problem;
    c->lse_object =
        tensor_create(&c->lse, "the LSE", c->frame, c->given[ARG_Q], c->tensors[ARG_Q].device,
                      c->lse_ndim, c->lse_shape, "float32");
    if (!c->lse_object)
        return -1;
    const int64_t *s = c->lse.strides;
    p->lse =
        c->lse_ndim == 2 ? (att_strides){0, s[0], s[1], 0} : (att_strides){s[0], s[1], s[2], 0};
    p->features |= ATT_LSE;
    c->args.lse = c->lse.data;
    return 0;
}

int outputs_build(call *c) {
    att_problem *p = &c->problem;
    set_shapes(c);
    if (c->given[ARG_OUT]) {
        if (take_out(c))
            return -1;
    } else {
        c->o_object =
            tensor_create(&c->o, "the output", c->frame, c->given[ARG_Q],
                          c->tensors[ARG_Q].device, c->o_ndim, c->o_shape, name_of(p->dtype_o));
        if (!c->o_object)
            return -1;
    }
    const int64_t *s = c->o.strides;
    p->o = c->o_ndim == 3 ? (att_strides){0, s[1], s[0], s[2]}
                          : (att_strides){s[0], s[c->axis_head], s[c->axis_seq], s[3]};
    if (c->return_lse && build_lse(c))
        return -1;
    c->args.o = c->o.data;
    if (tensor_on_gpu(c->tensors[ARG_Q].device))
        p->alignment = common_alignment(c);
    return 0;
}
