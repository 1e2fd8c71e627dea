/* merge_call.c: merge() from its arguments to the answer. */
#include "python/core/merge_call.h"
#include "python/core/arguments.h"
#include "python/core/output.h"

#include <string.h>

static const char *const names_of_arguments[MERGE_COUNT] = {"parts_o", "parts_lse", "layout",
                                                            "out", "return_lse"};
static PyObject *interned[MERGE_COUNT];
static const argument_table arguments = {names_of_arguments, interned, MERGE_COUNT,
                                         MERGE_PARTS_LSE + 1, "parts_o and parts_lse"};

static int read_return_lse(merge_call *m) {
    const int wanted =
        m->given[MERGE_RETURN_LSE] ? PyObject_IsTrue(m->given[MERGE_RETURN_LSE]) : 1;
    m->return_lse = wanted > 0;
    return wanted < 0 ? -1 : 0;
}

static int create(merge_call *m, tensor *made, PyObject **object, const char *name,
                  const tensor *like, att_dtype dtype) {
    int64_t strides[TENSOR_DIMS];
    output_lay_out(strides, like->shape, like->ndim, like);
    const tensor_plan wanted = {.ndim = like->ndim,
                                .shape = like->shape,
                                .dtype = array_dtype_name(dtype),
                                .strides = strides};
    *object = tensor_create(made, name, m->frame, m->parts_o.first, m->parts_o.parts[0].device,
                            &wanted);
    return *object ? 0 : -1;
}

static int build_outputs(merge_call *m) {
    const tensor *o = &m->parts_o.parts[0], *lse = &m->parts_lse.parts[0];
    if (m->given[MERGE_OUT]) {
        if (output_take(&m->o, m->given[MERGE_OUT], o->shape, o->ndim, o))
            return -1;
        m->shape.dtype_o = array_dtype(&m->o);
        m->o_object = m->given[MERGE_OUT];
        Py_INCREF(m->o_object);
    } else if (create(m, &m->o, &m->o_object, "the output", o, m->shape.dtype)) {
        return -1;
    }
    return m->return_lse ? create(m, &m->lse, &m->lse_object, "the LSE", lse, ATT_F32) : 0;
}

static PyObject *answer(const merge_call *m) {
    PyObject *o = m->o_object, *lse = NULL;
    if (m->given[MERGE_OUT])
        Py_INCREF(o);
    else
        o = output_finish(m->frame, o, m->shape.dtype_o);
    if (o && m->return_lse && !(lse = output_finish(m->frame, m->lse_object, ATT_F32)))
        Py_CLEAR(o);
    return output_pair(o, lse);
}

static void drop(merge_call *m) {
    part_list_drop(&m->parts_o);
    part_list_drop(&m->parts_lse);
    tensor_drop(&m->o);
    tensor_drop(&m->lse);
    Py_CLEAR(m->o_object);
    Py_CLEAR(m->lse_object);
}

PyObject *merge(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    (void)self;
    merge_call m = {.frame = NULL};
    PyObject *result = NULL;
    if (!arguments_read(m.given, &arguments, "merge", args, count, names) &&
        !read_return_lse(&m) && !merge_parts_check(&m) && !build_outputs(&m) &&
        !merge_steps_run(&m))
        result = answer(&m);
    drop(&m);
    return result;
}

PyObject *describe_merge(PyObject *self, PyObject *args) {
    (void)self;
    long long parts, batch, heads, rows, d;
    att_merge_problem p;
    if (!PyArg_ParseTuple(args, "LLLLL", &parts, &batch, &heads, &rows, &d))
        return NULL;
    memset(&p, 0, sizeof p); /* padding too: the bytes are the key of the plan */
    att_merge_problem_init(&p, parts, batch, heads, rows, d, ATT_F32);
    p.o = p.part_o = (att_strides){heads * rows * d, rows * d, d, 1};
    return Py_BuildValue("y#", (const char *)&p, (Py_ssize_t)sizeof p);
}
