/* shrink.h: from a problem that fails to a small one that still does. */
#ifndef TESTS_SUPPORT_SHRINK_H
#define TESTS_SUPPORT_SHRINK_H

#include "tests/support/candidate.h"

/* Whether the problem shows the failure; it is asked often. */
typedef bool failing(const lab_spec *spec, void *arg);

/* Drop settings and halve numbers while `fails` holds; `c` fails on entry and on return. Returns how often
 * `fails` was asked. */
int shrink(candidate *c, failing *fails, void *arg);

#endif
