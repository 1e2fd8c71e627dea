/* launch_record.h: what ran: the last launch of each thread. */
#ifndef ATTEST_PYTHON_LAUNCH_RECORD_H
#define ATTEST_PYTHON_LAUNCH_RECORD_H

#include "attest.h"
#include "python/core/python_api.h"

/* The record of this thread, for a call to write. */
att_launch *launch_record(void);

/* A launch as a tuple; None if there was none. */
PyObject *launch_tuple(const att_launch *launch);

/* What the last call of this thread ran, or None. */
PyObject *last_launch(PyObject *self, PyObject *unused);

#endif
