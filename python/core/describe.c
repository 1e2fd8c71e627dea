/* describe.c: the problem of arrays that do not exist yet: in a program that is being
 * traced. */
#include "python/core/attention.h"
#include "python/core/problem_build.h"

PyObject *describe(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    (void)self;
    call c = {.described = true};
    PyObject *result = NULL;
    if (!arguments_read(c.given, &attention_arguments, "attention", args, count, names) &&
        !problem_build(&c) && !outputs_describe(&c))
        result = Py_BuildValue("(NNy#)", tensor_shape_tuple(c.o_shape, c.o_ndim),
                               tensor_shape_tuple(c.lse_shape, c.lse_ndim),
                               (const char *)&c.problem, (Py_ssize_t)sizeof c.problem);
    call_drop(&c);
    return result;
}
