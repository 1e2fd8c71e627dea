/* code_text.c: a small scanner, in two passes over the text. */
#include "lab/evidence/code_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* The end of the string or character literal that begins at text[i]. */
static size_t end_of_literal(const char *text, size_t size, size_t i) {
    const char quote = text[i];
    for (i++; i < size && text[i] != quote && text[i] != '\n'; i++)
        if (text[i] == '\\')
            i++;
    return i < size ? i + 1 : size;
}

static size_t end_of_comment(const char *text, size_t size, size_t i) {
    if (text[i + 1] == '/') {
        while (i < size && text[i] != '\n')
            i++;
        return i;
    }
    for (i += 2; i + 1 < size; i++)
        if (text[i] == '*' && text[i + 1] == '/')
            return i + 2;
    return size;
}

static bool is_literal(char c) {
    return c == '"' || c == '\'';
}

static bool is_joint(const char *text, size_t size, size_t i) {
    return text[i] == '\\' && i + 1 < size && text[i + 1] == '\n';
}

/* Replace comments with spaces and join continued lines. */
static size_t strip(char *text, size_t size) {
    size_t out = 0;
    for (size_t i = 0; i < size;) {
        if (is_joint(text, size, i)) {
            i += 2;
        } else if (is_literal(text[i])) {
            const size_t end = end_of_literal(text, size, i);
            memmove(text + out, text + i, end - i);
            out += end - i;
            i = end;
        } else if (text[i] == '/' && i + 1 < size &&
                   (text[i + 1] == '/' || text[i + 1] == '*')) {
            i = end_of_comment(text, size, i);
            text[out++] = ' ';
        } else {
            text[out++] = text[i++];
        }
    }
    return out;
}

static bool stands_alone(char c) {
    return strchr("()[]{};,\n", c) && c;
}

/* Reduce whitespace, including newlines outside directives, to one space at most. A directive
 * starts a line: it reuses the room of the newline before it, which was removed. */
static size_t squeeze(char *text, size_t size) {
    size_t out = 0;
    bool directive = false, blank = false, fresh = true;
    for (size_t i = 0; i < size;) {
        const char c = text[i];
        if (c == '\n') {
            if (directive)
                text[out++] = '\n';
            blank = !directive;
            directive = false;
            fresh = true;
            i++;
        } else if (isspace((unsigned char)c)) {
            blank = true;
            i++;
        } else {
            const bool begins = !directive && fresh && c == '#';
            if (begins && out > 0 && text[out - 1] != '\n')
                text[out++] = '\n';
            directive = directive || begins;
            const char before = out > 0 ? text[out - 1] : '\n';
            if (blank && before != '\n' &&
                (directive ? before != '#' : (!stands_alone(before) && !stands_alone(c))))
                text[out++] = ' ';
            blank = fresh = false;
            const size_t end = is_literal(c) ? end_of_literal(text, size, i) : i + 1;
            memmove(text + out, text + i, end - i);
            out += end - i;
            i = end;
        }
    }
    return out;
}

size_t lab_text_normalise(char *text, size_t size) {
    return squeeze(text, strip(text, size));
}

int lab_text_next_include(const char *text, size_t size, size_t *at, char *name, size_t n) {
    static const char word[] = "#include \"";
    const size_t length = sizeof word - 1;
    for (size_t i = *at; i + length < size; i++) {
        if ((i > 0 && text[i - 1] != '\n') || memcmp(text + i, word, length) != 0)
            continue;
        const char *begin = text + i + length;
        const char *end = memchr(begin, '"', size - i - length);
        if (!end)
            break;
        const size_t wanted = (size_t)(end - begin), kept = wanted < n ? wanted : n - 1;
        memcpy(name, begin, kept);
        name[kept] = '\0';
        *at = (size_t)(end - text);
        return 1;
    }
    *at = size;
    return 0;
}
