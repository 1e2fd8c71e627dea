/* spec_values.h: values of modifiers, for the words of every operation. `value` is NULL if none
 * was given. */
#ifndef LAB_SPEC_VALUES_H
#define LAB_SPEC_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/base/message.h"
#include "lab/problem/spec_names.h"

/* An integer of at least `least`. */
bool lab_read_integer(const char *text, int64_t least, int64_t *out);

bool lab_set_integer(const char *name, const char *value, int64_t least, int64_t *out,
                     lab_message *why);
bool lab_set_float(const char *name, const char *value, float *out, lab_message *why);
bool lab_set_named(const char *name, const char *value, const lab_name *names, int *out,
                   lab_message *why);

/* A modifier without a value. */
bool lab_set_flag(const char *name, const char *value, lab_message *why);

#endif
