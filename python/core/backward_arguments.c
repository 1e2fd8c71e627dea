/* backward_arguments.c: the arguments of backward() and their meaning: everything but the
 * destination of the gradients. */
#include "python/core/backward_call.h"

#include <string.h>

const char *const backward_names[BACKWARD_COUNT] = {"q",
                                                    "k",
                                                    "v",
                                                    "o",
                                                    "lse",
                                                    "d_o",
                                                    "causal",
                                                    "scale",
                                                    "window",
                                                    "align",
                                                    "softcap",
                                                    "alibi",
                                                    "bias",
                                                    "sinks",
                                                    "cu_seqlens_q",
                                                    "cu_seqlens_k",
                                                    "max_seqlen_q",
                                                    "max_seqlen_k",
                                                    "lens_k",
                                                    "starts_k",
                                                    "q_offset",
                                                    "k_offset",
                                                    "page_table",
                                                    "layout",
                                                    "d_bias",
                                                    "d_sinks",
                                                    "d_alibi",
                                                    "grad_dtype",
                                                    "out"};

static PyObject *interned[BACKWARD_COUNT];
static const argument_table arguments = {backward_names, interned, BACKWARD_COUNT,
                                         BACKWARD_D_O + 1, "q, k, v, o, lse and d_o"};

/* Copy the arguments that attention() has to where it expects them. */
static void share_arguments(backward_call *b) {
    PyObject **of_forward = b->forward.given;
    for (int i = BACKWARD_Q; i <= BACKWARD_V; i++)
        of_forward[ARG_Q + i] = b->given[i];
    for (int i = ARG_CAUSAL; i <= ARG_PAGE_TABLE; i++)
        of_forward[i] = b->given[BACKWARD_FORWARD + i - ARG_CAUSAL];
    of_forward[ARG_LAYOUT] = b->given[BACKWARD_LAYOUT];
}

/* Open O, d_o or the LSE, which must have this shape and be on the device of q. */
static int look_into(backward_call *b, tensor *t, backward_argument which, const int64_t *shape,
                     int ndim) {
    call *f = &b->forward;
    if (f->described ? tensor_describe(t, backward_names[which], b->given[which])
                     : tensor_borrow(t, backward_names[which], b->given[which]))
        return -1;
    if (t->ndim != ndim || memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) != 0) {
        tensor fits = {.ndim = ndim};
        char text[TENSOR_TEXT];
        memcpy(fits.shape, shape, (size_t)ndim * sizeof *shape);
        return array_wrong_shape(t, tensor_shape_text(&fits, text));
    }
    return array_check_device(t, &f->tensors[ARG_Q]);
}

static int read_outputs_of_forward(backward_call *b) {
    call *f = &b->forward;
    char own[TENSOR_TEXT], other[TENSOR_TEXT];
    outputs_describe(f); /* sets the shapes, and features as with return_lse */
    if (look_into(b, &f->o, BACKWARD_O, f->o_shape, f->o_ndim) || array_check_rows(&f->o) ||
        look_into(b, &f->lse, BACKWARD_LSE, f->lse_shape, f->lse_ndim) ||
        array_check_forwards(&f->lse) ||
        look_into(b, &b->d_o, BACKWARD_D_O, f->o_shape, f->o_ndim) || array_check_rows(&b->d_o))
        return -1;
    const att_dtype dtype = array_dtype(&f->o);
    if (!dtype || dtype == ATT_BOOL8)
        return array_wrong_type(&f->o, "float32, float16 or bfloat16");
    if (array_dtype(&f->lse) != ATT_F32)
        return array_wrong_type(&f->lse, "float32");
    if (array_dtype(&b->d_o) != dtype) {
        PyErr_Format(PyExc_TypeError, "d_o is %s, o is %s: they must have one dtype",
                     tensor_type_text(&b->d_o, own), tensor_type_text(&f->o, other));
        return -1;
    }
    f->problem.dtype_o = dtype;
    f->problem.o = strides_of_output(f, f->o.strides);
    f->problem.lse = strides_of_lse(f, f->lse.strides);
    f->problem.grad_o = strides_of_output(f, b->d_o.strides);
    f->args.o = f->o.data;
    f->args.lse = f->lse.data;
    f->args.d_o = b->d_o.data;
    return 0;
}

