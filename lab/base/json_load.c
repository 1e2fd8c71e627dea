/* json_load.c: reads a whole file, parses it and cleans its strings. */
#include "lab/base/json_load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lab/base/json_clean.h"

static bool grow(char **bytes, size_t *room) {
    const size_t wanted = *room ? 2 * *room : 1 << 16;
    char *grown = realloc(*bytes, wanted);
    if (!grown)
        return false;
    *bytes = grown;
    *room = wanted;
    return true;
}

static bool read_all(FILE *file, const char *name, char **out, size_t *length,
                     lab_message *why) {
    size_t room = 0;
    *out = NULL;
    *length = 0;
    errno = 0;
    do {
        if (*length == room && !grow(out, &room))
            return lab_fail(why, "%s: no memory to read it", name);
        *length += fread(*out + *length, 1, room - *length, file);
        if (*length > LAB_JSON_BYTES_MOST)
            return lab_fail(why, "%s: is larger than %d MiB", name, LAB_JSON_BYTES_MOST >> 20);
    } while (!feof(file) && !ferror(file));
    return !ferror(file) ||
           lab_fail(why, "%s: %s", name, errno ? strerror(errno) : "cannot be read");
}

bool lab_json_bytes(const char *path, char **out, size_t *length, lab_message *why) {
    FILE *file = fopen(path, "rbe");
    *out = NULL;
    *length = 0;
    if (!file)
        return lab_fail(why, "%s: %s", path, strerror(errno));
    const bool ok = read_all(file, path, out, length, why);
    fclose(file);
    return ok;
}

json_t *lab_json_parse(const char *bytes, size_t length, const char *name, lab_message *why) {
    json_error_t error;
    json_t *document = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);
    if (document)
        lab_json_clean(document);
    else
        lab_fail(why, "%s:%d: %s", name, error.line, error.text);
    return document;
}

json_t *lab_json_read(FILE *file, const char *name, lab_message *why) {
    char *bytes;
    size_t length;
    json_t *document = NULL;
    if (read_all(file, name, &bytes, &length, why))
        document = lab_json_parse(bytes, length, name, why);
    free(bytes);
    return document;
}

json_t *lab_json_load(const char *path, lab_message *why) {
    char *bytes;
    size_t length;
    json_t *document = NULL;
    if (lab_json_bytes(path, &bytes, &length, why))
        document = lab_json_parse(bytes, length, path, why);
    free(bytes);
    return document;
}
