/* json.h: the parts that all JSON documents of the laboratory share.
 *
 * A document is one object: "schema" (name and version), "made" (when, UTC), "attest" (library
 * version), "compiler", "machine", then the fields of the verb. JSON has no NaN or infinity:
 * such numbers become null. A value that jansson could not allocate makes lab_json_write()
 * fail. */
#ifndef LAB_JSON_H
#define LAB_JSON_H

#include <jansson.h>
#include <stdio.h>

#include "attest.h"
#include "lab/base/message.h"

/* A new document for `schema`, e.g. "attest-bench-2". ctx may be NULL: "machine" is then
 * null. */
json_t *lab_json_document(const char *schema, const att_context *ctx);

/* The number, or null if it is not finite. */
json_t *lab_json_number(double value);

json_t *lab_json_numbers(const double *values, size_t count);

/* The context: processor, device, threads, the instruction sets of the machine and those in
 * use. */
json_t *lab_json_machine(const att_context *ctx);

/* The GPU of a GPU context. */
json_t *lab_json_gpu(const att_context_info *info);

/* Write the document to `stream` and flush it; consumes `document`. Fails on NULL, which means
 * that memory ran out. */
bool lab_json_write(json_t *document, FILE *stream, lab_message *why);

#endif
