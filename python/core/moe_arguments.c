/* moe_arguments.c: opens and checks the arguments of moe(), and turns them into a problem of
 * the library. */
#include "python/core/moe_call.h"
#include "python/core/arguments.h"

#include <string.h>

const char *const moe_argument_names[MOE_COUNT] = {
    [MOE_X] = "x",
    [MOE_W1] = "w1",
    [MOE_W2] = "w2",
    [MOE_LOGITS] = "logits",
    [MOE_IDS] = "ids",
    [MOE_WEIGHTS] = "weights",
    [MOE_W3] = "w3",
    [MOE_B1] = "b1",
    [MOE_B2] = "b2",
    [MOE_B3] = "b3",
    [MOE_CORRECTION] = "correction",
    [MOE_MASK] = "mask",
    [MOE_TOP_K] = "top_k",
    [MOE_ACTIVATION] = "activation",
    [MOE_ROUTING] = "routing",
    [MOE_RENORMALISE] = "renormalise",
    [MOE_SCALING] = "scaling",
    [MOE_ALPHA] = "alpha",
    [MOE_LIMIT] = "limit",
    [MOE_GROUPS] = "groups",
    [MOE_GROUPS_KEPT] = "groups_kept",
    [MOE_INTERLEAVED] = "interleaved",
    [MOE_TRANSPOSED] = "transposed",
    [MOE_EXPERTS] = "experts",
    [MOE_FIRST_EXPERT] = "first_expert",
    [MOE_OUT] = "out",
    [MOE_RETURN_ROUTING] = "return_routing",
};

/* ------------------------------------------------------------------ plain values */

static int read_flag(const moe_call *m, moe_argument which, bool *value) {
    const int truth = m->given[which] ? PyObject_IsTrue(m->given[which]) : *value;
    *value = truth > 0;
    return truth < 0 ? -1 : 0;
}

static int read_number(const moe_call *m, moe_argument which, float *value) {
    return arguments_number(value, m->given[which], moe_argument_names[which]);
}

static int read_count(const moe_call *m, moe_argument which, int64_t *value) {
    if (!m->given[which])
        return 0;
    *value = PyLong_AsLongLong(m->given[which]);
    if (*value != -1 || !PyErr_Occurred())
        return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s is %R: a whole number is needed",
                 moe_argument_names[which], m->given[which]);
    return -1;
}

typedef struct word {
    const char *name;
    int value;
} word;

static const word activations[] = {{"swiglu", ATT_MOE_SWIGLU},
                                   {"geglu", ATT_MOE_GEGLU},
                                   {"geglu-tanh", ATT_MOE_GEGLU_TANH},
                                   {"swiglu-clamped", ATT_MOE_SWIGLU_CLAMPED},
                                   {"relu2", ATT_MOE_RELU2},
                                   {"silu", ATT_MOE_SILU},
                                   {"gelu", ATT_MOE_GELU},
                                   {"gelu-tanh", ATT_MOE_GELU_TANH},
                                   {NULL, 0}};
static const word routings[] = {{"softmax", ATT_MOE_SOFTMAX_TOPK},
                                {"topk", ATT_MOE_TOPK_SOFTMAX},
                                {"sigmoid", ATT_MOE_SIGMOID},
                                {NULL, 0}};

static int read_word(const moe_call *m, moe_argument which, const word *words, int *value) {
    PyObject *given = m->given[which];
    if (!given)
        return 0;
    char known[160] = "";
    for (const word *w = words; w->name; w++) {
        if (PyUnicode_Check(given) && !PyUnicode_CompareWithASCIIString(given, w->name)) {
            *value = w->value;
            return 0;
        }
        const size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s'%s'", w == words ? "" : ", ",
                 w->name);
    }
    PyErr_Format(PyExc_ValueError, "%s is %R; expected one of %s", moe_argument_names[which],
                 given, known);
    return -1;
}

/* ------------------------------------------------------------------------ arrays */

static int look(moe_call *m) {
    for (int i = 0; i < MOE_ARRAYS; i++) {
        tensor *t = &m->array[i];
        if (!m->given[i])
            continue;
        if ((m->described ? tensor_describe(t, moe_argument_names[i], m->given[i])
                          : tensor_borrow(t, moe_argument_names[i], m->given[i])) ||
            array_check_device(t, &m->array[MOE_X]) || array_check_forwards(t))
            return -1;
    }
    return 0;
}

