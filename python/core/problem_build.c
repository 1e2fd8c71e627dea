/* problem_build.c: opens the arrays of a call and checks them against each other, so that an
 * error names the argument at fault and not a field of a C struct. */
#include "python/core/problem_build.h"

#include <math.h>
#include <string.h>

static int borrow(call *c, argument which) {
    tensor *t = &c->tensors[which];
    if (c->described ? tensor_describe(t, argument_names[which], c->given[which])
                     : tensor_borrow(t, argument_names[which], c->given[which]))
        return -1;
    return array_check_device(t, &c->tensors[ARG_Q]);
}

static int check_dtypes(call *c) {
    const tensor *q = &c->tensors[ARG_Q];
    char own[TENSOR_TEXT], other[TENSOR_TEXT];
    att_dtype dtype = array_dtype(q);
    if (!dtype || dtype == ATT_BOOL8)
        return array_wrong_type(q, "float32, float16 or bfloat16");
    for (argument i = ARG_K; i <= ARG_V; i++)
        if (array_dtype(&c->tensors[i]) != dtype) {
            PyErr_Format(PyExc_TypeError, "%s is %s, q is %s: q, k and v must have one dtype",
                         argument_names[i], tensor_type_text(&c->tensors[i], own),
                         tensor_type_text(q, other));
            return -1;
        }
    c->problem.dtype = c->problem.dtype_o = dtype;
    return 0;
}

/* Sizes and strides of q, k or v, in any axis order. */
typedef struct extents {
    int64_t batch, heads, rows, d;
} extents;

static int read_extents(extents *e, att_strides *s, const call *c, const tensor *t,
                        bool packed) {
    if (packed) {
        if (t->ndim != 3)
            return array_wrong_shape(t, "(total rows, heads, head dimension) with cu_seqlens");
        *e = (extents){0, t->shape[1], t->shape[0], t->shape[2]};
        *s = (att_strides){0, t->strides[1], t->strides[0], t->strides[2]};
    } else {
        if (t->ndim != 4)
            return array_wrong_shape(t, c->axis_seq == 1
                                            ? "(batch, rows, heads, head dimension)"
                                            : "(batch, heads, rows, head dimension)");
        const int h = c->axis_head, r = c->axis_seq;
        *e = (extents){t->shape[0], t->shape[h], t->shape[r], t->shape[3]};
        *s = (att_strides){t->strides[0], t->strides[h], t->strides[r], t->strides[3]};
    }
    if (e->d < 1 || e->d > 256) {
        PyErr_Format(PyExc_ValueError, "%s has a head dimension of %lld; expected 1 to 256",
                     t->name, (long long)e->d);
        return -1;
    }
    if (e->heads < 1)
        return array_wrong_shape(t, "one head or more");
    return array_check_rows(t);
}

/* An optional array of 32-bit integers or floats: contiguous along its last axis. */
static int borrow_list(call *c, argument which, int code, const char *type, int ndim,
                       const char *fits) {
    tensor *t = &c->tensors[which];
    if (borrow(c, which))
        return -1;
    if (t->type.code != code || t->type.bits != 32 || t->type.lanes != 1)
        return array_wrong_type(t, type);
    if (t->ndim < 1 || t->ndim > ndim)
        return array_wrong_shape(t, fits);
    if (t->shape[t->ndim - 1] > 1 && t->strides[t->ndim - 1] != 1) {
        PyErr_Format(PyExc_ValueError, "%s is not contiguous", t->name);
        return -1;
    }
    return 0;
}

static int read_most(int64_t *out, const call *c, argument which) {
    *out = PyLong_AsLongLong(c->given[which]);
    if (*out >= 0 && !PyErr_Occurred())
        return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s is %R; expected a number of rows", argument_names[which],
                 c->given[which]);
    return -1;
}

