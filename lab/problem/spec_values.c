/* spec_values.c: reads the values of modifiers, with an error message if one is wrong. */
#include "lab/problem/spec_values.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool lab_read_integer(const char *text, int64_t least, int64_t *out) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < least)
        return false;
    *out = value;
    return true;
}

bool lab_set_integer(const char *name, const char *value, int64_t least, int64_t *out,
                     lab_message *why) {
    if (!value)
        return lab_fail(why, "%s needs a value, as in %s=4", name, name);
    if (!lab_read_integer(value, least, out))
        return lab_fail(why, "%s=%s is not a whole number of %lld or more", name, value,
                        (long long)least);
    return true;
}

bool lab_set_float(const char *name, const char *value, float *out, lab_message *why) {
    if (!value)
        return lab_fail(why, "%s needs a value, as in %s=0.5", name, name);
    char *end;
    *out = strtof(value, &end);
    if (end == value || *end != '\0')
        return lab_fail(why, "%s=%s is not a number", name, value);
    return true;
}

bool lab_set_named(const char *name, const char *value, const lab_name *names, int *out,
                   lab_message *why) {
    char list[192] = "";
    for (const lab_name *n = names; n->text; n++) {
        if (value && strcmp(value, n->text) == 0) {
            *out = n->value;
            return true;
        }
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", n->text);
    }
    return lab_fail(why, "%s=%s is none of: %s", name, value ? value : "", list);
}

bool lab_set_flag(const char *name, const char *value, lab_message *why) {
    return !value || lab_fail(why, "%s takes no value, not %s", name, value);
}