/* An array with these sizes (1 to 3 of them) and a contiguous last axis. */
static int check_shape(const tensor *t, int ndim, const int64_t *shape) {
    bool fits = t->ndim == ndim;
    for (int i = 0; fits && i < ndim; i++)
        fits = t->shape[i] == shape[i];
    if (!fits) {
        char text[TENSOR_TEXT];
        tensor wanted = {.ndim = ndim};
        memcpy(wanted.shape, shape, (size_t)ndim * sizeof *shape);
        return array_wrong_shape(t, tensor_shape_text(&wanted, text));
    }
    return array_check_contiguous(t, "its last axis");
}

/* The same, and rows without gaps. */
static int check_dense(const tensor *t, int ndim, const int64_t *shape) {
    if (check_shape(t, ndim, shape))
        return -1;
    if (ndim == 2 && tensor_count(t) && shape[0] > 1 && t->strides[0] != shape[1]) {
        PyErr_Format(PyExc_ValueError, "%s has gaps between its rows: make it contiguous",
                     t->name);
        return -1;
    }
    return 0;
}

static int check_type(const tensor *t, att_dtype a, att_dtype b) {
    const att_dtype is = array_dtype(t);
    if (is == a || is == b)
        return 0;
    char fits[64];
    snprintf(fits, sizeof fits, "%s%s%s", array_dtype_name(a), a == b ? "" : " or ",
             a == b ? "" : array_dtype_name(b));
    return array_wrong_type(t, fits);
}

static int check_integers(const tensor *t) {
    return t->type.code == DL_INT && t->type.bits == 32 && t->type.lanes == 1
               ? 0
               : array_wrong_type(t, "int32");
}

static int check_mask_type(const tensor *t) {
    return (t->type.code == DL_BOOL || t->type.code == DL_UINT) && t->type.bits == 8 &&
                   t->type.lanes == 1
               ? 0
               : array_wrong_type(t, "bool");
}

/* The stride of an axis with one element means nothing. */
static int64_t stride_of(const tensor *t, int axis) {
    return t->shape[axis] > 1 ? t->strides[axis] : 0;
}

static att_moe_strides weight_strides(const tensor *t) {
    return (att_moe_strides){stride_of(t, 0), stride_of(t, 1)};
}

/* ----------------------------------------------------------------------- together */

static int need(const moe_call *m, moe_argument which, const char *why) {
    if (m->given[which])
        return 0;
    PyErr_Format(PyExc_TypeError, "%s is missing: %s", moe_argument_names[which], why);
    return -1;
}

static int forbid(const moe_call *m, moe_argument which, const char *why) {
    if (!m->given[which])
        return 0;
    PyErr_Format(PyExc_ValueError, "%s is given, but %s", moe_argument_names[which], why);
    return -1;
}

static bool has_gate(const att_moe_problem *p) {
    return p->activation <= ATT_MOE_SWIGLU_CLAMPED;
}

/* x, w1 and w2 determine all sizes. */
static int read_sizes(moe_call *m) {
    att_moe_problem *p = &m->problem;
    const tensor *x = &m->array[MOE_X], *w2 = &m->array[MOE_W2];
    const bool is_transposed = p->flags & ATT_MOE_TRANSPOSED;
    p->dtype = array_dtype(x);
    if (p->dtype != ATT_F32 && p->dtype != ATT_F16 && p->dtype != ATT_BF16)
        return array_wrong_type(x, "float32, float16 or bfloat16");
    if (x->ndim != 2)
        return array_wrong_shape(x, "(tokens, hidden)");
    if (w2->ndim != 3)
        return array_wrong_shape(
            w2, is_transposed ? "(experts, inner, hidden)" : "(experts, hidden, inner)");
    p->tokens = x->shape[0];
    p->hidden = x->shape[1];
    p->local_experts = w2->shape[0];
    p->inner = w2->shape[is_transposed ? 1 : 2];
    p->experts = m->given[MOE_LOGITS] && m->array[MOE_LOGITS].ndim == 2
                     ? m->array[MOE_LOGITS].shape[1]
                     : p->first_expert + p->local_experts;
    return read_count(m, MOE_EXPERTS, &p->experts);
}