/* The longest sequence, given by the caller or, on the CPU, computed. */
static int find_longest(int64_t *out, const call *c, argument lengths, argument most) {
    const tensor *t = &c->tensors[lengths];
    if (c->given[most])
        return read_most(out, c, most);
    if (c->described) {
        PyErr_Format(PyExc_TypeError,
                     "%s is needed: the values in %s are not known before the call runs",
                     argument_names[most], t->name);
        return -1;
    }
    if (tensor_on_gpu(t->device)) {
        PyErr_Format(PyExc_TypeError, "%s is needed: reading it from %s would wait for the GPU",
                     argument_names[most], t->name);
        return -1;
    }
    const int32_t *starts = t->data;
    *out = 0;
    for (int64_t i = 1; i < t->shape[0]; i++)
        if (starts[i] - (int64_t)starts[i - 1] > *out)
            *out = starts[i] - (int64_t)starts[i - 1];
    return 0;
}

static int borrow_lengths(call *c, argument which) {
    if (borrow_list(c, which, DL_INT, "int32", 1, "(batch + 1,)"))
        return -1;
    return c->tensors[which].shape[0] < 1
               ? array_wrong_shape(&c->tensors[which], "(batch + 1,)")
               : 0;
}

static int check_batch(const call *c, const tensor *t, int64_t size, int64_t extra) {
    const int64_t wanted = c->problem.batch + extra;
    if (size == wanted)
        return 0;
    char text[TENSOR_TEXT];
    PyErr_Format(
        PyExc_ValueError,
        "%s has the shape %s; expected %lld along the first axis, as the batch is %lld",
        t->name, tensor_shape_text(t, text), (long long)wanted, (long long)c->problem.batch);
    return -1;
}

static int build_q(call *c) {
    att_problem *p = &c->problem;
    const tensor *q = &c->tensors[ARG_Q];
    const bool packed = c->given[ARG_CU_SEQLENS_Q];
    extents e;
    if (read_extents(&e, &p->q, c, q, packed))
        return -1;
    p->heads_q = e.heads;
    p->d_qk = e.d;
    p->batch = e.batch;
    p->seq_q = e.rows;
    if (!packed)
        return 0;
    if (borrow_lengths(c, ARG_CU_SEQLENS_Q) ||
        find_longest(&p->seq_q, c, ARG_CU_SEQLENS_Q, ARG_MAX_SEQLEN_Q))
        return -1;
    p->features |= ATT_CU_SEQLENS_Q;
    p->batch = c->tensors[ARG_CU_SEQLENS_Q].shape[0] - 1;
    p->total_q = e.rows;
    c->args.cu_seqlens_q = c->tensors[ARG_CU_SEQLENS_Q].data;
    return 0;
}

static int build_pages(call *c, const extents *k) {
    att_problem *p = &c->problem;
    tensor *table = &c->tensors[ARG_PAGE_TABLE];
    if (borrow_list(c, ARG_PAGE_TABLE, DL_INT, "int32", 2, "(batch, pages)"))
        return -1;
    if (table->ndim != 2)
        return array_wrong_shape(table, "(batch, pages)");
    if (check_batch(c, table, table->shape[0], 0))
        return -1;
    p->features |= ATT_PAGED;
    p->num_pages = k->batch;
    p->page_size = k->rows;
    p->page_table_stride = table->strides[0];
    p->seq_k = k->rows * table->shape[1];
    c->args.page_table = table->data;
    if (!c->given[ARG_MAX_SEQLEN_K])
        return 0;
    int64_t most;
    if (read_most(&most, c, ARG_MAX_SEQLEN_K))
        return -1;
    if (most > p->seq_k) {
        PyErr_Format(PyExc_ValueError,
                     "max_seqlen_k is %lld: page_table has room for %lld keys", (long long)most,
                     (long long)p->seq_k);
        return -1;
    }
    p->seq_k = most;
    return 0;
}

/* Lengths or starts, one per batch entry. */
static int build_counts(call *c, argument which, uint32_t feature, const int32_t **out) {
    const tensor *counts = &c->tensors[which];
    if (!c->given[which])
        return 0;
    if (borrow_list(c, which, DL_INT, "int32", 1, "(batch,)") ||
        check_batch(c, counts, counts->shape[0], 0))
        return -1;
    c->problem.features |= feature;
    *out = counts->data;
    return 0;
}

