/* parsed.h: a problem from its line, in tests where the line is known to be good. */
#ifndef TESTS_SUPPORT_PARSED_H
#define TESTS_SUPPORT_PARSED_H

#include "lab/problem/spec.h"

/* The finished spec. Fails the test where the line is refused. */
lab_spec parsed(const char *text);

#endif
