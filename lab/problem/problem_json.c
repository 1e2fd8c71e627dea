/* problem_json.c: sizes and types of a problem as JSON. */
#include "lab/problem/problem_json.h"

#include "lab/problem/spec_names.h"

json_t *lab_json_shape(const att_problem *p) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "batch",
                     (json_int_t)p->batch, "heads_q", (json_int_t)p->heads_q, "heads_kv",
                     (json_int_t)p->heads_kv, "seq_q", (json_int_t)p->seq_q, "seq_k",
                     (json_int_t)p->seq_k, "d_qk", (json_int_t)p->d_qk, "d_v",
                     (json_int_t)p->d_v, "dtype", lab_name_of(lab_dtype_names, (int)p->dtype),
                     "dtype_o", lab_name_of(lab_dtype_names, (int)p->dtype_o));
}

json_t *lab_json_problem(const lab_spec *spec) {
    char line[LAB_SPEC_MAX];
    lab_spec_print(spec, line, sizeof line);
    json_t *object = lab_json_shape(&spec->problem);
    json_object_set_new(object, "spec", json_string(line));
    return object;
}