/* A position: one for all batch entries, or one per entry. */
static int build_offset(call *c, argument which, uint32_t feature, int64_t *all,
                        const int32_t **each) {
    PyObject *value = c->given[which];
    if (value && PyFloat_Check(value)) {
        PyErr_Format(PyExc_TypeError,
                     "%s is %R; expected a whole number, or an int32 array (batch,)",
                     argument_names[which], value);
        return -1;
    }
    if (!value || !PyLong_Check(value))
        return build_counts(c, which, feature, each);
    *all = PyLong_AsLongLong(value);
    if (!PyErr_Occurred())
        return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s is %R; expected a position of at least 0",
                 argument_names[which], value);
    return -1;
}

static int build_lengths_k(call *c) {
    att_problem *p = &c->problem;
    if (c->given[ARG_CU_SEQLENS_K]) {
        const tensor *starts = &c->tensors[ARG_CU_SEQLENS_K];
        if (borrow_lengths(c, ARG_CU_SEQLENS_K) || check_batch(c, starts, starts->shape[0], 1))
            return -1;
        p->features |= ATT_CU_SEQLENS_K;
        c->args.cu_seqlens_k = starts->data;
    }
    return build_counts(c, ARG_LENS_K, ATT_LENS_K, &c->args.lens_k) ||
                   build_counts(c, ARG_STARTS_K, ATT_STARTS_K, &c->args.starts_k) ||
                   build_offset(c, ARG_Q_OFFSET, ATT_Q_OFFSETS, &p->q_offset,
                                &c->args.q_offsets) ||
                   build_offset(c, ARG_K_OFFSET, ATT_K_OFFSETS, &p->k_offset,
                                &c->args.k_offsets)
               ? -1
               : 0;
}

static int build_kv(call *c) {
    att_problem *p = &c->problem;
    const tensor *k = &c->tensors[ARG_K], *v = &c->tensors[ARG_V];
    const bool paged = c->given[ARG_PAGE_TABLE], packed = c->given[ARG_CU_SEQLENS_K] && !paged;
    extents ek, ev;
    char text[TENSOR_TEXT];
    if (read_extents(&ek, &p->k, c, k, packed) || read_extents(&ev, &p->v, c, v, packed) ||
        build_lengths_k(c))
        return -1;
    if (ek.d != p->d_qk) {
        PyErr_Format(PyExc_ValueError,
                     "k has a head dimension of %lld, q of %lld: they must be equal",
                     (long long)ek.d, (long long)p->d_qk);
        return -1;
    }
    if (ev.batch != ek.batch || ev.heads != ek.heads || ev.rows != ek.rows) {
        PyErr_Format(PyExc_ValueError,
                     "v has the shape %s; expected that of k, except for the last axis",
                     tensor_shape_text(v, text));
        return -1;
    }
    if (p->heads_q % ek.heads) {
        PyErr_Format(PyExc_ValueError,
                     "q has %lld heads and k %lld; expected a multiple of those of k",
                     (long long)p->heads_q, (long long)ek.heads);
        return -1;
    }
    p->heads_kv = ek.heads;
    p->d_v = ev.d;
    p->seq_k = ek.rows;
    if (paged)
        return build_pages(c, &ek);
    if (!packed)
        return check_batch(c, k, ek.batch, 0);
    p->total_k = ek.rows;
    return find_longest(&p->seq_k, c, ARG_CU_SEQLENS_K, ARG_MAX_SEQLEN_K);
}

static int build_heads(call *c) {
    att_problem *p = &c->problem;
    const tensor *alibi = &c->tensors[ARG_ALIBI], *sinks = &c->tensors[ARG_SINKS];
    if (c->given[ARG_ALIBI]) {
        if (borrow_list(c, ARG_ALIBI, DL_FLOAT, "float32", 2, "(heads,) or (batch, heads)"))
            return -1;
        if (alibi->shape[alibi->ndim - 1] != p->heads_q ||
            (alibi->ndim == 2 && alibi->shape[0] != p->batch))
            return array_wrong_shape(alibi, "(heads of q,) or (batch, heads of q)");
        p->features |= ATT_ALIBI;
        p->alibi_stride_batch = alibi->ndim == 2 ? alibi->strides[0] : 0;
        c->args.alibi = alibi->data;
    }
    if (c->given[ARG_SINKS]) {
        if (borrow_list(c, ARG_SINKS, DL_FLOAT, "float32", 1, "(heads of q,)"))
            return -1;
        if (sinks->shape[0] != p->heads_q)
            return array_wrong_shape(sinks, "(heads of q,)");
        p->features |= ATT_SINKS;
        c->args.sinks = sinks->data;
    }
    return 0;
}

