/* verify_json.h: the results of verify in a JSON document. */
#ifndef LAB_VERIFY_JSON_H
#define LAB_VERIFY_JSON_H

#include <jansson.h>

#include "lab/subject/subject.h"
#include "lab/verify/verify.h"

/* The result of one verification. */
json_t *lab_json_verify(const lab_verify_result *result);

/* Adds the errors of each output, as error_<name>. */
void lab_json_errors(json_t *json, const lab_verify_result *result,
                     json_t *(*object)(const lab_errors *errors));

/* "attest", or a peer's name and version. */
json_t *lab_json_subject(const lab_subject *subject);

/* A kernel's own launch record. */
json_t *lab_json_launch(const att_launch *launch);

#endif
