/* shrink.h: reduces a failing problem to a small one that still fails. */
#ifndef TESTS_SUPPORT_SHRINK_H
#define TESTS_SUPPORT_SHRINK_H

#include "tests/support/candidate.h"

/* Whether the problem shows the failure; it is called often. */
typedef bool failing(const lab_spec *spec, void *arg);

/* Drop settings and halve numbers while `fails` holds; `c` fails on entry and on return.
 * Returns the number of calls of `fails`. */
int shrink(candidate *c, failing *fails, void *arg);

#endif
