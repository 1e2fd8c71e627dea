/* json_clean.h: strings of a JSON document from outside. */
#ifndef LAB_JSON_CLEAN_H
#define LAB_JSON_CLEAN_H

#include <jansson.h>

/* Clean every string below `value`, as lab/base/clean_text.h says. A string that is clean stays where it is; one that memory runs
 * out for becomes empty. */
void lab_json_clean(json_t *value);

#endif
