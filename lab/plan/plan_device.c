/* plan_device.c: reads and checks device files, field by field. */
#include "lab/plan/plan_device.h"

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lab/base/data_file.h"
#include "lab/base/json_load.h"
#include "lab/base/json_node.h"
#include "lab/base/suggest.h"

static const lab_data_kind devices = {
    .what = "device", .folder = "devices", .suffix = ".json", .environment = "ATTEST_DEVICES"};

/* A limit: an integer field of att_cuda_limits. */
typedef struct limit_field {
    const char *name;
    size_t offset;
    double least, most;
    bool wide; /* int64_t, else int */
} limit_field;

#define LIMIT(name, field, least, most)                                                        \
    { name, offsetof(att_cuda_limits, field), least, most, false }
static const limit_field limit_fields[] = {
    LIMIT("compute_capability", cc, 80, 999),
    LIMIT("sms", sms, 1, 4096),
    LIMIT("threads_per_sm", threads_per_sm, 1024, 65536),
    LIMIT("warps_per_sm", warps_per_sm, 32, 2048),
    LIMIT("blocks_per_sm", blocks_per_sm, 1, 1024),
    LIMIT("registers_per_sm", registers_per_sm, 32768, 1 << 24),
    LIMIT("registers_per_block", registers_per_block, 32768, 1 << 24),
    LIMIT("shared_per_sm", shared_per_sm, 49152, 1 << 24),
    LIMIT("shared_per_block", shared_per_block, 49152, 1 << 24),
    LIMIT("shared_reserved", shared_reserved, 0, 65536),
    LIMIT("l2_bytes", l2_bytes, 0, 2147483647),
    {"memory_bytes", offsetof(att_cuda_limits, memory_bytes), 1, 1e15, true},
};
enum { LIMIT_COUNT = sizeof limit_fields / sizeof limit_fields[0] };

static const struct {
    const char *name;
    bool optional;
} rate_fields[LAB_RATE_COUNT] = {
    [LAB_RATE_CLOCK] = {"clock_hz", false},
    [LAB_RATE_TENSOR] = {"tensor_flops", false},
    [LAB_RATE_MEMORY] = {"memory_bytes", false},
    [LAB_RATE_EXP] = {"exp_per_clock_sm", false},
    [LAB_RATE_FP32] = {"fp32_per_clock_sm", false},
    [LAB_RATE_SHARED] = {"shared_bytes_per_clock_sm", false},
    [LAB_RATE_TENSOR_SEEN] = {"tensor_flops_measured", true},
    [LAB_RATE_MMA_SEEN] = {"mma_flops_measured", true},
    [LAB_RATE_MEMORY_SEEN] = {"memory_bytes_measured", true},
};

/* ---------------------------------------------------------------------- one field */

/* A source begins with its kind, then names itself. */
static bool is_source(const char *text) {
    static const char *const kinds[] = {"datasheet: ", "guide: ", "measured: "};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(text, kinds[i], strlen(kinds[i])) == 0 && text[strlen(kinds[i])])
            return true;
    return false;
}

/* A field {"value": number, "source": text} and nothing else; *source points into the
 * document. */
static bool read_field(const lab_node *field, double *value, const char **source,
                       lab_message *why) {
    if (!json_is_object(field->value))
        return lab_node_fail(
            field, field->value ? "expected an object with value and source" : "is missing",
            why);
    const char *key;
    json_t *ignored;
    json_object_foreach(field->value, key, ignored) {
        if (strcmp(key, "value") != 0 && strcmp(key, "source") != 0)
            return lab_fail(why, "%s: %s: unknown field '%s'; expected value and source",
                            field->file, field->path, key);
    }
    const lab_node at = lab_node_member(field, "source");
    *source = NULL;
    return lab_node_number(field, "value", value, why) &&
           lab_node_text_maybe(field, "source", source, why) &&
           ((*source && is_source(*source)) ||
            lab_node_fail(&at,
                          "expected text that begins with 'datasheet: ', 'guide: ' or "
                          "'measured: '",
                          why));
}

static bool read_limit(lab_device *device, const limit_field *f, const lab_node *section,
                       lab_message *why) {
    const lab_node field = lab_node_member(section, f->name);
    double value = 0.0;
    const char *source;
    if (!read_field(&field, &value, &source, why))
        return false;
    if (!(value >= f->least && value <= f->most) || value != (double)(int64_t)value)
        return lab_fail(why, "%s: %s.value: expected a whole number from %.0f to %.0f",
                        field.file, field.path, f->least, f->most);
    char *at = (char *)&device->limits + f->offset;
    if (f->wide)
        *(int64_t *)(void *)at = (int64_t)value;
    else
        *(int *)(void *)at = (int)value;
    return true;
}

