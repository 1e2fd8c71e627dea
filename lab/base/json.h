/* json.h: the parts that every JSON document of the laboratory shares.
 *
 * A document is one object: "schema" (name and version), "made" (when, UTC), "attest" (library version), "compiler",
 * "machine", then what the verb adds. JSON has no NaN or infinity: such numbers become null. Values
 * that jansson could not allocate surface in lab_json_write(). */
#ifndef LAB_JSON_H
#define LAB_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "attest.h"
#include "lab/base/message.h"

/* A new document for `schema`, e.g. "attest-bench-2"; ctx may be NULL: "machine" is then null. */
json_t *lab_json_document(const char *schema, const att_context *ctx);

/* The number, or null where it is not finite. */
json_t *lab_json_number(double value);

json_t *lab_json_numbers(const double *values, size_t count);

/* The context: processor, device, threads, instruction sets of the machine and in use. */
json_t *lab_json_machine(const att_context *ctx);

/* The GPU of a GPU context. */
json_t *lab_json_gpu(const att_context_info *info);

/* Write the document to `stream` and flush it; consumes `document`. NULL (memory ran out) fails. */
bool lab_json_write(json_t *document, FILE *stream, lab_message *why);

#endif
