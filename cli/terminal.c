/* terminal.c: the width of a terminal, and text that fits it. */
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

enum { COLUMNS_LEAST = 40, COLUMNS_MOST = 1000 };

size_t cli_columns(FILE *stream, size_t fallback) {
    struct winsize size;
    const char *given = getenv("COLUMNS");
    const long asked = given ? strtol(given, NULL, 10) : 0;
    size_t columns = fallback;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        columns = size.ws_col;
    else if (asked > 0)
        columns = (size_t)asked;
    return columns < COLUMNS_LEAST  ? COLUMNS_LEAST
           : columns > COLUMNS_MOST ? COLUMNS_MOST
                                    : columns;
}

void cli_put_wrapped(FILE *stream, const char *text, size_t indent, size_t width) {
    size_t column = indent;
    while (*text) {
        const size_t word = strcspn(text, " ");
        if (column > indent && column + 1 + word > width) {
            fprintf(stream, "\n%*s", (int)indent, "");
            column = indent;
        }
        if (column > indent) {
            fputc(' ', stream);
            column++;
        }
        fwrite(text, 1, word, stream);
        column += word;
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}