static int check_weights(const moe_call *m) {
    const att_moe_problem *p = &m->problem;
    const bool is_apart = p->gate == ATT_MOE_APART;
    const int64_t e = p->local_experts, h = p->hidden, i = p->inner;
    const int64_t rows = has_gate(p) && !is_apart ? 2 * i : i;
    const struct {
        moe_argument which;
        int64_t rows, columns;
    } all[] = {{MOE_W1, rows, h}, {MOE_W2, h, i}, {MOE_W3, i, h}};
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        const tensor *t = &m->array[all[n].which];
        const int64_t plain[] = {e, all[n].rows, all[n].columns};
        const int64_t turned[] = {e, all[n].columns, all[n].rows};
        if (m->given[all[n].which] &&
            (check_type(t, p->dtype, p->dtype) ||
             check_shape(t, 3, p->flags & ATT_MOE_TRANSPOSED ? turned : plain)))
            return -1;
    }
    const struct {
        moe_argument which;
        int64_t columns;
    } biases[] = {{MOE_B1, rows}, {MOE_B2, h}, {MOE_B3, i}};
    for (size_t n = 0; n < sizeof biases / sizeof *biases; n++) {
        const int64_t shape[] = {e, biases[n].columns};
        const tensor *t = &m->array[biases[n].which];
        if (m->given[biases[n].which] &&
            (check_type(t, p->dtype_bias, p->dtype_bias) || check_shape(t, 2, shape)))
            return -1;
    }
    return 0;
}

static int check_routing(moe_call *m) {
    att_moe_problem *p = &m->problem;
    const tensor *array = m->array;
    const int64_t logits[] = {p->tokens, p->experts};
    const int64_t slots[] = {p->tokens, p->experts_per_token};
    if (m->given[MOE_LOGITS]) {
        if (check_type(&array[MOE_LOGITS], ATT_F32, p->dtype) ||
            check_shape(&array[MOE_LOGITS], 2, logits))
            return -1;
        p->dtype_logits = array_dtype(&array[MOE_LOGITS]);
        p->logits_row = stride_of(&array[MOE_LOGITS], 0);
    }
    if (m->given[MOE_IDS] &&
        (check_integers(&array[MOE_IDS]) || check_dense(&array[MOE_IDS], 2, slots)))
        return -1;
    if (m->given[MOE_WEIGHTS] && (check_type(&array[MOE_WEIGHTS], ATT_F32, ATT_F32) ||
                                  check_dense(&array[MOE_WEIGHTS], 2, slots)))
        return -1;
    if (m->given[MOE_CORRECTION] && (check_type(&array[MOE_CORRECTION], ATT_F32, ATT_F32) ||
                                     check_dense(&array[MOE_CORRECTION], 1, &p->experts)))
        return -1;
    return m->given[MOE_MASK] && (check_mask_type(&array[MOE_MASK]) ||
                                  check_dense(&array[MOE_MASK], 1, &p->tokens))
               ? -1
               : 0;
}

/* Where the experts of a token come from: logits and top_k, or ids and weights. */
static int choose_routing(moe_call *m) {
    att_moe_problem *p = &m->problem;
    if (!m->given[MOE_IDS])
        return need(m, MOE_LOGITS, "the router's, or else ids and weights") ||
               forbid(m, MOE_WEIGHTS, "ids are not") ||
               need(m, MOE_TOP_K, "how many experts a token has");
    if (need(m, MOE_WEIGHTS, "those of ids") ||
        forbid(m, MOE_LOGITS, "ids say where tokens go") ||
        forbid(m, MOE_ROUTING, "ids say where tokens go") ||
        forbid(m, MOE_RENORMALISE, "weights are taken as they are") ||
        forbid(m, MOE_TOP_K, "ids say how many experts a token has"))
        return -1;
    if (m->array[MOE_IDS].ndim != 2)
        return array_wrong_shape(&m->array[MOE_IDS], "(tokens, experts per token)");
    p->routing = ATT_MOE_GIVEN;
    p->flags &= ~(uint32_t)ATT_MOE_RENORMALISE;
    p->experts_per_token = m->array[MOE_IDS].shape[1];
    return 0;
}

