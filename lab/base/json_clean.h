/* json_clean.h: strings of an untrusted JSON document. */
#ifndef LAB_JSON_CLEAN_H
#define LAB_JSON_CLEAN_H

#include <jansson.h>

/* Clean every string below `value`, as described in lab/base/clean_text.h. A clean string is
 * not copied. A string becomes empty if memory runs out. */
void lab_json_clean(json_t *value);

#endif
