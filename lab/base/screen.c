/* screen.c: the width and the colours of a terminal, and text that fits it. */
#include "lab/base/screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_LEAST = 40, COLUMNS_MOST = 1000 };

size_t lab_screen_columns(FILE *stream, size_t fallback) {
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

bool lab_screen_is_live(FILE *stream) {
    const char *term = getenv("TERM");
    return isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0;
}

bool lab_screen_has_color(FILE *stream) {
    const char *no_color = getenv("NO_COLOR");
    return lab_screen_is_live(stream) && (!no_color || !*no_color);
}

/* The open stream. */
static struct {
    FILE *text, *under;
    size_t columns;
    bool color;
} screen;

void lab_screen_open(FILE *text, FILE *under) {
    screen.text = text;
    screen.under = under;
    screen.columns = isatty(fileno(under)) ? lab_screen_columns(under, LAB_COLUMNS_USUAL) : 0;
    screen.color = lab_screen_has_color(under);
}

size_t lab_screen_width(FILE *text) {
    return text == screen.text ? screen.columns : 0;
}

void lab_screen_tint(FILE *text, lab_tint tint) {
    static const char *const codes[] = {[LAB_TINT_NONE] = "\033[0m",
                                        [LAB_TINT_GOOD] = "\033[32m",
                                        [LAB_TINT_BAD] = "\033[1;31m",
                                        [LAB_TINT_DOUBT] = "\033[33m"};
    if (text != screen.text || !screen.color)
        return;
    fflush(text); /* the code goes past it, behind what it holds */
    fputs(codes[tint], screen.under);
}

static lab_tint tint_of(const char *word) {
    static const struct {
        const char *word;
        lab_tint tint;
    } words[] = {
        {"pass", LAB_TINT_GOOD},       {"passed", LAB_TINT_GOOD},     {"ok", LAB_TINT_GOOD},
        {"caught", LAB_TINT_GOOD},     {"holds", LAB_TINT_GOOD},      {"FASTER", LAB_TINT_GOOD},
        {"FAIL", LAB_TINT_BAD},        {"fail", LAB_TINT_BAD},        {"MISSED", LAB_TINT_BAD},
        {"ACCUSED", LAB_TINT_BAD},     {"SLOWER", LAB_TINT_BAD},      {"LOST", LAB_TINT_BAD},
        {"refused", LAB_TINT_DOUBT},   {"no memory", LAB_TINT_DOUBT}, {"warn", LAB_TINT_DOUBT},
        {"AMBIGUOUS", LAB_TINT_DOUBT}, {"note", LAB_TINT_DOUBT},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].tint;
    return LAB_TINT_NONE;
}

void lab_put_verdict(FILE *text, const char *word) {
    const lab_tint tint = tint_of(word);
    if (tint)
        lab_screen_tint(text, tint);
    fputs(word, text);
    if (tint)
        lab_screen_tint(text, LAB_TINT_NONE);
}

void lab_put_wrapped(FILE *stream, const char *text, size_t indent, size_t width) {
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
