/* python_api.h: CPython's limited API of 3.9, which every later CPython supports: one binary
 * for all of them. */
#ifndef ATTEST_PYTHON_API_H
#define ATTEST_PYTHON_API_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#endif
