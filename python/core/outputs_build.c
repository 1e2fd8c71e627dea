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
    if (o->ndim != c->o_ndim ||
        memcmp(o->shape, c->o_shape, (size_t)o->ndim * sizeof *o->shape) != 0) {
        const tensor shape = {
            .ndim = c->o_ndim,
            .shape = {c->o_shape[0], c->o_shape[1], c->o_shape[2], c->o_shape[3]}};
        PyErr_Format(PyExc_ValueError, "out has the shape %s: %s would fit",
                     tensor_shape_text(o, own), tensor_shape_text(&shape, wanted));
        return -1;
    }
    if (!tensor_same_device(o->device, c->tensors[ARG_Q].device)) {
        PyErr_Format(PyExc_ValueError, "out is on %s, q is on %s: they must be on one device",
                     tensor_device_text(o->device, own),
                     tensor_device_text(c->tensors[ARG_Q].device, wanted));
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

static void set_o_strides(call *c, const int64_t *s) {
    c->problem.o = c->o_ndim == 3 ? (att_strides){0, s[1], s[0], s[2]}
                                  : (att_strides){s[0], s[c->axis_head], s[c->axis_seq], s[3]};
}

static void set_lse_strides(call *c, const int64_t *s) {
    c->problem.lse =
        c->lse_ndim == 2 ? (att_strides){0, s[0], s[1], 0} : (att_strides){s[0], s[1], s[2], 0};
    c->problem.features |= ATT_LSE;
}

/* Which of two axes of q lies further out in memory: 1 the first, -1 the second, 0 where its strides do not tell. */
static int compare_axes(const tensor *q, int a, int b) {
    const int64_t first = q->strides[a], second = q->strides[b];
    if (first == 0 || second == 0)
        return 0;
    return first != second ? (first > second ? 1 : -1) : q->shape[a] > q->shape[b];
}

/* The axes of q but its last, the innermost first, sorted as torch.empty_like() does it. */
static void sort_axes(int order[3], const tensor *q) {
    for (int i = 0; i < 3; i++)
        order[i] = 2 - i;
    for (int i = 1; i < 3; i++)
        for (int inner = i - 1, outer = i; inner >= 0; inner--) {
            const int side = compare_axes(q, order[inner], order[outer]);
            if (side < 0)
                break;
            if (side == 0)
                continue;
            const int axis = order[inner];
            order[inner] = order[outer];
            order[outer] = axis;
            outer = inner;
        }
}

/* Strides of an O that is still to be made: dense, its last axis the innermost and the others in the order of q's, so that
 * a model that has its rows before its heads or its batch need not copy it. attest/_torch_operator.py has the same rule. */
static void lay_out(int64_t *strides, const call *c) {
    const int64_t *shape = c->o_shape;
    tensor_contiguous(strides, shape, c->o_ndim);
    if (c->o_ndim != 4)
        return;
    int order[3];
    sort_axes(order, &c->tensors[ARG_Q]);
    int64_t step = shape[3] ? shape[3] : 1;
    for (int i = 0; i < 3; i++) {
        strides[order[i]] = step;
        step *= shape[order[i]] ? shape[order[i]] : 1;
    }
}

static int create_o(call *c, const int64_t *strides, size_t spare) {
    const tensor_plan wanted = {.ndim = c->o_ndim,
                                .shape = c->o_shape,
                                .dtype = name_of(c->problem.dtype_o),
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

void outputs_describe(call *c) {
    int64_t strides[TENSOR_DIMS];
    set_shapes(c);
    tensor_contiguous(strides, c->o_shape, c->o_ndim);
    set_o_strides(c, strides);
    if (!c->return_lse)
        return;
    tensor_contiguous(strides, c->lse_shape, c->lse_ndim);
    set_lse_strides(c, strides);
}
