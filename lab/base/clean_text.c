/* clean_text.c: control codes replaced, in a string or in a stream. */
#include "lab/base/clean_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "lab/base/characters.h"

char *lab_clean_line(char *text) {
    char *to = text;
    size_t length;
    for (const char *from = text; *from; from += length) {
        const bool blank = *from == '\n' || *from == '\t';
        if (!lab_is_harmful(lab_next_character(from, &length))) {
            memmove(to, from, length);
            to += length;
        } else {
            *to++ = blank ? ' ' : '?';
        }
    }
    *to = '\0';
    return text;
}

enum { CHARACTER_MOST = 4 };

typedef struct cleaner {
    FILE *under;
    char pending[CHARACTER_MOST + 1]; /* the first bytes of a character that is not complete
                                       * yet */
    size_t count;
} cleaner;

static void put_pending(cleaner *c) {
    c->pending[c->count] = '\0';
    size_t length = 1;
    const uint32_t code = lab_next_character(c->pending, &length);
    if (c->pending[0] == '\n' || c->pending[0] == '\t' || !lab_is_harmful(code))
        fwrite(c->pending, 1, length, c->under);
    else
        fputc('?', c->under);
    c->count -= length;
    memmove(c->pending, c->pending + length, c->count);
}

/* The length in bytes of the character that begins with `first`; 1 if none does. */
static size_t wanted(char first) {
    const unsigned char byte = (unsigned char)first;
    return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

static ssize_t clean_write(void *cookie, const char *bytes, size_t n) {
    cleaner *c = cookie;
    for (size_t i = 0; i < n; i++) {
        c->pending[c->count++] = bytes[i];
        while (c->count > 0 && c->count >= wanted(c->pending[0]))
            put_pending(c);
    }
    return fflush(c->under) == 0 && !ferror(c->under) ? (ssize_t)n : -1;
}

static int clean_close(void *cookie) {
    cleaner *c = cookie;
    while (c->count > 0)
        put_pending(c);
    const int result = fflush(c->under);
    free(c);
    return result;
}

FILE *lab_clean_stream(FILE *under) {
    cleaner *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->under = under;
    const cookie_io_functions_t functions = {.write = clean_write, .close = clean_close};
    FILE *stream = fopencookie(c, "w", functions);
    if (!stream)
        free(c);
    else
        setvbuf(stream, NULL, isatty(fileno(under)) ? _IOLBF : _IOFBF, BUFSIZ);
    return stream;
}
