/* problem_json.h: a problem in a JSON document. */
#ifndef LAB_PROBLEM_JSON_H
#define LAB_PROBLEM_JSON_H

#include <jansson.h>

#include "lab/problem/spec.h"

/* The sizes and types of a problem, with its line. */
json_t *lab_json_problem(const lab_spec *spec);

#endif