static int read_options(moe_call *m) {
    att_moe_problem *p = &m->problem;
    bool renormalise = true, transposed = false, interleaved = false;
    int activation = ATT_MOE_SWIGLU, routing = ATT_MOE_SOFTMAX_TOPK;
    if (read_flag(m, MOE_RENORMALISE, &renormalise) ||
        read_flag(m, MOE_TRANSPOSED, &transposed) ||
        read_flag(m, MOE_INTERLEAVED, &interleaved) ||
        read_flag(m, MOE_RETURN_ROUTING, &m->return_routing) ||
        read_word(m, MOE_ACTIVATION, activations, &activation) ||
        read_word(m, MOE_ROUTING, routings, &routing) ||
        read_number(m, MOE_SCALING, &p->scaling) || read_number(m, MOE_ALPHA, &p->alpha) ||
        read_number(m, MOE_LIMIT, &p->limit) || read_count(m, MOE_GROUPS, &p->groups) ||
        read_count(m, MOE_GROUPS_KEPT, &p->groups_kept) ||
        read_count(m, MOE_TOP_K, &p->experts_per_token) ||
        read_count(m, MOE_FIRST_EXPERT, &p->first_expert))
        return -1;
    if (interleaved && forbid(m, MOE_W3, "interleaved says that w1 has both"))
        return -1;
    if (activation != ATT_MOE_SWIGLU_CLAMPED &&
        (forbid(m, MOE_ALPHA, "only activation='swiglu-clamped' has it") ||
         forbid(m, MOE_LIMIT, "only activation='swiglu-clamped' has it")))
        return -1;
    p->activation = (att_moe_activation)activation;
    p->routing = (att_moe_routing)routing;
    p->flags =
        (renormalise ? ATT_MOE_RENORMALISE : 0u) | (transposed ? ATT_MOE_TRANSPOSED : 0u);
    p->gate = m->given[MOE_W3] ? ATT_MOE_APART
              : interleaved    ? ATT_MOE_INTERLEAVED
                               : ATT_MOE_CONCATENATED;
    p->features = (m->given[MOE_B1] ? ATT_MOE_BIAS1 : 0u) |
                  (m->given[MOE_B2] ? ATT_MOE_BIAS2 : 0u) |
                  (m->given[MOE_CORRECTION] ? ATT_MOE_CORRECTION : 0u) |
                  (m->given[MOE_MASK] ? ATT_MOE_MASK : 0u) |
                  (m->return_routing ? ATT_MOE_IDS | ATT_MOE_WEIGHTS | ATT_MOE_COUNTS : 0u);
    return 0;
}

static int check_biases(moe_call *m) {
    att_moe_problem *p = &m->problem;
    const moe_argument all[] = {MOE_B1, MOE_B2, MOE_B3};
    p->dtype_bias = p->dtype;
    for (int i = 2; i >= 0; i--)
        if (m->given[all[i]]) {
            if (check_type(&m->array[all[i]], ATT_F32, p->dtype))
                return -1;
            p->dtype_bias = array_dtype(&m->array[all[i]]);
        }
    if (p->gate == ATT_MOE_APART && m->given[MOE_B1])
        return need(m, MOE_B3, "w3 has a bias where w1 has");
    return m->given[MOE_B3] ? forbid(m, MOE_B3, "w3 and b1 are not both") : 0;
}

static void lay_out(moe_call *m) {
    att_moe_problem *p = &m->problem;
    const tensor *array = m->array;
    p->x_row = stride_of(&array[MOE_X], 0);
    p->y_row = p->hidden;
    p->w1 = weight_strides(&array[MOE_W1]);
    p->w2 = weight_strides(&array[MOE_W2]);
    if (m->given[MOE_W3])
        p->w3 = weight_strides(&array[MOE_W3]);
    if (m->given[MOE_B1])
        p->b1_expert = stride_of(&array[MOE_B1], 0);
    if (m->given[MOE_B2])
        p->b2_expert = stride_of(&array[MOE_B2], 0);
    if (m->given[MOE_B3])
        p->b3_expert = stride_of(&array[MOE_B3], 0);
}

int moe_problem_build(moe_call *m) {
    att_moe_problem *p = &m->problem;
    memset(p, 0, sizeof *p); /* padding too: the bytes are the key of the plan */
    att_moe_problem_init(p, 0, 0, 0, 1, 1, ATT_F32);
    if (look(m) || read_options(m) || choose_routing(m) || read_sizes(m))
        return -1;
    p->dtype_y = p->dtype;
    const int64_t rows[] = {p->tokens, p->hidden};
    if (check_biases(m) || check_shape(&m->array[MOE_X], 2, rows) || check_weights(m))
        return -1;
    att_moe_problem_layout(p);
    lay_out(m);
    return check_routing(m);
}
