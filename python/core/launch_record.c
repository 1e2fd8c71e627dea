/* launch_record.c: written by the code that ran, not by the code that chose it. */
#include "python/core/launch_record.h"

static _Thread_local att_launch latest;

att_launch *launch_record(void) {
    return &latest;
}

PyObject *launch_tuple(const att_launch *launch) {
    if (!launch->kernel)
        Py_RETURN_NONE;
    return Py_BuildValue("(s(III)(III)KIs)", launch->kernel, launch->grid[0], launch->grid[1],
                         launch->grid[2], launch->block[0], launch->block[1], launch->block[2],
                         (unsigned long long)launch->shared_bytes, launch->registers,
                         launch->code_sha256);
}

PyObject *last_launch(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return launch_tuple(&latest);
}