/* Broadcast as in NumPy and PyTorch: from the last axis, a size of 1 matches any. */
static int build_bias(call *c) {
    att_problem *p = &c->problem;
    const tensor *bias = &c->tensors[ARG_BIAS];
    if (!c->given[ARG_BIAS])
        return 0;
    if (borrow(c, ARG_BIAS))
        return -1;
    p->bias_dtype = array_dtype(bias);
    if (!p->bias_dtype)
        return array_wrong_type(bias, "bool, float32, float16 or bfloat16");
    const int64_t sizes[4] = {p->batch, p->heads_q, p->seq_q, p->seq_k};
    int64_t *const strides[4] = {&p->bias.batch, &p->bias.head, &p->bias.row, &p->bias.col};
    for (int axis = 0; axis < 4; axis++) {
        int own = axis - (4 - bias->ndim);
        *strides[axis] = 0;
        if (own < 0 || bias->shape[own] == 1)
            continue;
        if (bias->shape[own] != sizes[axis]) {
            char text[TENSOR_TEXT];
            PyErr_Format(PyExc_ValueError,
                         "bias has the shape %s; expected one that broadcasts to (%lld, %lld, "
                         "%lld, %lld)",
                         tensor_shape_text(bias, text), (long long)sizes[0],
                         (long long)sizes[1], (long long)sizes[2], (long long)sizes[3]);
            return -1;
        }
        *strides[axis] = bias->strides[own];
    }
    p->features |= ATT_BIAS;
    c->args.bias = bias->data;
    return 0;
}

static int check_needs(const call *c) {
    if (c->given[ARG_MAX_SEQLEN_Q] && !c->given[ARG_CU_SEQLENS_Q])
        PyErr_SetString(PyExc_TypeError, "max_seqlen_q needs cu_seqlens_q");
    else if (c->given[ARG_MAX_SEQLEN_K] && !c->given[ARG_CU_SEQLENS_K] &&
             !c->given[ARG_PAGE_TABLE])
        PyErr_SetString(PyExc_TypeError, "max_seqlen_k needs cu_seqlens_k or page_table");
    else
        return 0;
    return -1;
}

int problem_build(call *c) {
    att_problem *p = &c->problem;
    memset(p, 0, sizeof *p); /* padding too: the bytes are the key of the plan */
    p->size = sizeof *p;
    p->window_left = p->window_right = -1;
    c->args = (att_args){.size = sizeof c->args};
    c->frame = c->described ? NULL : framework_of(c->given[ARG_Q], "q");
    if ((!c->frame && !c->described) ||
        array_read_layout(c->given[ARG_LAYOUT], &c->axis_seq, &c->axis_head) ||
        check_needs(c) || borrow(c, ARG_Q) || borrow(c, ARG_K) || borrow(c, ARG_V) ||
        check_dtypes(c) || build_q(c) || build_kv(c) || build_heads(c) || build_bias(c))
        return -1;
    p->scale = (float)(1.0 / sqrt((double)p->d_qk));
    c->args.q = c->tensors[ARG_Q].data;
    c->args.k = c->tensors[ARG_K].data;
    c->args.v = c->tensors[ARG_V].data;
    return options_build(c);
}

void call_drop(call *c) {
    for (int i = 0; i < ARG_COUNT; i++)
        tensor_drop(&c->tensors[i]);
    tensor_drop(&c->o);
    tensor_drop(&c->lse);
    Py_CLEAR(c->o_object);
    Py_CLEAR(c->lse_object);
}