static bool read_rate(lab_device *device, int kind, const lab_node *section, lab_message *why) {
    const lab_node field = lab_node_member(section, rate_fields[kind].name);
    const lab_node at = lab_node_member(&field, "value");
    lab_rate *rate = &device->rates[kind];
    if (!field.value && rate_fields[kind].optional)
        return true;
    const char *source;
    if (!read_field(&field, &rate->value, &source, why))
        return false;
    if (!(rate->value > 0.0 && rate->value < 1e18))
        return lab_node_fail(&at, "expected a number above 0", why);
    snprintf(rate->source, sizeof rate->source, "%s", source);
    return true;
}

/* ------------------------------------------------------------------ the document */

/* Every key of the object must be known; a misspelt key would otherwise look like a missing
 * one. */
static bool check_keys(const lab_node *section, const char *(*known)(int), int count,
                       lab_message *why) {
    if (!lab_node_is_object(section, why))
        return false;
    const char *key;
    json_t *ignored;
    json_object_foreach(section->value, key, ignored) {
        bool found = false;
        for (int i = 0; i < count && !found; i++)
            found = strcmp(key, known(i)) == 0;
        if (found)
            continue;
        lab_suggestion best = {0};
        for (int i = 0; i < count; i++)
            lab_suggest(&best, key, known(i));
        return lab_fail(why, "%s: %s: there is no field '%s'%s%s%s", section->file,
                        *section->path ? section->path : "the document", key,
                        best.word ? "; did you mean '" : "", best.word ? best.word : "",
                        best.word ? "'?" : "");
    }
    return true;
}

static const char *top_name(int i) {
    static const char *const names[] = {"schema", "name", "limits", "rates", "fitted"};
    return names[i];
}

static const char *limit_name(int i) {
    return limit_fields[i].name;
}

static const char *rate_name(int i) {
    return rate_fields[i].name;
}

static bool read_document(lab_device *device, json_t *value, lab_message *why) {
    const lab_node document = lab_node_root(device->from, value);
    const lab_node limits = lab_node_member(&document, "limits"),
                   rates = lab_node_member(&document, "rates"),
                   name = lab_node_member(&document, "name"),
                   fitted = lab_node_member(&document, "fitted");
    char *to = device->limits.name;
    if (!lab_node_is_object(&document, why) ||
        !lab_node_expect(&document, "schema", "attest-device-1", why) ||
        !lab_node_copy(&document, "name", to, sizeof device->limits.name, why) ||
        !(*to || lab_node_fail(&name, "is empty", why)) ||
        !check_keys(&document, top_name, 5, why) ||
        !(!fitted.value || json_is_boolean(fitted.value) ||
          lab_node_fail(&fitted, "expected true or false", why)) ||
        !check_keys(&limits, limit_name, LIMIT_COUNT, why) ||
        !check_keys(&rates, rate_name, LAB_RATE_COUNT, why))
        return false;
    device->fitted = json_is_true(fitted.value);
    for (int i = 0; i < LIMIT_COUNT; i++)
        if (!read_limit(device, &limit_fields[i], &limits, why))
            return false;
    for (int i = 0; i < LAB_RATE_COUNT; i++)
        if (!read_rate(device, i, &rates, why))
            return false;
    const att_cuda_limits *l = &device->limits;
    if (l->shared_per_block + l->shared_reserved > l->shared_per_sm)
        return lab_fail(
            why,
            "%s: limits.shared_per_block.value: %d and the %d reserved are more than "
            "shared_per_sm, %d",
            device->from, l->shared_per_block, l->shared_reserved, l->shared_per_sm);
    device->limits.clock_khz = (int)(device->rates[LAB_RATE_CLOCK].value / 1e3);
    return true;
}

static bool read_stream(lab_device *device, FILE *file, lab_message *why) {
    json_t *document = lab_json_read(file, device->from, why);
    const bool good = document && read_document(device, document, why);
    json_decref(document);
    return good;
}

bool lab_device_read(lab_device *device, const char *name, lab_message *why) {
    *device = (lab_device){.from = ""};
    FILE *file = lab_data_open(&devices, name, device->from, sizeof device->from, why);
    if (!file) {
        char names[256];
        lab_device_names(names, sizeof names);
        if (!strchr(name, '/') && *names)
            lab_fail(why,
                     "no device '%s'; there are %s, cuda and cuda:N, or the path of a file",
                     name, names);
        return false;
    }
    const bool good = read_stream(device, file, why);
    fclose(file);
    return good;
}

/* ------------------------------------------------------------------------- names */

const char *lab_rate_name(lab_rate_kind kind) {
    return rate_fields[kind].name;
}

typedef struct name_list {
    char *buf;
    size_t n, used;
} name_list;

static void append_name(const char *name, void *state) {
    name_list *list = state;
    const int wrote = list->used < list->n
                          ? snprintf(list->buf + list->used, list->n - list->used, "%s%s",
                                     list->used ? ", " : "", name)
                          : 0;
    list->used += wrote > 0 ? (size_t)wrote : 0;
}

void lab_device_each(void (*visit)(const char *name, void *state), void *state) {
    lab_data_list(&devices, visit, state);
}

void lab_device_names(char *buf, size_t n) {
    name_list list = {buf, n, 0};
    buf[0] = '\0';
    lab_data_list(&devices, append_name, &list);
}
