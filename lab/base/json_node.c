/* json_node.c: values of a JSON document with their paths. */
#include "lab/base/json_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lab_node lab_node_root(const char *file, json_t *document) {
    return (lab_node){.file = file, .value = document};
}

lab_node lab_node_member(const lab_node *object, const char *name) {
    lab_node place = {.file = object->file, .value = json_object_get(object->value, name)};
    /* truncated if too long */
    (void)!snprintf(place.path, sizeof place.path, "%.100s%s%.50s", object->path,
                    *object->path ? "." : "", name);
    return place;
}

lab_node lab_node_element(const lab_node *array, size_t index) {
    lab_node place = {.file = array->file, .value = json_array_get(array->value, index)};
    (void)!snprintf(place.path, sizeof place.path, "%.100s[%zu]", array->path, index);
    return place;
}

bool lab_node_fail(const lab_node *place, const char *text, lab_message *why) {
    return lab_fail(why, "%s: %s%s%s", place->file, place->path, *place->path ? ": " : "",
                    text);
}

bool lab_node_is_object(const lab_node *place, lab_message *why) {
    return json_is_object(place->value) ||
           lab_node_fail(place, place->value ? "expected an object" : "is missing", why);
}

bool lab_node_is_array(const lab_node *place, lab_message *why) {
    return json_is_array(place->value) ||
           lab_node_fail(place, place->value ? "expected an array" : "is missing", why);
}

static bool is_absent(const lab_node *place) {
    return !place->value || json_is_null(place->value);
}

bool lab_node_text_maybe(const lab_node *object, const char *name, const char **out,
                         lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    if (is_absent(&place))
        return true;
    if (!json_is_string(place.value))
        return lab_node_fail(&place, "expected text", why);
    *out = json_string_value(place.value);
    return true;
}

bool lab_node_number_maybe(const lab_node *object, const char *name, double *out,
                           lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    if (is_absent(&place))
        return true;
    if (!json_is_number(place.value))
        return lab_node_fail(&place, "expected a number", why);
    *out = json_number_value(place.value);
    return true;
}

bool lab_node_flag_maybe(const lab_node *object, const char *name, bool *out,
                         lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    if (is_absent(&place))
        return true;
    if (!json_is_boolean(place.value))
        return lab_node_fail(&place, "expected true or false", why);
    *out = json_is_true(place.value);
    return true;
}

bool lab_node_count_maybe(const lab_node *object, const char *name, json_int_t *out,
                          lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    if (is_absent(&place))
        return true;
    if (!json_is_integer(place.value) || json_integer_value(place.value) < 0)
        return lab_node_fail(&place, "expected a whole number, 0 or more", why);
    *out = json_integer_value(place.value);
    return true;
}

bool lab_node_object_maybe(const lab_node *object, const char *name, lab_node *out,
                           lab_message *why) {
    *out = lab_node_member(object, name);
    if (is_absent(out))
        out->value = NULL;
    return !out->value || lab_node_is_object(out, why);
}

static bool must_be_there(const lab_node *object, const char *name, lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    return !is_absent(&place) || lab_node_fail(&place, "is missing", why);
}

bool lab_node_text(const lab_node *object, const char *name, const char **out,
                   lab_message *why) {
    return must_be_there(object, name, why) && lab_node_text_maybe(object, name, out, why);
}

bool lab_node_number(const lab_node *object, const char *name, double *out, lab_message *why) {
    return must_be_there(object, name, why) && lab_node_number_maybe(object, name, out, why);
}

bool lab_node_copy(const lab_node *object, const char *name, char *buf, size_t n,
                   lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    const char *text = NULL;
    if (!lab_node_text(object, name, &text, why))
        return false;
    if (strlen(text) >= n)
        return lab_node_fail(&place, "is too long", why);
    snprintf(buf, n, "%s", text);
    return true;
}

bool lab_node_expect(const lab_node *object, const char *name, const char *want,
                     lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    const char *text = NULL;
    char words[192];
    if (!lab_node_text(object, name, &text, why))
        return false;
    snprintf(words, sizeof words, "is %.60s, expected %.80s", text, want);
    return strcmp(text, want) == 0 || lab_node_fail(&place, words, why);
}

bool lab_node_digest(const lab_node *object, const char *name, char buf[65], lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    const char *text = NULL;
    if (!lab_node_text(object, name, &text, why))
        return false;
    if (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)
        return lab_node_fail(&place, "is not a digest", why);
    snprintf(buf, 65, "%s", text);
    return true;
}

static bool is_time(double value) {
    return value > 0.0 && value < 1e18;
}

bool lab_node_time(const lab_node *object, const char *name, double *out, lab_message *why) {
    if (!lab_node_number(object, name, out, why))
        return false;
    const lab_node place = lab_node_member(object, name);
    return is_time(*out) || lab_node_fail(&place, "expected a time above 0", why);
}

bool lab_node_times(const lab_node *object, const char *name, double **out, size_t *count,
                    lab_message *why) {
    const lab_node place = lab_node_member(object, name);
    *out = NULL;
    *count = json_array_size(place.value);
    if (!lab_node_is_array(&place, why))
        return false;
    if (*count == 0)
        return lab_node_fail(&place, "expected at least one sample", why);
    double *times = malloc(*count * sizeof *times);
    if (!times)
        return lab_fail(why, "no memory for %zu samples", *count);
    for (size_t i = 0; i < *count; i++) {
        const lab_node element = lab_node_element(&place, i);
        times[i] = json_number_value(element.value);
        if (!is_time(times[i])) {
            free(times);
            return lab_node_fail(&element, "expected a time above 0", why);
        }
    }
    *out = times;
    return true;
}
