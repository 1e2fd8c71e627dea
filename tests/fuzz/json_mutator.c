/* json_mutator.c: mutations that keep a document valid JSON while values change: random bytes
 * rarely leave one valid. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/text_input.h"

static const char *const values[] = {"0",
                                     "-1",
                                     "1e308",
                                     "-1e308",
                                     "1e-320",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "null",
                                     "true",
                                     "[]",
                                     "{}",
                                     "\"\"",
                                     "\"<script>\"",
                                     "\"\\\"><img onerror=x>\"",
                                     "[[]]",
                                     "[null]",
                                     "0.5",
                                     "\"%s%n\"",
                                     "3",
                                     "\"b1h1s1d1\"",
                                     "\"b9h9s99999d64,varlen\"",
                                     "-0.0",
                                     "[1,2,3]",
                                     "1e18",
                                     "{\"a\":1}",
                                     "4294967296",
                                     "2147483648",
                                     "\"\\u001b[2J\"",
                                     "1e-9",
                                     "[1e-9]",
                                     "\"cuda\"",
                                     "\"pass\"",
                                     "[0.1,0.2,0.3,0.4,0.5]",
                                     "\"merge:n2b1h1s1d8\"",
                                     "\"backward:b1h2s4d8,sinks,dsinks\""};

/* The end of the value that begins at `at`: a string, a number, everything between brackets. */
static size_t value_end(const uint8_t *data, size_t size, size_t at) {
    int depth = 0;
    bool quoted = false;
    for (; at < size; at++) {
        const uint8_t c = data[at];
        if (quoted) {
            if (c == '\\')
                at++;
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            depth++;
        } else if (c == ']' || c == '}') {
            if (depth == 0)
                return at;
            depth--;
        } else if (c == ',' && depth == 0) {
            return at;
        }
    }
    return size;
}

/* The start of a value at or after a random position; `size` if there is none. */
static size_t value_start(const uint8_t *data, size_t size) {
    size_t at = (size_t)rand() % size;
    while (at < size && data[at] != ':' && data[at] != '[' && data[at] != ',')
        at++;
    at += at < size;
    while (at < size && data[at] <= ' ')
        at++;
    return at;
}

static size_t replace(uint8_t *data, size_t size, size_t most, size_t from, size_t to,
                      const void *with, size_t length) {
    if (size - (to - from) + length > most)
        return size;
    memmove(data + from + length, data + to, size - to);
    memcpy(data + from, with, length);
    return size - (to - from) + length;
}

/* Replace a value with another, with a copy from elsewhere in the document, or with nothing. */
static size_t change_value(uint8_t *data, size_t size, size_t most) {
    const size_t from = value_start(data, size);
    if (from >= size)
        return size;
    const size_t to = value_end(data, size, from);
    const char *value = values[(size_t)rand() % (sizeof values / sizeof values[0])];
    if (rand() % 4 != 0)
        return replace(data, size, most, from, to, value, strlen(value));
    const size_t other = value_start(data, size), end = value_end(data, size, other);
    if (other >= size)
        return size;
    uint8_t *copy = malloc(end - other + 1);
    if (!copy)
        return size;
    memcpy(copy, data + other, end - other);
    size = replace(data, size, most, from, to, copy, end - other);
    free(copy);
    return size;
}

size_t mutate_json(uint8_t *data, size_t size, size_t most, unsigned seed) {
    srand(seed);
    if (size < 2 || rand() % 5 == 0)
        return LLVMFuzzerMutate(data, size, most);
    for (int n = 1 + rand() % 3; n > 0; n--)
        size = change_value(data, size, most);
    return size;
}
