/* json_load.h: untrusted JSON documents. Only this module opens and parses them; json_node.h
 * reads their values.
 *
 * Every error message names the document, and the line where there is one. A key may occur only
 * once in an object. Strings come cleaned (json_clean.h). Thread: safe. */
#ifndef LAB_JSON_LOAD_H
#define LAB_JSON_LOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lab/base/message.h"

/* The largest document that is accepted, in bytes. */
enum { LAB_JSON_BYTES_MOST = 1 << 28 };

/* The document in a file, owned by the caller. NULL if it cannot be read or is not JSON. */
json_t *lab_json_load(const char *path, lab_message *why);

/* The rest of an open file, called `name` in error messages. */
json_t *lab_json_read(FILE *file, const char *name, lab_message *why);

/* A document in memory. */
json_t *lab_json_parse(const char *bytes, size_t length, const char *name, lab_message *why);

/* The bytes of the file, for callers that need their digest. *out is allocated; the caller
 * frees it, also on failure. */
bool lab_json_bytes(const char *path, char **out, size_t *length, lab_message *why);

#endif
