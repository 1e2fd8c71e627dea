/* launch_record.h: what ran: the latest launch of each thread. */
#ifndef ATTEST_PYTHON_LAUNCH_RECORD_H
#define ATTEST_PYTHON_LAUNCH_RECORD_H

#include "attest.h"
#include "python/core/python_api.h"

/* This thread's, for a call to write to. */
att_launch *launch_record(void);

/* A launch as a tuple, None where there was none. */
PyObject *launch_tuple(const att_launch *launch);

/* What the latest call of this thread ran, or None. */
PyObject *last_launch(PyObject *self, PyObject *unused);

#endif
