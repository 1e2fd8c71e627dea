/* npy_header.c: a strict parser for the one Python literal in a .npy header. */
#include "lab/problem/npy_header.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"

/* Magic, two version bytes, then the header's length: 2 bytes in version 1, 4 in later
 * versions. */
static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
enum { PREFIX_V1 = 10, PREFIX_V2 = 12, HEADER_ALIGN = 64 };

static const struct {
    const char *descr, *name;
    size_t size;
} types[] = {
    [LAB_NPY_BOOL] = {"|b1", "bool", 1},         [LAB_NPY_UINT8] = {"|u1", "uint8", 1},
    [LAB_NPY_UINT16] = {"<u2", "uint16", 2},     [LAB_NPY_RAW16] = {"|V2", "raw (|V2)", 2},
    [LAB_NPY_BFLOAT16] = {"<V2", "bfloat16", 2}, [LAB_NPY_INT32] = {"<i4", "int32", 4},
    [LAB_NPY_INT64] = {"<i8", "int64", 8},       [LAB_NPY_FLOAT16] = {"<f2", "float16", 2},
    [LAB_NPY_FLOAT32] = {"<f4", "float32", 4},   [LAB_NPY_FLOAT64] = {"<f8", "float64", 8},
};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

const char *lab_npy_type_name(lab_npy_type type) {
    return types[type].name;
}

size_t lab_npy_type_size(lab_npy_type type) {
    return types[type].size;
}

typedef struct cursor {
    const char *at, *end;
    const char *path;
    lab_message *why;
} cursor;

static bool malformed(const cursor *c, const char *what) {
    return lab_fail(c->why, "%s: malformed .npy header: %s", c->path, what);
}

static void skip_spaces(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n'))
        c->at++;
}

static bool accept(cursor *c, char wanted) {
    skip_spaces(c);
    if (c->at == c->end || *c->at != wanted)
        return false;
    c->at++;
    return true;
}

static bool accept_word(cursor *c, const char *word) {
    const size_t n = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

/* A quoted string without escapes, truncated to the size of `out`. */
static bool read_string(cursor *c, char *out, size_t size) {
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    const char quote = *c->at++;
    const char *start = c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\')
        c->at++;
    if (c->at == c->end || *c->at != quote)
        return false;
    snprintf(out, size, "%.*s", (int)(c->at - start), start);
    c->at++;
    return true;
}

static bool read_type(cursor *c, lab_npy_type *type) {
    char descr[32];
    if (!read_string(c, descr, sizeof descr))
        return lab_fail(c->why, "%s: 'descr' is not a plain element type", c->path);
    for (int i = 0; i < TYPE_COUNT; i++) {
        /* One-byte types may have any of | < > as byte order. */
        const bool one_byte = types[i].size == 1 && strlen(descr) == 3;
        if (strcmp(descr, types[i].descr) == 0 ||
            (one_byte && strcmp(descr + 1, types[i].descr + 1) == 0)) {
            *type = (lab_npy_type)i;
            return true;
        }
    }
    if (strcmp(descr, "bfloat16") == 0) { /* the type's own name */
        *type = LAB_NPY_BFLOAT16;
        return true;
    }
    if (descr[0] == '>')
        return lab_fail(c->why, "%s: big-endian elements ('%s'); save little-endian", c->path,
                        descr);
    return lab_fail(c->why, "%s: elements of type '%s' are not served", c->path, descr);
}

static bool read_dimension(cursor *c, int64_t *out) {
    int64_t value = 0;
    const char *start = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!att_mul(value, 10, &value) || !att_add(value, *c->at - '0', &value))
            return lab_fail(c->why, "%s: a dimension does not fit 63 bits", c->path);
    if (c->at == start)
        return malformed(c, "'shape' holds something that is not a size");
    if (c->at < c->end && *c->at == 'L') /* written by Python 2 */
        c->at++;
    *out = value;
    return true;
}

static bool read_shape(cursor *c, lab_npy *out) {
    if (!accept(c, '('))
        return malformed(c, "'shape' is not a tuple");
    out->dims = 0;
    while (!accept(c, ')')) {
        if (out->dims == LAB_NPY_MAX_DIMS)
            return lab_fail(c->why, "%s: more than %d dimensions", c->path, LAB_NPY_MAX_DIMS);
        skip_spaces(c);
        if (!read_dimension(c, &out->shape[out->dims]))
            return false;
        out->dims++;
        if (!accept(c, ',')) {
            if (!accept(c, ')'))
                return malformed(c, "'shape' is not closed");
            break;
        }
    }
    return true;
}