/* A flag that asks for a gradient, which requires the corresponding input. */
static int read_wanted(backward_call *b, backward_argument which, argument of, uint32_t bit) {
    if (!b->given[which])
        return 0;
    const int wanted = PyObject_IsTrue(b->given[which]);
    if (wanted <= 0)
        return wanted;
    if (!b->forward.given[of]) {
        PyErr_Format(PyExc_TypeError, "%s needs %s", backward_names[which], argument_names[of]);
        return -1;
    }
    b->forward.problem.gradients |= bit;
    return 0;
}

static int read_grad_dtype(backward_call *b) {
    PyObject *value = b->given[BACKWARD_GRAD_DTYPE];
    att_problem *p = &b->forward.problem;
    const char *own = array_dtype_name(p->dtype);
    p->dtype_grad = p->dtype;
    if (!value || (PyUnicode_Check(value) && !PyUnicode_CompareWithASCIIString(value, own)))
        return 0;
    if (PyUnicode_Check(value) && !PyUnicode_CompareWithASCIIString(value, "float32")) {
        p->dtype_grad = ATT_F32;
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "grad_dtype is %R; expected '%s', as q, or 'float32'", value,
                 own);
    return -1;
}

/* An input with its own gradient must have an element for each of its numbers. */
static int check_sources(const backward_call *b) {
    const call *f = &b->forward;
    const tensor *bias = &f->tensors[ARG_BIAS], *alibi = &f->tensors[ARG_ALIBI];
    if (f->problem.gradients & ATT_D_BIAS) {
        if (f->problem.bias_dtype == ATT_BOOL8) {
            PyErr_SetString(PyExc_TypeError, "d_bias needs a bias that is added: it is bool");
            return -1;
        }
        for (int i = 0; i < bias->ndim; i++)
            if (bias->shape[i] > 1 && bias->strides[i] == 0) {
                PyErr_Format(PyExc_ValueError,
                             "bias has a stride of 0 along axis %d: for d_bias, which is "
                             "summed there, its size must be 1",
                             i);
                return -1;
            }
    }
    if (f->problem.gradients & ATT_D_ALIBI && alibi->ndim == 2 && alibi->shape[0] > 1 &&
        alibi->strides[0] != alibi->shape[1]) {
        PyErr_SetString(PyExc_ValueError, "alibi is not contiguous: for d_alibi it must be");
        return -1;
    }
    return 0;
}

int backward_build(backward_call *b, const char *function, PyObject *const *args,
                   Py_ssize_t count, PyObject *names) {
    return arguments_read(b->given, &arguments, function, args, count, names)
               ? -1
               : backward_build_given(b, function);
}

int backward_build_given(backward_call *b, const char *function) {
    share_arguments(b);
    if (b->given[BACKWARD_FORWARD + ARG_PAGE_TABLE - ARG_CAUSAL]) {
        PyErr_Format(PyExc_TypeError,
                     "%s() got page_table: gradients of k and v in pages are not computed",
                     function);
        return -1;
    }
    b->forward.return_lse = true;
    return problem_build(&b->forward) || read_outputs_of_forward(b) || read_grad_dtype(b) ||
                   read_wanted(b, BACKWARD_D_BIAS, ARG_BIAS, ATT_D_BIAS) ||
                   read_wanted(b, BACKWARD_D_SINKS, ARG_SINKS, ATT_D_SINKS) ||
                   read_wanted(b, BACKWARD_D_ALIBI, ARG_ALIBI, ATT_D_ALIBI) || check_sources(b)
               ? -1
               : 0;
}

void backward_drop(backward_call *b) {
    call_drop(&b->forward);
    tensor_drop(&b->d_o);
    for (int i = 0; i < GRADIENT_COUNT; i++) {
        tensor_drop(&b->outputs[i]);
        Py_CLEAR(b->objects[i]);
    }
}
