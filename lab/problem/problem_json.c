/* problem_json.c: sizes and types of a problem as JSON. */
#include "lab/problem/problem_json.h"

#include "lab/problem/lab_operation.h"

json_t *lab_json_problem(const lab_spec *spec) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    json_t *object = spec->operation->shape(spec);
    json_object_set_new(object, "spec", json_string(line));
    return object;
}