static bool read_dictionary(cursor *c, lab_npy *out) {
    bool has_type = false, has_order = false, has_shape = false;
    if (!accept(c, '{'))
        return malformed(c, "no dictionary");
    while (!accept(c, '}')) {
        char key[32];
        if (!read_string(c, key, sizeof key) || !accept(c, ':'))
            return malformed(c, "a key is missing");
        if (strcmp(key, "descr") == 0 && !has_type) {
            has_type = true;
            if (!read_type(c, &out->type))
                return false;
        } else if (strcmp(key, "shape") == 0 && !has_shape) {
            has_shape = true;
            if (!read_shape(c, out))
                return false;
        } else if (strcmp(key, "fortran_order") == 0 && !has_order) {
            has_order = true;
            if (accept_word(c, "True"))
                return lab_fail(
                    c->why, "%s: Fortran order; save np.ascontiguousarray(x) instead", c->path);
            if (!accept_word(c, "False"))
                return malformed(c, "'fortran_order' is neither True nor False");
        } else {
            return malformed(c, "an unknown or repeated key");
        }
        if (!accept(c, ',')) {
            if (!accept(c, '}'))
                return malformed(c, "the dictionary is not closed");
            break;
        }
    }
    skip_spaces(c);
    if (c->at != c->end)
        return malformed(c, "text after the dictionary");
    if (!has_type || !has_order || !has_shape)
        return malformed(c, "'descr', 'fortran_order' or 'shape' is missing");
    return true;
}

bool lab_npy_shape_bytes(lab_npy_type type, int dims, const int64_t *shape, int64_t *count,
                         int64_t *bytes, const char *path, lab_message *why) {
    /* Sizes are multiplied as if none were 0, so that a 0 cannot hide an absurd one. */
    int64_t elements = 1, spanned = 1;
    bool fits = true;
    for (int i = 0; i < dims; i++) {
        fits = fits && att_mul(spanned, shape[i] ? shape[i] : 1, &spanned);
        elements = shape[i] ? elements : 0;
    }
    fits = fits && att_mul(spanned, (int64_t)types[type].size, &spanned);
    if (!fits)
        return lab_fail(why, "%s: the size of the shape does not fit 63 bits", path);
    *bytes = elements ? spanned : 0;
    *count = *bytes / (int64_t)types[type].size;
    return true;
}

bool lab_npy_header_parse(lab_npy *out, size_t *data_offset, const unsigned char *bytes,
                          size_t n, const char *path, lab_message *why) {
    if (n < PREFIX_V1 || memcmp(bytes, magic, sizeof magic) != 0)
        return lab_fail(why, "%s: not a .npy file", path);
    const int version = bytes[6];
    if (version < 1 || version > 3)
        return lab_fail(why, "%s: .npy version %d is not known", path, version);
    const size_t prefix = version == 1 ? PREFIX_V1 : PREFIX_V2;
    if (n < prefix)
        return lab_fail(why, "%s: truncated in its header", path);
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (version > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > LAB_NPY_HEADER_MAX)
        return lab_fail(why, "%s: a .npy header of %zu bytes; at most %d are read", path,
                        length, LAB_NPY_HEADER_MAX);
    if (length > n - prefix)
        return lab_fail(why, "%s: truncated in its header", path);

    const char *text = (const char *)bytes + prefix;
    cursor c = {.at = text, .end = text + length, .path = path, .why = why};
    if (!read_dictionary(&c, out))
        return false;
    int64_t data_bytes = 0;
    if (!lab_npy_shape_bytes(out->type, out->dims, out->shape, &out->count, &data_bytes, path,
                             why))
        return false;
    *data_offset = prefix + length;
    const size_t present = n - *data_offset;
    if ((uint64_t)data_bytes > present)
        return lab_fail(why,
                        "%s: truncated: the header names %" PRId64
                        " bytes of elements, the file has %zu",
                        path, data_bytes, present);
    if (*data_offset % types[out->type].size != 0)
        return lab_fail(why,
                        "%s: elements begin at byte %zu, not a multiple of their size; save it "
                        "again with np.save",
                        path, *data_offset);
    return true;
}

size_t lab_npy_header_format(char out[512], lab_npy_type type, int dims, const int64_t *shape) {
    char sizes[LAB_NPY_MAX_DIMS * 22 + 1] = "";
    size_t used = 0;
    for (int i = 0; i < dims; i++)
        used += (size_t)snprintf(sizes + used, sizeof sizes - used, "%s%" PRId64, i ? ", " : "",
                                 shape[i]);
    char text[384];
    const int written = snprintf(text, sizeof text,
                                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                                 types[type].descr, sizes, dims == 1 ? "," : "");
    const size_t with_newline = PREFIX_V1 + (size_t)written + 1;
    const size_t total = (with_newline + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    const size_t length = total - PREFIX_V1;
    memset(out, ' ', total);
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)(length & 0xff);
    out[9] = (char)(length >> 8);
    memcpy(out + PREFIX_V1, text, (size_t)written);
    out[total - 1] = '\n';
    return total;
}
