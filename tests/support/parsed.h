/* parsed.h: a problem from its line, for tests with a line that is known to be valid. */
#ifndef TESTS_SUPPORT_PARSED_H
#define TESTS_SUPPORT_PARSED_H

#include "lab/problem/spec.h"

/* The finished spec. Fails the test if the line is refused. */
lab_spec parsed(const char *text);

#endif
