/* json_node.h: reading JSON that may be wrong: every error message names the file and the
 * field. */
#ifndef LAB_JSON_NODE_H
#define LAB_JSON_NODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "lab/base/message.h"

/* A value and its path. Values point into the document. */
typedef struct lab_node {
    const char *file;
    char path[160]; /* "rows[3].launch"; "" for the document itself; truncated if longer */
    json_t *value;  /* NULL if there is no value */
} lab_node;

lab_node lab_node_root(const char *file, json_t *document);
lab_node lab_node_member(const lab_node *object, const char *name);
lab_node lab_node_element(const lab_node *array, size_t index);

/* Writes "FILE: PATH: TEXT" to `why`; returns false. */
bool lab_node_fail(const lab_node *place, const char *text, lab_message *why);

/* Whether the value is an object or an array; if not, `why` says so. */
bool lab_node_is_object(const lab_node *place, lab_message *why);
bool lab_node_is_array(const lab_node *place, lab_message *why);

/* Required fields of an object ... */
bool lab_node_text(const lab_node *object, const char *name, const char **out,
                   lab_message *why);
bool lab_node_number(const lab_node *object, const char *name, double *out, lab_message *why);

/* A string copied into a buffer of n bytes, which it must fit; the hexadecimal digits of a
 * SHA-256 with a terminating zero. */
bool lab_node_copy(const lab_node *object, const char *name, char *buf, size_t n,
                   lab_message *why);
bool lab_node_digest(const lab_node *object, const char *name, char buf[65], lab_message *why);

/* A string that must equal this one. */
bool lab_node_expect(const lab_node *object, const char *name, const char *want,
                     lab_message *why);

/* ... and optional ones: *out is unchanged if the field is missing or null. A wrong type is
 * still an error. */
bool lab_node_text_maybe(const lab_node *object, const char *name, const char **out,
                         lab_message *why);
bool lab_node_number_maybe(const lab_node *object, const char *name, double *out,
                           lab_message *why);

bool lab_node_flag_maybe(const lab_node *object, const char *name, bool *out, lab_message *why);

/* An integer of at least 0. */
bool lab_node_count_maybe(const lab_node *object, const char *name, json_int_t *out,
                          lab_message *why);

/* An object. *out is its place; its value is NULL if the field is missing or null, which every
 * function above accepts. */
bool lab_node_object_maybe(const lab_node *object, const char *name, lab_node *out,
                           lab_message *why);

/* A time: a number above 0 and below 10^18. */
bool lab_node_time(const lab_node *object, const char *name, double *out, lab_message *why);

/* An array of at least one time; *out is allocated, the caller frees it. */
bool lab_node_times(const lab_node *object, const char *name, double **out, size_t *count,
                    lab_message *why);

#endif
