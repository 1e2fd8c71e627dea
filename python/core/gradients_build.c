/* gradients_build.c: the destination of the gradients: the caller's arrays, or new ones of q's
 * framework, laid out like the arrays that they are the gradients of. */
#include "python/core/backward_call.h"
#include "python/core/output.h"

#include <string.h>

const char *const gradient_names[GRADIENT_COUNT] = {"d_q",    "d_k",     "d_v",
                                                    "d_bias", "d_sinks", "d_alibi"};

const tensor *gradient_like(const backward_call *b, gradient which) {
    static const argument sources[GRADIENT_COUNT] = {ARG_Q,    ARG_K,     ARG_V,
                                                     ARG_BIAS, ARG_SINKS, ARG_ALIBI};
    return &b->forward.tensors[sources[which]];
}

bool gradient_wanted(const backward_call *b, gradient which) {
    static const uint32_t bits[GRADIENT_COUNT] = {0,          0,           0,
                                                  ATT_D_BIAS, ATT_D_SINKS, ATT_D_ALIBI};
    return !bits[which] || b->forward.problem.gradients & bits[which];
}

att_dtype gradient_dtype(const backward_call *b, gradient which) {
    const att_problem *p = &b->forward.problem;
    return which <= GRADIENT_V                                  ? p->dtype_grad
           : which == GRADIENT_BIAS && p->dtype_grad != ATT_F32 ? p->bias_dtype
                                                                : ATT_F32;
}

static bool is_gpu(const call *f) {
    return tensor_on_gpu(f->tensors[ARG_Q].device);
}

/* Without a row and a key there is nothing to compute, and gradients that all batch entries
 * share would not be written. */
static bool has_no_pair(const att_problem *p) {
    return p->batch == 0 || p->seq_q == 0 || p->seq_k == 0;
}

static size_t bytes_of(const tensor *t) {
    return (size_t)tensor_count(t) * (t->type.bits / 8);
}

static int create(backward_call *b, gradient which) {
    call *f = &b->forward;
    const tensor *like = gradient_like(b, which);
    int64_t strides[TENSOR_DIMS];
    if (which <= GRADIENT_V)
        output_lay_out(strides, like->shape, like->ndim, like);
    else
        tensor_contiguous(strides, like->shape, like->ndim);
    const tensor_plan wanted = {.ndim = like->ndim,
                                .shape = like->shape,
                                .dtype = array_dtype_name(gradient_dtype(b, which)),
                                .strides = strides};
    b->objects[which] = tensor_create(&b->outputs[which], gradient_names[which], f->frame,
                                      f->given[ARG_Q], f->tensors[ARG_Q].device, &wanted);
    if (b->objects[which] && !is_gpu(f) && has_no_pair(&f->problem) && b->outputs[which].data)
        memset(b->outputs[which].data, 0, bytes_of(&b->outputs[which]));
    return b->objects[which] ? 0 : -1;
}

/* `out`: arrays for d_q, d_k and d_v, of one dtype. */
static int take_outputs(backward_call *b) {
    PyObject *out = b->given[BACKWARD_OUT];
    call *f = &b->forward;
    if (!PySequence_Check(out) || PySequence_Size(out) != 3) {
        PyErr_Clear();
        PyErr_SetString(PyExc_TypeError, "out is not three arrays, for d_q, d_k and d_v");
        return -1;
    }
    for (gradient i = GRADIENT_Q; i <= GRADIENT_V; i++) {
        const tensor *like = gradient_like(b, i);
        tensor *t = &b->outputs[i];
        b->objects[i] = PySequence_GetItem(out, i);
        if (!b->objects[i] ||
            output_take(t, b->objects[i], like->shape, like->ndim, &f->tensors[ARG_Q]) ||
            array_check_rows(t))
            return -1;
        const att_dtype dtype = array_dtype(t);
        if (dtype != f->problem.dtype && dtype != ATT_F32)
            return array_wrong_type(t, "the dtype of q, or float32");
        if (i > GRADIENT_Q && dtype != f->problem.dtype_grad) {
            PyErr_SetString(PyExc_TypeError, "the arrays of out must have one dtype");
            return -1;
        }
        f->problem.dtype_grad = dtype;
    }
    return 0;
}

static att_strides strides_of_rows(const call *f, const tensor *like, const int64_t *s) {
    return like->ndim == 3 ? (att_strides){0, s[1], s[0], s[2]}
                           : (att_strides){s[0], s[f->axis_head], s[f->axis_seq], s[3]};
}

/* The strides of d_bias: those of its array along full axes, 0 where the bias is broadcast. */
static att_strides strides_of_bias(const tensor *bias, const int64_t *s) {
    int64_t of[4] = {0, 0, 0, 0};
    for (int i = 0; i < bias->ndim; i++)
        if (bias->shape[i] != 1)
            of[4 - bias->ndim + i] = s[i];
    return (att_strides){of[0], of[1], of[2], of[3]};
}

static void set_strides(backward_call *b) {
    call *f = &b->forward;
    att_problem *p = &f->problem;
    p->grad_q = strides_of_rows(f, &f->tensors[ARG_Q], b->outputs[GRADIENT_Q].strides);
    p->grad_k = strides_of_rows(f, &f->tensors[ARG_K], b->outputs[GRADIENT_K].strides);
    p->grad_v = strides_of_rows(f, &f->tensors[ARG_V], b->outputs[GRADIENT_V].strides);
    if (gradient_wanted(b, GRADIENT_BIAS))
        p->grad_bias =
            strides_of_bias(&f->tensors[ARG_BIAS], b->outputs[GRADIENT_BIAS].strides);
}

/* The common alignment of everything that a GPU reads or writes as whole vectors. */
static int64_t common_alignment(const att_args *a) {
    return array_alignment((uintptr_t)a->q | (uintptr_t)a->k | (uintptr_t)a->v |
                           (uintptr_t)a->o | (uintptr_t)a->bias | (uintptr_t)a->d_o |
                           (uintptr_t)a->d_q | (uintptr_t)a->d_k | (uintptr_t)a->d_v |
                           (uintptr_t)a->d_bias);
}

int gradients_build(backward_call *b) {
    call *f = &b->forward;
    if (b->given[BACKWARD_OUT] && b->given[BACKWARD_GRAD_DTYPE]) {
        PyErr_SetString(PyExc_TypeError, "grad_dtype and out are both given: out has a dtype");
        return -1;
    }
    if (b->given[BACKWARD_OUT] && take_outputs(b))
        return -1;
    for (gradient i = GRADIENT_Q; i < GRADIENT_COUNT; i++)
        if (gradient_wanted(b, i) && !b->objects[i] && create(b, i))
            return -1;
    set_strides(b);
    f->args.d_q = b->outputs[GRADIENT_Q].data;
    f->args.d_k = b->outputs[GRADIENT_K].data;
    f->args.d_v = b->outputs[GRADIENT_V].data;
    f->args.d_bias = b->outputs[GRADIENT_BIAS].data;
    f->args.d_sinks = b->outputs[GRADIENT_SINKS].data;
    f->args.d_alibi = b->outputs[GRADIENT_ALIBI].data;
    if (is_gpu(f))
        f->problem.alignment = common_alignment(&f->args);
    return 0;
}

void gradients_describe(backward_call *b) {
    for (gradient i = GRADIENT_Q; i < GRADIENT_COUNT; i++) {
        const tensor *like = gradient_like(b, i);
        if (gradient_wanted(b, i))
            tensor_contiguous(b->outputs[i].strides, like->shape, like->ndim);
    }
    set_strides(b);
}
