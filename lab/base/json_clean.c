/* json_clean.c: cleans every string of a document. */
#include "lab/base/json_clean.h"

#include <stdlib.h>
#include <string.h>

#include "lab/base/clean_text.h"

static void clean_string(json_t *value) {
    char *copy = strdup(json_string_value(value));
    if (!copy || strcmp(lab_clean_line(copy), json_string_value(value)) != 0)
        json_string_set(value, copy ? copy : "");
    free(copy);
}

void lab_json_clean(json_t *value) {
    const char *key;
    json_t *child;
    size_t i;
    if (json_is_string(value))
        clean_string(value);
    json_object_foreach(value, key, child) lab_json_clean(child);
    json_array_foreach(value, i, child) lab_json_clean(child);
}
